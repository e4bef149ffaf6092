"""Leaves out points that would be drawn on top of each other: what a scatter plot draws depends on its pixels only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Raster(NamedTuple):
    """A window [x0, x1] by [y0, y1] in cells; each as large as a drawn point, at least one of them either way."""

    x0: float
    x1: float
    y0: float
    y1: float
    n_columns: int
    n_rows: int


def one_a_cell(x: NDArray[np.generic], y: NDArray[np.generic], raster: Raster) -> NDArray[np.int64]:
    """Which points to draw: of those that share a cell of the window, the newest.

    Axes: N points, in order of time. Costs O(N) and the memory of the raster.

    Args:
        x, y: (N,), finite; borrowed.
    Returns:
        int64 (M,), M <= cells: indices of points inside the window, rising.
    """
    columns = _cells(x, raster.x0, raster.x1, raster.n_columns)
    rows = _cells(y, raster.y0, raster.y1, raster.n_rows)
    inside = np.flatnonzero((columns >= 0) & (columns < raster.n_columns) & (rows >= 0) & (rows < raster.n_rows))
    newest = np.full(raster.n_columns * raster.n_rows, -1, np.int64)
    newest[rows[inside] * raster.n_columns + columns[inside]] = inside
    return np.sort(newest[newest >= 0])


def _cells(values: NDArray[np.generic], low: float, high: float, n: int) -> NDArray[np.int64]:
    width = max(high - low, 1e-12) / n
    cells = np.floor((values.astype(np.float64) - low) / width).astype(np.int64)
    # The window's own end belongs to its last cell.
    cells[(values == high) & (cells == n)] = n - 1
    return cells
