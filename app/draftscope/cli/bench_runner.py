"""Drives a bench: one load, then new contexts and a run for one variant after the other, repeat by repeat."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from draftscope.cli.bench_plan import BenchPlan, Start, Variant
from draftscope.cli.bench_sample import Sample, Tally, sample_of
from draftscope.cli.generation import Generation, Outcome
from draftscope.engine.client import Client
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Records
from draftscope.engine.protocol import CheckpointMode, ContextSettings, ModelReport, Prompt

SAVING = ("cow", "device", "host")
"""Ways back that save states; with the others nothing is decoded again after a rejection."""

_REFUSALS = (ErrorCode.BAD_SETTINGS, ErrorCode.OUT_OF_MEMORY, ErrorCode.UNSUPPORTED_MODEL)
"""Of contexts: the variant is not to be had; others may be."""


@dataclass(slots=True)
class Measured:
    """What there is of a variant: its contexts, its counted samples in order, and why there are no (more) of them."""

    variant: Variant
    report: ModelReport | None = None
    samples: list[Sample] = field(default_factory=list)
    why_not: str = ""
    error: str = ""

    @property
    def is_going_on(self) -> bool:
        """Whether it is still timed."""
        return not (self.why_not or self.error)


@dataclass(slots=True)
class BenchResult:
    """Everything that was measured; ``order`` has the (repeat, variant index) pairs of the runs as they were made.

    ``plan``: with the prompts that were run. ``failure``: what ended it before its time.
    """

    plan: BenchPlan
    model: ModelReport
    measured: list[Measured]
    order: list[tuple[int, int]] = field(default_factory=list)
    is_interrupted: bool = False
    failure: EngineError | None = None
    elapsed_s: float = 0.0


class Watcher(Protocol):
    """Who is told how far a bench is."""

    def on_started(self, n_runs: int) -> None:
        """The model is loaded; so many runs follow if everything asked for is there."""
        ...

    def on_run(self, variant: Variant, repeat: int, left_s: float | None) -> None:
        """A run begins; ``left_s``: seconds until the end, None before anything was timed."""
        ...

    def on_estimate(self, left_s: float, n_runs: int) -> None:
        """What is left after the first run, and once more after the warm-up: ``n_runs`` of them."""
        ...


class Bench:
    """One bench on a client."""

    def __init__(self, plan: BenchPlan, client: Client, watcher: Watcher) -> None:
        self._plan = plan
        self._watcher = watcher
        self._tally = Tally()
        self._generation = Generation(client, self._tally)
        self._measured = [Measured(variant) for variant in plan.variants]
        self._durations_s: dict[int, float] = {}

    def run(self) -> BenchResult:
        """Load and measure. After a Ctrl-C, or when the engine fails: what there is until then.

        Raises:
            EngineError: it failed before anything was counted.
        """
        started = time.monotonic()
        with self._generation.interruptible():
            model = self._generation.load(self._plan.model, self._smallest())
            result = BenchResult(self._plan, model, self._measured)
            try:
                result.plan = self._plan = self._with_replies(model)
                self._measure(result)
            except EngineError as error:
                if not any(entry.samples for entry in self._measured):
                    raise
                result.failure = error
        result.is_interrupted = self._generation.is_interrupted
        result.elapsed_s = time.monotonic() - started
        return result

    def _with_replies(self, model: ModelReport) -> BenchPlan:
        """The plan with conversations that were written on the contexts of the load; as it is where there are none."""
        if self._plan.edit is None:
            return self._plan
        like = self._plan.prompts[0]

        def say(asked: dict[int, Prompt]) -> dict[int, str]:
            """The model's replies to prompts, by conversation."""
            replies: dict[int, str] = {}
            for first in range(0, len(asked), model.n_slots):
                numbers = list(asked)[first : first + model.n_slots]
                chosen = [replace(like, prompt=asked[number]) for number in numbers]
                tasks = [self._plan.task(prompt, slot) for slot, prompt in enumerate(chosen)]
                outcome = self._generation.run(list(zip(numbers, tasks, strict=True)))
                if outcome.is_interrupted:
                    return {}
                replies |= {number: result.text for number, result in outcome.results}
            return replies

        return self._plan.with_prompts(self._plan.edit.write(say, is_chat=model.has_chat_template))

    def _measure(self, result: BenchResult) -> None:
        n_variants = len(self._measured)
        steps = [(repeat, index) for repeat in range(1 + self._plan.n_repeats) for index in self._plan.order(repeat)]
        self._watcher.on_started(len(steps))
        for number, (repeat, index) in enumerate(steps):
            if self._generation.is_interrupted:
                return
            entry, n_before = self._measured[index], len(result.order)
            if entry.is_going_on:
                self._watcher.on_run(entry.variant, repeat, self._left_s(steps[number:]))
                self._run_once(result, repeat, index)
            is_first = len(result.order) == 1 > n_before
            if is_first or number + 1 == n_variants:
                self._tell_estimate(steps[number + 1 :])

    def _smallest(self) -> ContextSettings:
        """Contexts to load with, which no variant needs: those that ask least of the model and of memory."""
        return Variant(min(variant.n_slots for variant in self._plan.variants), None).context(self._plan.common)

    def _run_once(self, result: BenchResult, repeat: int, index: int) -> None:
        entry, started = self._measured[index], time.monotonic()
        if not self._configure(index):
            return
        sample = self._sample(entry, repeat, started)
        if sample is None:  # interrupted
            return
        result.order.append((repeat, index))
        self._durations_s[index] = sample.wall_s
        entry.error = sample.error
        if repeat > 0 and not sample.error:
            entry.samples.append(sample)

    def _configure(self, index: int) -> bool:
        entry = self._measured[index]
        try:
            report = self._generation.configure(entry.variant.context(self._plan.common))
        except EngineError as error:
            if error.code not in _REFUSALS:
                raise
            entry.why_not = f"{error.message} {error.hint}".strip()
            return False
        entry.why_not = why_not(entry.variant, report, self._measured[:index])
        if not entry.why_not:
            entry.report = report
        return not entry.why_not

    def _sample(self, entry: Measured, repeat: int, started: float) -> Sample | None:
        assert entry.report is not None  # it was configured
        self._generation.run(self._plan.running_in(entry.variant.n_slots))
        self._tally.take()
        outcomes: list[tuple[Outcome, Records]] = []
        before: list[tuple[Outcome, Records]] = []
        for step in self._plan.steps(entry.variant):
            if self._generation.is_interrupted:
                return None
            kept = outcomes if step.is_measured else before
            kept.append((self._generation.run(step.group), self._tally.take()))
        if self._generation.is_interrupted:
            return None
        granted, wall_s = entry.report.way_back.granted, time.monotonic() - started
        return sample_of(outcomes, before, repeat=repeat, granted=granted, wall_s=wall_s)

    def _left_s(self, rest: Sequence[tuple[int, int]]) -> float | None:
        if not self._durations_s:
            return None
        typical = sum(self._durations_s.values()) / len(self._durations_s)
        return sum(self._durations_s.get(index, typical) for _, index in rest if self._measured[index].is_going_on)

    def _tell_estimate(self, rest: Sequence[tuple[int, int]]) -> None:
        left_s = self._left_s(rest)
        n_runs = sum(self._measured[index].is_going_on for _, index in rest)
        if left_s is not None and n_runs:
            self._watcher.on_estimate(left_s, n_runs)


