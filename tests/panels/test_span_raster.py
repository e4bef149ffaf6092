"""Spans as pixels: exact where there is room, by cost where there is not."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from draftscope.engine.events import Kind, Phase, Records, empty_records
from draftscope.panels.span_raster import NOTHING, phase_row, wide_starts


def spans(*rows: tuple[Phase, int, int]) -> Records:
    """SPAN records from (phase, start, end)."""
    records = empty_records(len(rows))
    records["kind"] = Kind.SPAN
    for record, (phase, start, end) in zip(records, rows, strict=True):
        record["code"], record["t_start_ns"], record["duration_ns"] = phase, start, end - start
    return records


def test_a_wide_span_fills_its_pixels_and_no_others() -> None:
    phase, cover = phase_row(spans((Phase.VERIFY, 20, 50)), 0, 100, 10)
    assert phase.tolist() == [NOTHING] * 2 + [Phase.VERIFY] * 3 + [NOTHING] * 5
    assert cover.tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]


def test_a_pixel_takes_the_phase_that_spent_most_of_it() -> None:
    phase, cover = phase_row(spans((Phase.DRAFT, 0, 30), (Phase.VERIFY, 30, 80)), 0, 100, 1)
    assert phase.tolist() == [Phase.VERIFY]
    assert cover.tolist() == [np.float32(0.8)]


def test_many_short_spans_of_one_phase_outweigh_a_longer_one_of_another() -> None:
    rows = [(Phase.ACCEPT, start, start + 1) for start in range(0, 12, 2)]
    phase, _ = phase_row(spans(*rows, (Phase.SAVE, 12, 17)), 0, 20, 1)
    assert phase.tolist() == [Phase.ACCEPT]


def test_a_lone_short_span_is_seen() -> None:
    phase, cover = phase_row(spans((Phase.RESTORE, 501, 502)), 0, 1000, 10)
    assert phase[5] == Phase.RESTORE
    assert 0 < cover[5] < 0.1


def test_spans_outside_the_window_are_not_drawn() -> None:
    phase, _ = phase_row(spans((Phase.DRAFT, -50, 0), (Phase.DRAFT, 100, 150)), 0, 100, 10)
    assert (phase == NOTHING).all()


def test_a_span_over_the_whole_window_fills_it() -> None:
    phase, cover = phase_row(spans((Phase.LOAD, -10, 110)), 0, 100, 7)
    assert (phase == Phase.LOAD).all()
    assert np.allclose(cover, 1.0)


def test_only_wide_spans_get_a_line_where_they_begin() -> None:
    rows = spans((Phase.DRAFT, 0, 30), (Phase.DRAFT, 30, 60), (Phase.DRAFT, 60, 62))
    assert wide_starts(rows, 0, 100, 100, 5).tolist() == [0, 30]


SPAN_LISTS = st.lists(st.tuples(st.sampled_from(list(Phase)), st.integers(-50, 150), st.integers(0, 80)), max_size=30)


@settings(max_examples=200, deadline=None)
@given(SPAN_LISTS, st.integers(1, 40))
def test_no_time_is_lost_or_invented(rows: list[tuple[Phase, int, int]], n_pixels: int) -> None:
    # One after another, so that the cover of a pixel is the time spent in it.
    ordered, at = [], -50
    for phase, _, length in rows:
        ordered.append((phase, at, at + length))
        at += length
    _, cover = phase_row(spans(*ordered), 0, 100, n_pixels)
    inside = sum(max(min(end, 100) - max(start, 0), 0) for _, start, end in ordered)
    assert np.isclose(float(cover.sum()) * 100 / n_pixels, inside, rtol=1e-4, atol=1e-4)
