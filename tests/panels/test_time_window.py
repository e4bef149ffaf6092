"""The maths between time and pixels."""

from __future__ import annotations

import pytest

from draftscope.panels.time_window import MIN_SPAN_NS, TimeWindow, fitted, tick_step_ns, ticks_ns

WINDOW = TimeWindow(1_000_000, 2_000_000, 500)


@pytest.mark.parametrize("x", [0, 1, 250, 499])
def test_a_pixel_leads_to_its_time_and_back(x: int) -> None:
    assert WINDOW.x_of(WINDOW.t_of(x)) == pytest.approx(x)


def test_the_time_at_the_pointer_stays_while_zooming() -> None:
    closer = WINDOW.zoomed(2.0, 100, 10_000_000)
    assert closer.span_ns == 500_000
    assert closer.t_of(100) == pytest.approx(WINDOW.t_of(100), abs=1)


def test_zooming_ends_at_a_microsecond() -> None:
    assert WINDOW.zoomed(1e9, 0, 10_000_000).span_ns == MIN_SPAN_NS


def test_zooming_out_ends_at_the_longest() -> None:
    assert WINDOW.zoomed(1e-9, 0, 3_000_000).span_ns == 3_000_000


def test_panning_moves_what_was_at_a_pixel() -> None:
    assert WINDOW.panned(50).t_of(150) == WINDOW.t_of(100)


def test_the_window_never_leaves_the_run_behind() -> None:
    gone = WINDOW.panned(-100_000).kept_near(1_000_000, 2_000_000)
    assert gone.t0_ns < 2_000_000
    gone = WINDOW.panned(100_000).kept_near(1_000_000, 2_000_000)
    assert gone.t1_ns > 1_000_000


def test_following_keeps_the_length_and_shows_the_newest() -> None:
    moved = WINDOW.following(9_000_000)
    assert moved.span_ns == WINDOW.span_ns
    assert moved.t0_ns < 9_000_000 < moved.t1_ns


def test_a_fitted_window_shows_both_ends() -> None:
    window = fitted(500, 10_000_500, 300)
    assert window.t0_ns < 500
    assert window.t1_ns > 10_000_500


@pytest.mark.parametrize("span_ns", [1_000, 77_000, 5_000_000, 123_456_789_000])
def test_ticks_are_round_and_have_room(span_ns: int) -> None:
    step = tick_step_ns(span_ns, 1000, 90)
    assert str(step).rstrip("0") in ("1", "2", "5")
    assert step * 1000 / span_ns >= 90


def test_ticks_count_from_the_origin() -> None:
    ticks, step = ticks_ns(TimeWindow(1_000_123, 2_000_123, 1000), 123, 90)
    assert all((tick - 123) % step == 0 for tick in ticks)
    assert ticks[0] >= 1_000_123
    assert ticks[-1] <= 2_000_123
