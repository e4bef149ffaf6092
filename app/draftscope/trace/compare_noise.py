"""Whether two figures differ, or only scatter.

Runs are compared in pairs, the first of A with the first of B and so on, so repeats should be recorded in turn: what
slows the machine down for a while then slows both sides. With at least ``MIN_PAIRS`` pairs each pair gives one ratio,
with fewer each block of each pair does (``compare_blocks``). The ratios' logarithms give a t interval of 99.9 %, wide
enough that of a table of figures of two equal runs hardly any is called changed. One process can be slower than the
next throughout, which no block shows; so with fewer pairs times count as changed only from ``MIN_FACTOR`` times on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from draftscope.trace.compare_blocks import Measure
from draftscope.trace.compare_figures import Figure, Unit

MIN_PAIRS = 5
"""From so many pairs of runs on each pair is one observation; with fewer their blocks are."""

MIN_UNITS = 5
"""Fewer observations say nothing about a spread."""

MIN_FACTOR = 3.0
"""Without enough pairs, speeds and times that differ by less are not called changed. Of 255 pairs of equal runs on a
machine with two cores and much other work on it, speeds differed by up to 1.7 times, times by up to 2.8 times."""

MIN_BYTES_CHANGE = 0.001
"""Sizes of saved states differ by some bytes with the positions in them."""

MIN_BYTES_FACTOR = 1.1
"""Without enough pairs, sizes with compute buffers in them that differ by less are not called changed: they grow with
the batches that were decoded, which times decide. Of 25 pairs of equal runs they differed by up to 1.07 times."""

# Two-sided 99.9 % quantiles of Student's t, from 4 degrees of freedom on; 3.29 is the normal's.
_T: tuple[float, ...] = (
    8.610,
    6.869,
    5.959,
    5.408,
    5.041,
    4.781,
    4.587,
    4.437,
    4.318,
    4.221,
    4.140,
    4.073,
    4.015,
    3.965,
    3.922,
    3.883,
)
_T += (3.850, 3.819, 3.792, 3.768, 3.745, 3.725, 3.707, 3.690, 3.674, 3.659, 3.646)

METHOD = (
    f"interval: 99.9 % t interval of the ratio B / A, from the ratios of {MIN_PAIRS} or more pairs of runs, with fewer "
    "pairs from those of blocks of rounds with equal shares of the tokens; a change is called one when 1 lies outside, "
    f"and with fewer than {MIN_PAIRS} pairs speeds and times must also differ by {MIN_FACTOR:g} times, since two "
    f"processes of one program are not equally fast; bytes have no blocks: with fewer than {MIN_PAIRS} pairs they "
    f"change from {MIN_BYTES_CHANGE:.1%} on, with compute buffers in them from {MIN_BYTES_FACTOR:g} times on, and by "
    "more than the runs of a side differ among themselves"
)
"""The method in words, for tables, files and tooltips."""


class Verdict(StrEnum):
    """What can be said about B beside A. TOO_FEW: they differ, and nothing tells how far they scatter."""

    EQUAL = "equal"
    NOISE = "within noise"
    HIGHER = "higher"
    LOWER = "lower"
    TOO_FEW = "differs, too few to judge"
    ONLY_A = "only in A"
    ONLY_B = "only in B"

    @property
    def is_change(self) -> bool:
        """Whether it is more than noise."""
        return self in (Verdict.HIGHER, Verdict.LOWER)


@dataclass(frozen=True, slots=True)
class Judged:
    """A figure of two sides.

    Attributes:
        a, b: median over the runs of a side; NaN where no run has it.
        ratio: geometric mean over the pairs of B / A; NaN where there is none.
        low, high: the interval of the ratio; NaN where nothing tells it.
        n_units: ratios that the interval was made of.
    """

    a: float
    b: float
    ratio: float
    low: float
    high: float
    n_units: int
    verdict: Verdict


def judge(ours: Sequence[Measure | None], theirs: Sequence[Measure | None], figure: Figure) -> Judged:
    """Compare a figure of the runs of A with that of the runs of B, pair by pair; None: that run does not have it."""
    a, b = (_median(side) for side in (ours, theirs))
    if math.isnan(a) or math.isnan(b):
        verdict = Verdict.ONLY_A if math.isnan(b) else Verdict.ONLY_B
        return Judged(a, b, math.nan, math.nan, math.nan, 0, verdict)
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one is not None and other is not None]
    per_pair = _logs([one.value for one, _ in pairs], [other.value for _, other in pairs])
    ratio = math.exp(float(np.mean(per_pair))) if len(per_pair) == len(pairs) > 0 else math.nan
    has_repeats = len(per_pair) >= MIN_PAIRS
    units = per_pair if has_repeats else _unit_logs(pairs)
    low, high = _interval(ratio, units)
    verdict = _verdict(pairs, ratio, (low, high), figure, has_repeats=has_repeats)
    return Judged(a, b, ratio, low, high, len(units) if math.isfinite(low) else 0, verdict)


def _median(side: Sequence[Measure | None]) -> float:
    values = [measure.value for measure in side if measure is not None]
    return float(np.median(values)) if values else math.nan


def _logs(ours: ArrayLike, theirs: ArrayLike) -> NDArray[np.float64]:
    """Logarithms of the ratios of what is above 0 on both sides."""
    one, other = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    is_told = (one > 0) & (other > 0)
    return np.log(other[is_told] / one[is_told])


def _unit_logs(pairs: Sequence[tuple[Measure, Measure]]) -> NDArray[np.float64]:
    rows = [_logs(one.units, other.units) for one, other in pairs if len(one.units) == len(other.units)]
    return np.concatenate(rows) if rows else np.zeros(0)


def _interval(ratio: float, logs: NDArray[np.float64]) -> tuple[float, float]:
    if len(logs) < MIN_UNITS or math.isnan(ratio):
        return math.nan, math.nan
    degrees = len(logs) - 1
    quantile = _T[degrees - MIN_UNITS + 1] if degrees - MIN_UNITS + 1 < len(_T) else _T[-1]
    width = quantile * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    return ratio * math.exp(-width), ratio * math.exp(width)


def _verdict(
    pairs: Sequence[tuple[Measure, Measure]],
    ratio: float,
    interval: tuple[float, float],
    figure: Figure,
    *,
    has_repeats: bool,
) -> Verdict:
    if all(one.value == other.value for one, other in pairs):
        return Verdict.EQUAL
    a, b = (float(np.median([pair[side].value for pair in pairs])) for side in (0, 1))
    direction = Verdict.HIGHER if (ratio > 1 if math.isfinite(ratio) else b > a) else Verdict.LOWER
    if figure.unit is Unit.BYTES and math.isfinite(ratio) and abs(math.log(ratio)) < MIN_BYTES_CHANGE:
        return Verdict.NOISE
    low, high = interval
    if math.isnan(low):
        is_told = figure.unit is Unit.BYTES and _are_apart(pairs, ratio, scatters=figure.scatters)
        return direction if is_told else Verdict.TOO_FEW
    is_timed = figure.unit in (Unit.RATE, Unit.TIME_US)
    is_large = has_repeats or not is_timed or abs(math.log(ratio)) >= math.log(MIN_FACTOR)
    return direction if is_large and (low > 1 or high < 1) else Verdict.NOISE


def _are_apart(pairs: Sequence[tuple[Measure, Measure]], ratio: float, *, scatters: bool) -> bool:
    """Whether sizes without an interval differ by more than the runs of either side do among themselves."""
    sides = [[pair[side].value for pair in pairs] for side in (0, 1)]
    if not math.isfinite(ratio):
        return max(sides[0]) < min(sides[1]) or max(sides[1]) < min(sides[0])
    spread = max(math.log(max(side) / min(side)) for side in sides)
    least = math.log(MIN_BYTES_FACTOR) if scatters else MIN_BYTES_CHANGE
    return abs(math.log(ratio)) >= least and abs(math.log(ratio)) > spread
