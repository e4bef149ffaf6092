"""Thinning leaves one point a cell, and no cell out that has one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from draftscope.trace.thinning import Raster, one_a_cell

RASTER = Raster(0.0, 100.0, 0.0, 1.0, 20, 10)


def cells(x: np.ndarray, y: np.ndarray) -> set[tuple[int, int]]:
    columns = np.minimum(np.floor(x / 5).astype(int), 19)
    rows = np.minimum(np.floor(y * 10).astype(int), 9)
    return set(zip(columns.tolist(), rows.tolist(), strict=True))


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=200))
def test_each_cell_that_has_points_keeps_one(points: list[tuple[int, int]]) -> None:
    x = np.array([point[0] for point in points], float)
    y = np.array([point[1] / 10 + 0.05 for point in points], float)
    kept = one_a_cell(x, y, RASTER)
    assert len(kept) == len(cells(x, y))
    assert cells(x[kept], y[kept]) == cells(x, y)
    assert (np.diff(kept) > 0).all()


def test_of_points_in_a_cell_the_newest_stays() -> None:
    assert one_a_cell(np.array([1.0, 1.5, 2.0]), np.array([0.5, 0.5, 0.5]), RASTER).tolist() == [2]


def test_points_outside_the_window_are_left_out_and_its_ends_are_in_it() -> None:
    x, y = np.array([-1.0, 0.0, 100.0, 101.0, 50.0]), np.array([0.5, 0.0, 1.0, 0.5, 1.5])
    assert one_a_cell(x, y, RASTER).tolist() == [1, 2]


def test_a_hundred_thousand_points_become_as_many_as_there_are_cells() -> None:
    random = np.random.default_rng(3)
    kept = one_a_cell(random.uniform(0, 100, 100_000), random.uniform(0, 1, 100_000), RASTER)
    assert len(kept) == 200
