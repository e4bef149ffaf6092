"""What ``bench`` is to time, in which order, and on which prompts; decided before anything is loaded."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from draftscope.cli.edit_workload import EditWorkload, bundled_conversations
from draftscope.cli.failure import UsageError
from draftscope.cli.options import demo_prompts, model_settings, prompts_of, with_given, with_slot_memory
from draftscope.cli.prompts import RunPrompt
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    ModelSettings,
    Prompt,
    Replay,
    SlotTask,
)

Item = TypeVar("Item")

RUNNING_IN_TOKENS = 32
"""Tokens a slot before each run; without them runs of tiny models were measured 7 to 20 % slower than a second one."""

Group = list[tuple[int, SlotTask]]
"""Pairs of a prompt's index and its task, one a slot, which start together."""


class Workload(StrEnum):
    """What is run: each prompt by itself, or conversations of which an earlier turn is edited."""

    PROMPTS = "prompts"
    EDIT = "edit"


class Start(StrEnum):
    """What a prompt of a conversation starts from: nothing, or what its slot holds, with its hidden rows or without."""

    FRESH = "fresh prefill"
    RESTORED = "restored"
    WITHOUT_HOOKS = "restored without hooks"


@dataclass(frozen=True, slots=True)
class Step:
    """Tasks that start together. Those that are not measured make what the measured ones start from."""

    group: Group
    is_measured: bool = True


@dataclass(frozen=True, slots=True)
class Variant:
    """One setting that is timed; ``mode`` None: without MTP, which is the baseline of its number of slots.

    ``start``: of conversations only.
    """

    n_slots: int
    mode: CheckpointMode | None
    n_draft_max: int = 0
    replay: Replay = Replay.MEASURED
    start: Start | None = None

    @property
    def label(self) -> str:
        """Its name for a person, without the number of slots."""
        start = "" if self.start is None else f", {self.start.value}"
        if self.mode is None:
            return f"without MTP{start}"
        way = "" if self.replay is Replay.MEASURED else f", replay {self.replay.value}"
        return f"{self.mode.value}, draft {self.n_draft_max}{way}{start}"

    def context(self, common: ContextSettings) -> ContextSettings:
        """Its contexts, with what all variants have in common."""
        has_hooks = self.start is not Start.WITHOUT_HOOKS
        context = replace(common, n_slots=self.n_slots, use_mtp=self.mode is not None, replay=self.replay)
        context = replace(context, use_hooks=has_hooks)
        return context if self.mode is None else replace(context, n_draft_max=self.n_draft_max, checkpoint=self.mode)


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """Everything that a bench does: ``n_repeats`` counted runs of each variant after one that is not counted.

    ``edit``: whose prompts these are, those of a conversation one after the other; until ``with_prompts`` there is only
    an empty one, which says how is generated. None where each prompt is by itself.
    """

    model: ModelSettings
    common: ContextSettings
    prompts: tuple[RunPrompt, ...]
    stop: tuple[str, ...]
    ignore_eos: bool
    variants: tuple[Variant, ...]
    n_repeats: int
    edit: EditWorkload | None = None

    def with_prompts(self, prompts: Sequence[Prompt]) -> BenchPlan:
        """The plan with these prompts, which are generated from as the first one was."""
        return replace(self, prompts=tuple(replace(self.prompts[0], prompt=prompt) for prompt in prompts))

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

    def steps(self, variant: Variant) -> Iterator[Step]:
        """What a run of the variant does, in order."""
        if self.edit is None:
            yield from (Step(group) for group in self.groups(variant.n_slots))
            return
        n_turns, n_slots = self.edit.n_prompts_each, variant.n_slots
        n_conversations = len(self.edit.conversations)
        for first in range(0, n_conversations, n_slots):
            talks = [(slot, (first + slot) % n_conversations) for slot in range(n_slots)]
            for turn in range(n_turns):
                tasks = [self._task(talk * n_turns + turn, slot) for slot, talk in talks]
                may_reuse = turn > 0 and variant.start is not Start.FRESH
                group = [(prompt, replace(task, reuse=may_reuse)) for prompt, task in tasks]
                yield Step(group, is_measured=turn + 1 == n_turns)

    def place_of(self, prompt: int) -> str:
        """Which prompt that is, for a person."""
        if self.edit is None:
            return f"prompt {prompt + 1}"
        talk, turn = divmod(prompt, self.edit.n_prompts_each)
        is_last = turn + 1 == self.edit.n_prompts_each
        return f"conversation {talk + 1}, {'the edit' if is_last else f'turn {turn + 1}'}"

    def running_in(self, n_slots: int) -> Group:
        """What new contexts do before a run, uncounted: first decodes are slower, and costs are yet to be learned."""
        return [
            (prompt, replace(task, max_tokens=min(task.max_tokens, RUNNING_IN_TOKENS)))
            for prompt, task in self.groups(n_slots)[0]
        ]

    def _task(self, number: int, slot: int) -> tuple[int, SlotTask]:
        prompt = number % len(self.prompts)
        return prompt, self.task(self.prompts[prompt], slot)

    def task(self, chosen: RunPrompt, slot: int) -> SlotTask:
        """Generate from this prompt in this slot, from the prompt's beginning."""
        task = SlotTask(slot, chosen.prompt, chosen.sampling, chosen.max_tokens, self.stop, self.ignore_eos)
        # Every run reads its prompts from their beginning, whatever ran contexts in with the same ones.
        return replace(task, grammar=chosen.grammar, json_schema=chosen.json_schema, reuse=False)


