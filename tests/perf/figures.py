"""Figures of a benchmark: samples of one quantity, as a table and as JSON."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from draftscope.cli.terminal import table


@dataclass(frozen=True, slots=True)
class Figure:
    """Samples of one quantity. ``best`` is the largest where more is better, else the smallest."""

    name: str
    unit: str
    samples: tuple[float, ...]
    is_more_better: bool = False
    definition: str = ""

    @property
    def best(self) -> float:
        """The sample that the machine's other work disturbed least."""
        return max(self.samples) if self.is_more_better else min(self.samples)

    @property
    def median(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples)

    def as_json(self) -> dict[str, Any]:
        """All fields and both summaries."""
        return {
            "name": self.name,
            "unit": self.unit,
            "best": self.best,
            "median": self.median,
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
    rows = [(f.name, f"{f.best:,.4g}", f"{f.median:,.4g}", f.unit, str(len(f.samples))) for f in figures]
    return table(("figure", "best", "median", "unit", "runs"), rows)
