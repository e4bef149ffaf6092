"""Tracks laid out part by part are those laid out as a whole."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from draftscope.engine.events import ENGINE_TRACK, Kind, empty_records
from draftscope.trace.export.layout import Part, lay_out
from draftscope.trace.export.source import Source
from tests.trace.export.made_probes import with_probes
from tests.trace.export.test_chrome import RECORD
from tests.trace.synthetic import make_many, make_records, make_trace

COLUMNS = ("t_ns", "part", "kind", "index", "end_ns", "flow")


def parts_of(trace, slot, n_most):
    return list(lay_out(Source(trace, with_text=True).records, slot, 7, n_most))


def joined(parts, column):
    return np.concatenate([getattr(part, column) for part in parts])


def tokens_of(parts):
    """Rounds, their tokens, and how many each has, over all parts."""
    found = ([], [], [])
    for part in parts:
        rounds = part.index[(part.kind == Kind.ROUND) & (part.part == Part.SLICE)]
        for column, values in zip(found, (rounds, *part.tokens_of(rounds)), strict=True):
            column.extend(values.tolist())
    return found


def check_equal(trace, slot, n_most):
    whole, parts = parts_of(trace, slot, 10**9), parts_of(trace, slot, n_most)
    assert len(whole) == 1
    for column in COLUMNS:
        np.testing.assert_array_equal(joined(parts, column), joined(whole, column))
    assert tokens_of(parts) == tokens_of(whole)
    return parts


def test_a_track_in_parts_is_the_same_track():
    trace = with_probes(make_trace(make_records(300)))
    for slot in (ENGINE_TRACK, 0, 3):
        parts = check_equal(trace, slot, 100)
        assert len(parts) > 5
        assert max(len(part) for part in parts) < 400


@given(rows=st.lists(RECORD, max_size=25), n_most=st.integers(1, 8))
def test_any_records_in_parts_are_the_same_track(rows, n_most):
    records = empty_records(len(rows))
    for made, row in zip(records, rows, strict=True):
        for name, value in row.items():
            made[name] = value
    for slot in np.unique(records["slot"]).tolist():
        check_equal(make_trace(records), slot, n_most)


def test_parts_of_a_large_trace_are_no_larger_than_asked_for():
    trace = make_trace(make_many(100_000))
    for slot in (ENGINE_TRACK, 1):
        assert max(len(part) for part in parts_of(trace, slot, 5_000)) < 7_000