def why_not(variant: Variant, report: ModelReport, before: Sequence[Measured]) -> str:
    """Why these contexts are not what the variant is to time, or what one ``before`` it times; '' when they are new."""
    if report.n_slots != variant.n_slots:
        return f"{variant.n_slots} slots were asked for, {report.n_slots} granted."
    if variant.mode is None:
        return ""
    speculation, way = report.speculation, report.way_back
    if not speculation.is_active:
        return speculation.reason
    if variant.mode is not CheckpointMode.AUTO and way.granted != variant.mode.value:
        return f"{way.why} (in use instead: {way.granted.replace('_', ' ')})"
    if variant.start is Start.WITHOUT_HOOKS and not report.is_recurrent:
        return "This model drops the tail of the old conversation; no state is restored that hidden rows go with."
    alike = [other for other in before if _is_alike(other, variant, report)]
    if any(other.variant.replay is variant.replay for other in alike):
        return f"{speculation.reason} That is timed already.".strip()
    if alike and way.granted not in SAVING:
        return f"With {way.granted.replace('_', ' ')} nothing is decoded again, so this is {alike[0].variant.label}."
    return ""


def _is_alike(other: Measured, variant: Variant, report: ModelReport) -> bool:
    """Whether another variant that is timed differs at most in where replays go."""
    return (
        other.report is not None
        and other.is_going_on
        and (other.variant.n_slots, other.variant.mode, other.variant.start)
        == (variant.n_slots, variant.mode, variant.start)
        and other.report.speculation.n_draft_max == report.speculation.n_draft_max
    )
