"""Figures as text: three digits, the unit that suits, and no digit too many after rounding."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.base import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0123, "0.0123"),
        (1.234, "1.23"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (123.4, "123"),
        (1234.5, "1234"),
        (-0.5, "-0.500"),
        (math.nan, "–"),
        (math.inf, "∞"),
    ],
)
def test_a_figure_has_three_significant_digits(value: float, text: str) -> None:
    assert units.figure(value) == text


@given(st.floats(min_value=1e-6, max_value=999))
def test_a_figure_is_within_half_a_digit_of_its_value(value: float) -> None:
    text = units.figure(value)
    assert abs(float(text) - value) <= 0.5 * 10.0 ** (math.floor(math.log10(value)) - 2) * 1.001
    assert len(text.replace(".", "").lstrip("0")) == 3


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (850, "850 ns"),
        (1_230, "1.23 µs"),
        (999_400, "999 µs"),
        (999_600, "1.00 ms"),
        (2_400_000, "2.40 ms"),
        (999_999_999, "1.00 s"),
        (61e9, "61.0 s"),
        (3.6e12, "3600 s"),
        (math.nan, "–"),
    ],
)
def test_a_duration_takes_the_unit_that_suits_it(ns: float, text: str) -> None:
    assert units.duration(ns) == text


def test_that_ticks_of_one_axis_share_a_unit_and_the_decimals_of_its_step() -> None:
    unit = units.time_unit(2_500_000)
    assert [units.time_tick(ns, 500_000, unit) for ns in (0, 500_000, 2_500_000)] == ["0.0 ms", "0.5 ms", "2.5 ms"]
    assert units.time_tick(3e9, 1e9, units.time_unit(5e9)) == "3 s"
    assert units.time_tick(1.25e9, 5e7, units.time_unit(5e9)) == "1.25 s"


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(0, "0 B"), (100, "100 B"), (1536, "1.50 KiB"), (7 * 2**20, "7.00 MiB"), (2**41, "2.00 TiB")]
)
def test_bytes_are_counted_in_powers_of_1024(n_bytes: int, text: str) -> None:
    assert units.bytes_text(n_bytes) == text


def test_a_share_of_nothing_is_a_dash_and_never_zero() -> None:
    assert units.percent(math.nan) == "–"
    assert units.percent(0.726) == "73 %"
    assert units.percent(0) == "0 %"


def test_a_rate_says_what_it_counts() -> None:
    assert units.rate(412.3) == "412 tok/s"
    assert units.rate(0.5, "rounds/s") == "0.500 rounds/s"
