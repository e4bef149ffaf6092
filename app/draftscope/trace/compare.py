"""Two runs, or repeats of two, side by side: what was asked, what came out, and what of the difference is noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from draftscope.engine.events import Kind
from draftscope.trace.compare_blocks import n_blocks_for
from draftscope.trace.compare_figures import Figure, describe, measures_of, rank
from draftscope.trace.compare_noise import METHOD, Judged, Verdict, judge
from draftscope.trace.compare_outputs import Outputs, compare_outputs
from draftscope.trace.compare_settings import Difference, differences_of
from draftscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure and what was found of it."""

    figure: Figure
    judged: Judged


@dataclass(frozen=True, slots=True)
class Comparison:
    """What ``diff`` and the compare view show.

    Attributes:
        n_pairs: runs of each side.
        differences: of what was asked for and run on, of the first runs.
        figures: in the order of ``compare_figures``.
        outputs: of the first runs.
        missing: what a file lacks, in sentences.
    """

    n_pairs: int
    differences: tuple[Difference, ...]
    figures: tuple[Compared, ...]
    outputs: Outputs
    missing: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Compared, ...]:
        """Figures that differ by more than noise."""
        return tuple(compared for compared in self.figures if compared.judged.verdict.is_change)

    def shown(self, *, shows_all: bool = False) -> tuple[Compared, ...]:
        """Figures worth a line: those that are not exactly equal, and none that repeats the one of all mechanisms."""
        by_name = {compared.figure.name: compared.judged for compared in self.figures}
        return tuple(
            compared
            for compared in self.figures
            if (shows_all or compared.judged.verdict is not Verdict.EQUAL)
            and ("." not in (name := compared.figure.name) or by_name.get(name.partition(".")[0]) != compared.judged)
        )

    def as_json(self) -> dict[str, Any]:
        """The stable object of ``diff --json``; figures that do not exist are null."""
        return {
            "n_pairs": self.n_pairs,
            "differences": [asdict(difference) for difference in self.differences],
            "outputs": asdict(self.outputs) | {"are_equal": self.outputs.are_equal},
            "method": METHOD,
            "figures": [_as_json(compared) for compared in self.figures],
            "missing": list(self.missing),
        }


def compare(ours: Sequence[Trace], theirs: Sequence[Trace]) -> Comparison:
    """Compare the runs of A with those of B, pair by pair.

    Raises:
        ValueError: there is no run, or not as many on both sides.
    """
    if not ours or len(ours) != len(theirs):
        raise ValueError(f"As many runs are compared on both sides, got {len(ours)} and {len(theirs)}.")
    n_blocks = min(n_blocks_for(_n_rounds(trace)) for trace in (*ours, *theirs))
    a, b = ([measures_of(trace, n_blocks) for trace in side] for side in (ours, theirs))
    names = sorted({name for measures in (*a, *b) for name in measures}, key=rank)
    figures = (
        Compared(row, judge([one.get(row.name) for one in a], [other.get(row.name) for other in b], row))
        for row in map(describe, names)
    )
    return Comparison(
        len(ours),
        tuple(differences_of(ours[0], theirs[0])),
        tuple(figures),
        compare_outputs(ours[0], theirs[0]),
        tuple(_missing("A", ours)) + tuple(_missing("B", theirs)),
    )


def _n_rounds(trace: Trace) -> int:
    return len(set(trace.store.kind(Kind.ROUND)["round"].tolist()))


def _missing(side: str, traces: Sequence[Trace]) -> list[str]:
    sentences = []
    for number, trace in enumerate(traces, 1):
        which = side if len(traces) == 1 else f"{side}, run {number}"
        sentences += [f"{which}: {sentence}" for sentence in trace.missing]
        if trace.store.n_missing:
            sentences.append(f"{which}: {trace.store.n_missing:,} records are missing; counts are too low by them.")
    return sentences


def _as_json(compared: Compared) -> dict[str, Any]:
    figure, judged = compared.figure, compared.judged
    numbers: Mapping[str, float] = {name: getattr(judged, name) for name in ("a", "b", "ratio", "low", "high")}
    return {
        "name": figure.name,
        "words": figure.words,
        "group": figure.group,
        "unit": figure.unit.value,
        "better": {1: "higher", -1: "lower"}.get(figure.better),
        "definition": figure.definition,
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
        "n_observations": judged.n_units,
        "verdict": judged.verdict.value,
        "is_change": judged.verdict.is_change,
    }
