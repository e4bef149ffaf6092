"""Figures of a benchmark: samples of one quantity, as a table and as JSON."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from draftscope.cli.terminal import table


@dataclass(frozen=True, slots=True)
class Figure:
    """Samples of one quantity. ``best`` is the largest where more is better, else the smallest.

    ``limit``: the most that the median may be, where that was asked for.
    """

    name: str
    unit: str
    samples: tuple[float, ...]
    is_more_better: bool = False
    definition: str = ""
    limit: float | None = None

    @property
    def best(self) -> float:
        """The sample that the machine's other work disturbed least."""
        return max(self.samples) if self.is_more_better else min(self.samples)

    @property
    def median(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples)

    @property
    def p99(self) -> float:
        """The sample that 99 of 100 are no worse than; of few samples the worst."""
        ordered = sorted(self.samples, reverse=self.is_more_better)
        return ordered[math.ceil(0.99 * len(ordered)) - 1]

    @property
    def verdict(self) -> str:
        """Whether the median keeps to the limit; empty without one."""
        if self.limit is None:
            return ""
        return f"at most {self.limit:g}: {'met' if self.median <= self.limit else 'missed'}"

    def as_json(self) -> dict[str, Any]:
        """All fields and the summaries."""
        return {
            "name": self.name,
            "unit": self.unit,
            "best": self.best,
            "median": self.median,
            "p99": self.p99,
            "limit": self.limit,
            "samples": list(self.samples),
            "definition": self.definition,
        }


def seconds_of(work: Callable[[], object], repeats: int) -> list[float]:
    """Wall seconds of ``work``, several times."""
    samples = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        samples.append(time.perf_counter() - started)
    return samples


def as_table(figures: Sequence[Figure]) -> str:
    """A line for each figure."""
    rows = [
        (f.name, *(f"{value:,.4g}" for value in (f.best, f.median, f.p99)), f.unit, str(len(f.samples)), f.verdict)
        for f in figures
    ]
    return table(("figure", "best", "median", "p99", "unit", "runs", "asked"), rows)