def _rotated(items: Sequence[Item], by: int) -> list[Item]:
    at = by % len(items)
    return [*items[at:], *items[:at]]


def make_bench_plan(options: argparse.Namespace) -> BenchPlan:
    """Check the options against each other and fill in what they leave out.

    Raises:
        UsageError: options that exclude each other, or are not built in this version.
        InputError: the prompts file cannot be used.
    """
    edit = _edit_workload(options)
    given = [RunPrompt(Prompt())] if edit else prompts_of(options) or _plain_texts()
    prompts = [with_given(prompt, options) for prompt in given]
    common = with_slot_memory(ContextSettings(n_threads=options.threads), options)
    return BenchPlan(
        model=model_settings(options),
        common=common if options.ctx is None else replace(common, n_ctx=options.ctx),
        prompts=tuple(prompts),
        stop=tuple(options.stop),
        ignore_eos=options.ignore_eos,
        variants=tuple(_variants(options)),
        n_repeats=options.repeat,
        edit=edit,
    )


def _edit_workload(options: argparse.Namespace) -> EditWorkload | None:
    if options.workload is Workload.PROMPTS:
        return None
    if options.prompt or options.prompts or options.chat:
        what = f"The workload {options.workload.value} brings its own conversations."
        raise UsageError(what, "Leave out --prompt, --prompts and --chat.")
    return EditWorkload(bundled_conversations())


def _plain_texts() -> list[RunPrompt]:
    """Prompts for any model that has a tokenizer: chats would need a template."""
    return [RunPrompt(prompt.prompt) for prompt in demo_prompts() if prompt.prompt.text]


def _variants(options: argparse.Namespace) -> list[Variant]:
    is_edit = options.workload is Workload.EDIT
    starts: tuple[Start | None, ...] = tuple(Start) if is_edit else (None,)
    default = (CheckpointMode.AUTO,) if is_edit else tuple(CheckpointMode)
    variants = []
    for n_slots in options.slots:
        if options.has_baseline:
            variants.append(Variant(n_slots, None, start=Start.RESTORED if is_edit else None))
        variants += [
            Variant(n_slots, mode, n_draft, replay, start)
            for mode in options.modes or default
            for n_draft in options.draft_max
            for replay in options.replay
            for start in starts
        ]
    return variants
