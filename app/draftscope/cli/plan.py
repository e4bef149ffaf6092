"""What a run is to do, decided from the options before anything is loaded."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from draftscope.base.paths import demo_model, resource
from draftscope.cli.failure import UsageError
from draftscope.cli.prompts import RunPrompt, deal, read_prompts
from draftscope.engine.protocol import (
    CatchUp,
    ChatMessage,
    CheckpointMode,
    ContextSettings,
    ModelSettings,
    Prompt,
    SlotTask,
)

DEMO = "demo"
"""The word that stands for the bundled model."""

MAX_DEFAULT_SLOTS = 4

Tasks = list[tuple[int, SlotTask]]
"""Pairs of a prompt's index and the task that runs it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings and prompts of one run."""

    model: ModelSettings
    context: ContextSettings
    prompts: tuple[RunPrompt, ...]
    stop: tuple[str, ...]
    ignore_eos: bool

    def tasks(self, n_slots: int) -> tuple[Tasks, Tasks]:
        """The tasks to start together on the slots that the engine granted, and those that wait for a free slot."""
        first, waiting = deal(len(self.prompts), n_slots)
        return [(p, self._task(slot, p)) for slot, p in first], [(p, self._task(0, p)) for p in waiting]

    def _task(self, slot: int, prompt: int) -> SlotTask:
        chosen = self.prompts[prompt]
        return SlotTask(slot, chosen.prompt, chosen.sampling, chosen.max_tokens, self.stop, self.ignore_eos)


def make_plan(options: argparse.Namespace) -> Plan:
    """Check the options against each other and fill in what they leave out.

    Raises:
        UsageError: options that exclude each other, miss each other, or are not built in this version.
        InputError: the prompts file cannot be used.
    """
    _refuse_what_is_not_built(options)
    prompts = [_with_given(prompt, options) for prompt in _prompts(options)]
    if options.trace is not None and not options.trace.parent.is_dir():
        raise UsageError(f"The folder {options.trace.parent} for the trace does not exist.", "Make it first.")
    return Plan(
        model=ModelSettings(
            path=str(demo_model()) if options.model == DEMO else options.model,
            n_gpu_layers=options.n_gpu_layers,
            devices=tuple(options.device),
            use_mmap=not options.no_mmap,
            rpc_servers=tuple(options.rpc),
        ),
        context=_context(options, len(prompts)),
        prompts=tuple(prompts),
        stop=tuple(options.stop),
        ignore_eos=options.ignore_eos,
    )


def _refuse_what_is_not_built(options: argparse.Namespace) -> None:
    if options.probe != "off":
        raise UsageError(f"Probing at level {options.probe} is not built in this version.", "Leave --probe at off.")


def _prompts(options: argparse.Namespace) -> list[RunPrompt]:
    if options.prompt and options.prompts:
        raise UsageError("--prompt and --prompts exclude each other.", "Give prompts in one of the two ways.")
    if options.chat and not options.prompt:
        raise UsageError("--chat needs --prompt.", 'In a prompts file, write {"messages": [...]} for a chat.')
    if any(not text for text in options.prompt or ()):
        raise UsageError("A --prompt is empty.", "Give it at least one character.")
    if options.prompts:
        return read_prompts(options.prompts)
    demo = read_prompts(resource("prompts", "demo.jsonl")) if options.model == DEMO else []
    if options.prompt:
        like = demo[0] if demo else RunPrompt(Prompt())
        return [replace(like, prompt=_prompt(text, is_chat=options.chat)) for text in options.prompt]
    if demo:
        return demo
    raise UsageError("There is nothing to generate from.", "Give --prompt TEXT or --prompts FILE.jsonl.")


def _prompt(text: str, *, is_chat: bool) -> Prompt:
    return Prompt(messages=(ChatMessage("user", text),)) if is_chat else Prompt(text=text)


def _with_given(prompt: RunPrompt, options: argparse.Namespace) -> RunPrompt:
    """The prompt with the options of the command line, which go before those of a prompts file."""
    return replace(
        prompt,
        sampling=replace(prompt.sampling, **_given_sampling(options)),
        max_tokens=prompt.max_tokens if options.max_tokens is None else options.max_tokens,
    )


def _context(options: argparse.Namespace, n_prompts: int) -> ContextSettings:
    n_slots = MAX_DEFAULT_SLOTS if options.model == DEMO and not options.prompt else min(n_prompts, MAX_DEFAULT_SLOTS)
    defaults = ContextSettings(n_slots=options.slots or n_slots, use_mtp=not options.no_mtp)
    given: dict[str, Any] = {"n_ctx": options.ctx, "n_draft_max": options.draft_max}
    return replace(
        defaults,
        checkpoint=CheckpointMode(options.checkpoint),
        n_threads=options.threads,
        catch_up=CatchUp(options.catch_up),
        **{name: value for name, value in given.items() if value is not None},
    )


def _given_sampling(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "temperature": options.temp,
        "seed": options.seed,
        "top_k": options.top_k,
        "top_p": options.top_p,
        "min_p": options.min_p,
        "repeat_penalty": options.repeat_penalty,
        "presence_penalty": options.presence_penalty,
    }
    return {name: value for name, value in given.items() if value is not None}
