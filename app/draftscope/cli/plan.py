"""What a run is to do, decided from the options before anything is loaded."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace

from draftscope.cli.failure import UsageError
from draftscope.cli.format_options import format_of
from draftscope.cli.options import DEMO, context_settings, model_settings, prompts_of, with_given
from draftscope.cli.prompts import RunPrompt, deal
from draftscope.cli.slot_files import SlotFile, check_slot_files
from draftscope.engine.probes import ProbeLevel
from draftscope.engine.protocol import ANY_SLOT, ContextSettings, ModelSettings, Prompt, SlotFacts, SlotTask

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
    may_reuse: bool = True
    restored: tuple[SlotFile, ...] = ()
    saved: tuple[SlotFile, ...] = ()
    probe: ProbeLevel = ProbeLevel.OFF

    def tasks(self, n_slots: int, held: Mapping[int, SlotFacts] | None = None) -> tuple[Tasks, Tasks]:
        """The tasks to start together on the slots that the engine granted, and those that wait for a free slot.

        ``held``: what slots hold that were restored. Their first prompts are appended to that, unless they are
        conversations or begin with its text.
        """
        held = held or {}
        first, waiting = deal(len(self.prompts), n_slots)
        if self.just_goes_on:
            first = [(slot, index) for index, slot in enumerate(sorted(held))]
        return (
            [(p, self._task(slot, p, held.get(slot))) for slot, p in first],
            [(p, self._task(ANY_SLOT, p, None)) for p in waiting],
        )

    @property
    def just_goes_on(self) -> bool:
        """Whether there are no prompts, and restored slots go on from what they hold."""
        return bool(self.restored) and all(prompt.prompt.is_continuation for prompt in self.prompts)

    def _task(self, slot: int, prompt: int, held: SlotFacts | None) -> SlotTask:
        chosen = self.prompts[prompt]
        content = chosen.prompt
        if held is not None and not _begins_with(content, held):
            content = replace(content, is_continuation=True)
        return SlotTask(
            slot,
            content,
            chosen.sampling,
            chosen.max_tokens,
            self.stop,
            self.ignore_eos,
            reuse=self.may_reuse,
            grammar=chosen.grammar,
            json_schema=chosen.json_schema,
        )


def _begins_with(prompt: Prompt, held: SlotFacts) -> bool:
    """Whether a prompt holds all that the slot holds, as text or tokens, or is a conversation, which begins anew."""
    if prompt.messages:
        return True
    if prompt.tokens:
        return prompt.tokens[: len(held.tokens)] == held.tokens
    return bool(prompt.text) and prompt.text.startswith(held.text)


def make_plan(options: argparse.Namespace) -> Plan:
    """Check the options against each other and fill in what they leave out.

    Raises:
        UsageError: options that exclude each other, or miss each other.
        InputError: the prompts file, or that of a grammar or schema, cannot be used.
    """
    model = model_settings(options)
    check_slot_files(options)
    prompts = [with_given(prompt, options) for prompt in _prompts(options)]
    if not prompts:
        raise UsageError("There is nothing to generate from.", "Give --prompt TEXT or --prompts FILE.jsonl.")
    if (chosen := format_of(options)) is not None:
        prompts = [replace(prompt, grammar=chosen[0], json_schema=chosen[1]) for prompt in prompts]
    if options.trace is not None and not options.trace.parent.is_dir():
        raise UsageError(f"The folder {options.trace.parent} for the trace does not exist.", "Make it first.")
    return Plan(
        model=model,
        context=_context(options, len(prompts)),
        prompts=tuple(prompts),
        stop=tuple(options.stop),
        ignore_eos=options.ignore_eos,
        may_reuse=not options.no_reuse,
        restored=tuple(options.restore_slot),
        saved=tuple(options.save_slot),
        probe=ProbeLevel(options.probe),
    )


def _prompts(options: argparse.Namespace) -> list[RunPrompt]:
    """The prompts; where slots are restored and none is given, an empty continuation for each of them."""
    prompts = prompts_of(options)
    if not options.restore_slot or options.prompt or options.prompts:
        return prompts
    like = prompts[0] if prompts else RunPrompt(Prompt())
    return [replace(like, prompt=Prompt(is_continuation=True))] * len(options.restore_slot)


def _context(options: argparse.Namespace, n_prompts: int) -> ContextSettings:
    is_demo = options.model == DEMO and not options.prompt and not options.restore_slot
    n_slots = MAX_DEFAULT_SLOTS if is_demo else min(n_prompts, MAX_DEFAULT_SLOTS)
    named = [file.slot for file in (*options.restore_slot, *options.save_slot)]
    if options.slots and named and max(named) >= options.slots:
        what = f"There is no slot {max(named)} among {options.slots}, which are counted from 0."
        raise UsageError(what, "Give more --slots, or name another slot.")
    n_slots = max([n_slots, *(slot + 1 for slot in named)])
    return context_settings(options, options.slots or n_slots)
