"""Statistics of repeated runs: medians, spreads, paired ratios, and where token sequences part."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.trace.paired import Summary, first_difference, paired_ratios, summary_of


def test_few_values_are_spread_from_the_least_to_the_greatest() -> None:
    summary = summary_of([3.0, 1.0, 2.0])
    assert (summary.n, summary.median, summary.best, summary.low, summary.high) == (3, 2.0, 3.0, 1.0, 3.0)
    assert summary.spread == "min_max"


def test_many_values_are_spread_without_the_outermost_tenths() -> None:
    summary = summary_of([*range(1, 11), 1000.0])
    assert (summary.low, summary.high, summary.best) == (2.0, 10.0, 1000.0)
    assert summary.spread == "p10_p90"


def test_what_was_not_measured_is_left_out() -> None:
    assert summary_of([math.nan, 4.0, math.inf]).n == 1
    empty = summary_of([math.nan])
    assert empty.n == 0
    assert math.isnan(empty.median)


def test_ratios_pair_repeats_and_are_no_ratio_of_medians() -> None:
    slower_and_slower = np.array([400.0, 200.0, 100.0])
    ratios = paired_ratios(slower_and_slower * [0.5, 0.5, 2.0], slower_and_slower)
    assert ratios.tolist() == [0.5, 0.5, 2.0]
    assert summary_of(ratios).median == 0.5
    assert np.median(slower_and_slower * [0.5, 0.5, 2.0]) / np.median(slower_and_slower) == 1.0


def test_a_repeat_that_one_side_lacks_has_no_ratio() -> None:
    ratios = paired_ratios([1.0, math.nan, 3.0, 4.0], [2.0, 2.0, math.nan, 0.0])
    assert ratios[0] == 0.5
    assert np.isnan(ratios[1:]).all()


def test_rows_of_unequal_length_are_not_paired() -> None:
    with pytest.raises(ValueError, match="equal length"):
        paired_ratios([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("tokens", "reference", "index"),
    [([], [], None), ([1, 2], [1, 2], None), ([1, 3], [1, 2], 1), ([1], [1, 2], 1), ([1, 2, 3], [1, 2], 2)],
)
def test_sequences_part_where_a_token_differs_or_one_ends(
    tokens: list[int], reference: list[int], index: int | None
) -> None:
    assert first_difference(tokens, reference) == index


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40))
def test_the_median_lies_within_the_spread(values: list[float]) -> None:
    summary = summary_of(values)
    assert isinstance(summary, Summary)
    assert summary.low <= summary.median <= summary.high <= summary.best
