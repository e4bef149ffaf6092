"""What ``bench`` is to time, in which order, and on which prompts; decided before anything is loaded."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from draftscope.cli.options import demo_prompts, model_settings, prompts_of, with_given
from draftscope.cli.prompts import RunPrompt
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    ModelSettings,
    Replay,
    SlotTask,
)

Item = TypeVar("Item")

RUNNING_IN_TOKENS = 32
"""Tokens a slot before each run; without them runs of tiny models were measured 7 to 20 % slower than a second one."""

Group = list[tuple[int, SlotTask]]
"""Pairs of a prompt's index and its task, one a slot, which start together."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One setting that is timed; ``mode`` None: without MTP, which is the baseline of its number of slots."""

    n_slots: int
    mode: CheckpointMode | None
    n_draft_max: int = 0
    replay: Replay = Replay.MEASURED

    @property
    def label(self) -> str:
        """Its name for a person, without the number of slots."""
        if self.mode is None:
            return "without MTP"
        way = "" if self.replay is Replay.MEASURED else f", replay {self.replay.value}"
        return f"{self.mode.value}, draft {self.n_draft_max}{way}"

    def context(self, common: ContextSettings) -> ContextSettings:
        """Its contexts, with what all variants have in common."""
        context = replace(common, n_slots=self.n_slots, use_mtp=self.mode is not None, replay=self.replay)
        return context if self.mode is None else replace(context, n_draft_max=self.n_draft_max, checkpoint=self.mode)


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """Everything that a bench does: ``n_repeats`` counted runs of each variant after one that is not counted."""

    model: ModelSettings
    common: ContextSettings
    prompts: tuple[RunPrompt, ...]
    stop: tuple[str, ...]
    ignore_eos: bool
    variants: tuple[Variant, ...]
    n_repeats: int

    def order(self, repeat: int) -> list[int]:
        """The variants of a repeat by index (0: the warm-up), those of one slot count one after the other.

        Each repeat begins one further on, both with the slot counts and with the variants of each, so that none has
        always the same moment in a repeat; the same every time.
        """
        by_slots: dict[int, list[int]] = {}
        for index, variant in enumerate(self.variants):
            by_slots.setdefault(variant.n_slots, []).append(index)
        return [index for group in _rotated(list(by_slots.values()), repeat) for index in _rotated(group, repeat)]

    def groups(self, n_slots: int) -> list[Group]:
        """The tasks of one run: every prompt at least once, so many at a time as there are slots, no slot left out."""
        n_groups = -(-len(self.prompts) // n_slots)
        starts = range(0, n_groups * n_slots, n_slots)
        return [[self._task(first + slot, slot) for slot in range(n_slots)] for first in starts]

    def running_in(self, n_slots: int) -> Group:
        """What new contexts do before a run, uncounted: first decodes are slower, and costs are yet to be learned."""
        return [
            (prompt, replace(task, max_tokens=min(task.max_tokens, RUNNING_IN_TOKENS)))
            for prompt, task in self.groups(n_slots)[0]
        ]

    def _task(self, number: int, slot: int) -> tuple[int, SlotTask]:
        prompt = number % len(self.prompts)
        chosen = self.prompts[prompt]
        task = SlotTask(slot, chosen.prompt, chosen.sampling, chosen.max_tokens, self.stop, self.ignore_eos)
        # Every run reads its prompts from their beginning, whatever ran contexts in with the same ones.
        task = replace(task, grammar=chosen.grammar, json_schema=chosen.json_schema, reuse=False)
        return prompt, task


def _rotated(items: Sequence[Item], by: int) -> list[Item]:
    at = by % len(items)
    return [*items[at:], *items[:at]]


def make_bench_plan(options: argparse.Namespace) -> BenchPlan:
    """Check the options against each other and fill in what they leave out.

    Raises:
        UsageError: options that exclude each other, or are not built in this version.
        InputError: the prompts file cannot be used.
    """
    prompts = [with_given(prompt, options) for prompt in prompts_of(options) or _plain_texts()]
    common = ContextSettings(n_threads=options.threads)
    return BenchPlan(
        model=model_settings(options),
        common=common if options.ctx is None else replace(common, n_ctx=options.ctx),
        prompts=tuple(prompts),
        stop=tuple(options.stop),
        ignore_eos=options.ignore_eos,
        variants=tuple(_variants(options)),
        n_repeats=options.repeat,
    )


def _plain_texts() -> list[RunPrompt]:
    """Prompts for any model that has a tokenizer: chats would need a template."""
    return [RunPrompt(prompt.prompt) for prompt in demo_prompts() if prompt.prompt.text]


def _variants(options: argparse.Namespace) -> list[Variant]:
    variants = []
    for n_slots in options.slots:
        if options.has_baseline:
            variants.append(Variant(n_slots, None))
        variants += [
            Variant(n_slots, mode, n_draft, replay)
            for mode in options.modes
            for n_draft in options.draft_max
            for replay in options.replay
        ]
    return variants
