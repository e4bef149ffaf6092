"""Least and greatest values of a long series, at every scale: a plot of any window costs as much as it has pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from draftscope.trace.growable import GrowableArray

FACTOR = 4
"""Values that a level takes together; the levels above the series cost 2/3 of its memory."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A window of a series in P blocks of neighbouring values.

    Attributes:
        x: float64 (P,): x of the first value of each block, rising.
        low, high: float32 (P,): least and greatest value of each block; NaN where it has none but NaN.
    """

    x: NDArray[np.float64]
    low: NDArray[np.float32]
    high: NDArray[np.float32]


@dataclass(slots=True)
class _Level:
    low: GrowableArray
    high: GrowableArray


class MinMaxLevels:
    """A series y(x) that grows at its end, with levels of 4, 16, 64, ... values a block; amortised O(1) a value."""

    def __init__(self) -> None:
        self._x = GrowableArray(np.float64)
        self._y = GrowableArray(np.float32)
        self._levels: list[_Level] = []

    def __len__(self) -> int:
        return len(self._x)

    def append(self, x: ArrayLike, y: ArrayLike) -> None:
        """Add values at the end.

        Args:
            x: float64 (K,), not falling and not before the last x; finite.
            y: float32 (K,); NaN is a gap.
        Raises:
            ValueError: unequal lengths, or x falls.
        """
        new_x, new_y = np.asarray(x, np.float64), np.asarray(y, np.float32)
        if new_x.shape != new_y.shape or new_x.ndim != 1:
            raise ValueError(f"x and y are rows of equal length, got {new_x.shape} and {new_y.shape}.")
        before = self._x.view[-1:]
        if not np.all(np.diff(np.concatenate([before, new_x])) >= 0):
            raise ValueError("x falls or is NaN; a series grows at its end only.")
        self._x.append(new_x)
        self._y.append(new_y)
        self._extend_levels()

    def _extend_levels(self) -> None:
        low = high = self._y
        for rank in range(64):
            n_blocks = len(low) // FACTOR
            if n_blocks == 0:
                return
            if rank == len(self._levels):
                self._levels.append(_Level(GrowableArray(np.float32), GrowableArray(np.float32)))
            level = self._levels[rank]
            part = slice(len(level.low) * FACTOR, n_blocks * FACTOR)
            level.low.append(np.fmin.reduce(low.view[part].reshape(-1, FACTOR), axis=1))
            level.high.append(np.fmax.reduce(high.view[part].reshape(-1, FACTOR), axis=1))
            low, high = level.low, level.high

    def query(self, x0: float, x1: float, n_pixels: int) -> Envelope:
        """The window [x0, x1] in at most 4 * n_pixels + 2 blocks, in at least n_pixels where there are so many values.

        No extreme in the window is lost. One value before and one after the window are included where they exist, so
        that a line runs to the edges, and blocks at the edges may reach beyond them by less than their width.
        """
        first = max(int(np.searchsorted(self._x.view, x0, "left")) - 1, 0)
        last = min(int(np.searchsorted(self._x.view, x1, "right")) + 1, len(self._x))
        rank, size = 0, 1
        while rank < len(self._levels) and max(last - first, 0) > size * FACTOR * max(n_pixels, 1):
            rank, size = rank + 1, size * FACTOR
        if rank == 0:
            return Envelope(self._x.view[first:last], self._y.view[first:last], self._y.view[first:last])
        return self._blocks(self._levels[rank - 1], size, first // size, -(-last // size))

    def _blocks(self, level: _Level, size: int, first: int, last: int) -> Envelope:
        low, high = level.low.view[first:last], level.high.view[first:last]
        if last > len(level.low):
            # The block at the end of the series is not full yet, so no level has it.
            rest = self._y.view[len(level.low) * size :]
            low = np.append(low, np.fmin.reduce(rest))
            high = np.append(high, np.fmax.reduce(rest))
        return Envelope(self._x.view[first * size : last * size : size], low, high)
