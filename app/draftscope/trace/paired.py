"""Statistics of repeated measurements: medians, spreads, and ratios of what was measured side by side.

Two series that were measured in turn are compared repeat by repeat: each ratio is of two neighbours in time, so that
what slows the machine down for a while slows both, and the median of these ratios is what is told. A ratio of medians
would compare moments that have nothing to do with each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MANY = 10
"""From so many values on a spread leaves out the outermost tenths; of fewer it is everything."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What repeated measurements of one figure say.

    Attributes:
        n: finite values; of none the other figures are NaN.
        best: the greatest value (figures here are rates: more is better).
        low, high: the spread, from p10 to p90 of at least ``MANY`` values, else from the least to the greatest.
    """

    n: int = 0
    median: float = math.nan
    best: float = math.nan
    low: float = math.nan
    high: float = math.nan

    @property
    def spread(self) -> str:
        """What ``low`` and ``high`` are."""
        return "p10_p90" if self.n >= MANY else "min_max"


def summary_of(values: ArrayLike) -> Summary:
    """Median, best and spread.

    Args:
        values: float64 (N,), NaN where there is no measurement.
    """
    row = np.asarray(values, np.float64)
    row = row[np.isfinite(row)]
    if not len(row):
        return Summary()
    low, high = np.percentile(row, (10, 90)) if len(row) >= MANY else (row.min(), row.max())
    return Summary(len(row), float(np.median(row)), float(row.max()), float(low), float(high))


def paired_ratios(values: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    """Value / reference, repeat by repeat.

    Args:
        values, reference: float64 (N,), element i of both measured in the same repeat; NaN where there is none.
    Returns:
        float64 (N,), owned by the caller; NaN where one of the two is missing or the reference is 0.
    Raises:
        ValueError: unequal lengths: then nobody knows what belongs together.
    """
    row, base = np.asarray(values, np.float64), np.asarray(reference, np.float64)
    if row.shape != base.shape or row.ndim != 1:
        raise ValueError(f"Only rows of equal length are paired, got {row.shape} and {base.shape}.")
    ratios = np.full(row.shape, np.nan)
    np.divide(row, base, out=ratios, where=np.isfinite(row) & np.isfinite(base) & (base != 0))
    return ratios


def first_difference(tokens: ArrayLike, reference: ArrayLike) -> int | None:
    """The index of the first token that differs, or at which only one of the two goes on; None when they are equal.

    Args:
        tokens, reference: int (N,) and int (M,).
    """
    row, base = np.asarray(tokens, np.int64), np.asarray(reference, np.int64)
    n = min(len(row), len(base))
    different = np.flatnonzero(row[:n] != base[:n])
    if len(different):
        return int(different[0])
    return None if len(row) == len(base) else n
