"""Levels of least and greatest values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.trace.minmax import MinMaxLevels


def levels_of(x, y, parts=1):
    levels = MinMaxLevels()
    for part in np.array_split(np.arange(len(x)), parts):
        levels.append(np.asarray(x)[part], np.asarray(y)[part])
    return levels


def test_a_short_series_comes_back_as_it_is():
    envelope = levels_of([0, 1, 2], [5, 3, 4]).query(0, 2, 100)
    assert envelope.x.tolist() == [0, 1, 2]
    assert envelope.low.tolist() == envelope.high.tolist() == [5, 3, 4]


def test_an_empty_series_has_an_empty_envelope():
    assert len(MinMaxLevels().query(0, 1, 100).x) == 0


def test_one_value_on_either_side_of_the_window_is_included():
    assert levels_of(np.arange(10), np.arange(10)).query(3.5, 5.5, 100).x.tolist() == [3, 4, 5, 6]


def test_a_single_spike_in_a_million_values_is_not_lost():
    y = np.zeros(1_000_000)
    y[765_432] = 7
    envelope = levels_of(np.arange(len(y)), y, parts=300).query(0, len(y), 1000)
    assert 1000 <= len(envelope.x) <= 4002
    assert envelope.high.max() == 7
    assert abs(envelope.x[np.argmax(envelope.high)] - 765_432) < 1000


def test_a_spike_at_the_unfinished_end_is_not_lost():
    y = np.zeros(1027)
    y[-1] = -3
    envelope = levels_of(np.arange(len(y)), y).query(0, len(y), 10)
    assert envelope.low[-1] == -3


def test_gaps_do_not_hide_their_neighbours_and_stay_gaps_where_there_is_nothing_else():
    y = np.full(64, np.nan)
    y[5] = 2
    envelope = levels_of(np.arange(64), y).query(0, 63, 4)
    assert envelope.x[np.isfinite(envelope.high)].tolist() == [4]
    assert envelope.high[1] == envelope.low[1] == 2


@pytest.mark.parametrize(("x", "y"), [([0, 2, 1], [0, 0, 0]), ([0, np.nan], [0, 0]), ([0, 1], [0]), ([[0]], [[0]])])
def test_a_series_that_falls_or_does_not_fit_is_refused(x, y):
    with pytest.raises(ValueError, match="x"):
        MinMaxLevels().append(x, y)


def test_a_part_that_begins_before_the_end_is_refused_and_changes_nothing():
    levels = levels_of([0, 5], [0, 0])
    with pytest.raises(ValueError, match="falls"):
        levels.append([4], [0])
    assert len(levels) == 2


@given(
    y=st.lists(st.floats(-100, 100, width=32) | st.just(float("nan")), max_size=400),
    parts=st.integers(1, 9),
    window=st.tuples(st.floats(-10, 400), st.floats(0, 400)),
    n_pixels=st.integers(1, 50),
)
def test_the_envelope_has_every_extreme_of_the_window_and_few_blocks(y, parts, window, n_pixels):
    x0, x1 = window[0], window[0] + window[1]
    envelope = levels_of(np.arange(len(y)), np.array(y, np.float32), parts).query(x0, x1, n_pixels)
    assert len(envelope.x) == len(envelope.low) == len(envelope.high) <= 4 * n_pixels + 2
    inside = np.array([value for i, value in enumerate(y) if x0 <= i <= x1], np.float32)
    known = inside[~np.isnan(inside)]
    if len(known):
        assert np.nanmin(envelope.low) <= known.min()
        assert np.nanmax(envelope.high) >= known.max()
        assert np.nanmin(envelope.low) in y
        assert np.nanmax(envelope.high) in y
