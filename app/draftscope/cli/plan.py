"""What a run is to do, decided from the options before anything is loaded."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from draftscope.cli.failure import UsageError
from draftscope.cli.format_options import format_of
from draftscope.cli.options import DEMO, model_settings, prompts_of, with_given
from draftscope.cli.prompts import RunPrompt, deal
from draftscope.engine.protocol import (
    ANY_SLOT,
    CatchUp,
    CheckpointMode,
    ContextSettings,
    ModelSettings,
    Replay,
    SlotTask,
)

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
        return [(p, self._task(slot, p)) for slot, p in first], [(p, self._task(ANY_SLOT, p)) for p in waiting]

    def _task(self, slot: int, prompt: int) -> SlotTask:
        chosen = self.prompts[prompt]
        return SlotTask(
            slot,
            chosen.prompt,
            chosen.sampling,
            chosen.max_tokens,
            self.stop,
            self.ignore_eos,
            grammar=chosen.grammar,
            json_schema=chosen.json_schema,
        )


def make_plan(options: argparse.Namespace) -> Plan:
    """Check the options against each other and fill in what they leave out.

    Raises:
        UsageError: options that exclude each other, miss each other, or are not built in this version.
        InputError: the prompts file, or that of a grammar or schema, cannot be used.
    """
    if options.probe != "off":
        raise UsageError(f"Probing at level {options.probe} is not built in this version.", "Leave --probe at off.")
    model = model_settings(options)
    prompts = [with_given(prompt, options) for prompt in prompts_of(options)]
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
        replay=Replay(options.replay),
        **{name: value for name, value in given.items() if value is not None},
    )
