"""One timed run of a bench: its speed, its counts, its checkpoints' times and the tokens that it gave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from draftscope.cli.bench_rounds import TaskRounds, rounds_of
from draftscope.cli.generation import Outcome
from draftscope.engine.events import Kind, Origin, Records, empty_records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import DecodeCounts, LogLine, RunReport, SlotResult

_KEPT = (Kind.SAVE, Kind.RESTORE, Kind.TOKEN, Kind.ROUND, Kind.OPERATION)

Outcomes = Sequence[tuple[Outcome, Records]]
"""What Submits in turn gave, each with its records."""


class Tally:
    """A sink of ``Generation`` that keeps the records which a sample is made of, until they are taken."""

    def __init__(self) -> None:
        self._records: list[Records] = []

    def take(self) -> Records:
        """What has come since the last call, at least an empty array."""
        kept, self._records = self._records, []
        return np.concatenate(kept) if kept else empty_records()

    def on_progress(self, fraction: float, stage: str) -> None:
        """See ``Sink``."""

    def on_pieces(self, pieces: dict[int, bytes]) -> None:
        """See ``Sink``."""

    def on_records(self, records: Records) -> None:
        """See ``Sink``."""
        self._records.append(records[np.isin(records["kind"], _KEPT)])

    def on_arrays(self, arrays: list[SideArray]) -> None:
        """See ``Sink``."""

    def on_result(self, prompt: int, result: SlotResult) -> None:
        """See ``Sink``."""

    def on_log(self, line: LogLine) -> None:
        """See ``Sink``."""


@dataclass(frozen=True, slots=True)
class TaskTokens:
    """What a task gave. ``probabilities``: float64, one a token, by the target; NaN where it was drafted."""

    slot: int
    prompt: int
    tokens: tuple[int, ...]
    probabilities: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a variant, of one Submit or of several in turn.

    Attributes:
        repeat: 0 for the warm-up.
        granted: the way back in use.
        n_generated, generate_s: tokens after the first of each slot, and the time from the first token of any slot to
            the last of any; both summed over the Submits.
        tasks: those of ``before`` first.
        rounds: of each result, in its order.
        save_us, restore_us: one element an event, in microseconds.
        wall_s: everything, with the contexts that were made for it.
        before: what was run first, to start from; None where nothing was.
    """

    repeat: int
    granted: str
    n_generated: int
    generate_s: float
    results: tuple[SlotResult, ...]
    tasks: tuple[TaskTokens, ...]
    rounds: tuple[TaskRounds, ...]
    reports: tuple[RunReport, ...]
    save_us: NDArray[np.float64]
    restore_us: NDArray[np.float64]
    wall_s: float
    before: Sample | None = None

    @property
    def tokens_per_second(self) -> float:
        """Of all slots together; NaN when no slot got beyond its first token."""
        return self.n_generated / self.generate_s if self.generate_s > 0 else math.nan

    @property
    def error(self) -> str:
        """What failed in a slot, the first of several; '' when nothing did."""
        results = (*(self.before.results if self.before else ()), *self.results)
        return next((f"slot {result.slot} failed: {result.error}" for result in results if result.error), "")

    @property
    def decodes(self) -> DecodeCounts:
        """Of all its Submits."""
        return sum_of([report.decodes for report in self.reports])


def sample_of(outcomes: Outcomes, before: Outcomes = (), *, repeat: int, granted: str, wall_s: float) -> Sample:
    """Put together what the Submits of a run gave; ``before``: those that are not what is measured."""
    groups = [[result for _, result in outcome.results] for outcome, _ in outcomes]
    earlier = sample_of(before, repeat=repeat, granted=granted, wall_s=wall_s) if before else None
    return Sample(
        repeat=repeat,
        granted=granted,
        n_generated=sum(max(0, len(result.tokens) - 1) for group in groups for result in group),
        generate_s=sum(_generate_ms(group) for group in groups) / 1e3,
        results=tuple(result for group in groups for result in group),
        tasks=(earlier.tasks if earlier else ()) + _tasks(outcomes),
        rounds=tuple(rounds_of(records, result) for outcome, records in outcomes for _, result in outcome.results),
        reports=tuple(report for outcome, _ in outcomes for report in outcome.reports),
        save_us=_durations_us([records for _, records in outcomes], Kind.SAVE),
        restore_us=_durations_us([records for _, records in outcomes], Kind.RESTORE),
        wall_s=wall_s,
        before=earlier,
    )


def _tasks(outcomes: Outcomes) -> tuple[TaskTokens, ...]:
    return tuple(
        TaskTokens(result.slot, prompt, result.tokens, target_probabilities(records, result))
        for outcome, records in outcomes
        for prompt, result in outcome.results
    )


def by_repeat(samples: Sequence[Sample], n_repeats: int, figure: Callable[[Sample], float]) -> NDArray[np.float64]:
    """A figure of each repeat, float64 (R,), from the first counted one on; NaN where it was not run."""
    row = np.full(n_repeats, np.nan)
    for sample in samples:
        row[sample.repeat - 1] = figure(sample)
    return row


def sum_of(counts: Sequence[DecodeCounts]) -> DecodeCounts:
    """All of them together."""
    names = [field.name for field in fields(DecodeCounts)]
    return DecodeCounts(**{name: sum(getattr(count, name) for count in counts) for name in names})


def _generate_ms(results: Sequence[SlotResult]) -> float:
    """All slots of a Submit start on one clock."""
    told = [result for result in results if result.tokens]
    if not told:
        return 0.0
    return max(result.ttft_ms + result.generate_ms for result in told) - min(result.ttft_ms for result in told)


def target_probabilities(records: Records, result: SlotResult) -> NDArray[np.float64]:
    """The probability of each token of a result by the target, from the TOKEN records of its Submit.

    Returns:
        float64 (tokens,); NaN for accepted ones, of which only the draft's probability is on record.
    """
    row = np.full(len(result.tokens), np.nan)
    is_own = (records["kind"] == Kind.TOKEN) & (records["slot"] == result.slot) & (records["code"] == Origin.SAMPLED)
    index = records["position"][is_own] - result.n_prompt
    is_inside = (index >= 0) & (index < len(row))
    row[index[is_inside]] = records["value"][is_own][is_inside]
    return row


def _durations_us(parts: Sequence[Records], kind: Kind) -> NDArray[np.float64]:
    durations = [part["duration_ns"][part["kind"] == kind] for part in parts]
    return np.concatenate(durations).astype(np.float64) / 1e3 if durations else np.zeros(0)
