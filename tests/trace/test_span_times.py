"""Sums of times by phase: equal to going through all spans, whatever their order and overlap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from draftscope.engine.events import ENGINE_TRACK, Kind, Phase
from draftscope.trace.span_times import N_PHASES, LaneTimes, SpanTimes
from tests.trace.synthetic import make_records, make_store, record

SPAN = st.tuples(st.integers(0, 100), st.integers(-3, 40), st.sampled_from([1, 2, 4, 4, 200]))
ORIGIN = 2**61
"""Far from 0, so that running sums wrap around."""


def made(rows):
    parts = [record(Kind.SPAN, t_start_ns=ORIGIN + start, duration_ns=n, code=code) for start, n, code in rows]
    return np.concatenate(parts)


def counted(rows, edges):
    """Nanoseconds of each phase between edges, one by one."""
    found = np.zeros((N_PHASES, len(edges) - 1))
    for start, n, code in rows:
        for place in range(len(edges) - 1):
            overlap = min(start + max(n, 0), edges[place + 1]) - max(start, edges[place])
            if code < N_PHASES:
                found[code, place] += max(overlap, 0)
    return found


@given(
    st.lists(st.lists(SPAN, min_size=1, max_size=6), min_size=1, max_size=5), st.sets(st.integers(-5, 150), min_size=2)
)
def test_the_time_in_each_phase_is_that_of_all_spans_in_any_order(batches, edges):
    lane, edges = LaneTimes(), sorted(edges)
    for rows in batches:
        lane.append(made(rows))
    rows = [row for batch in batches for row in batch]
    np.testing.assert_array_equal(lane.between(np.array(edges) + ORIGIN), counted(rows, edges))
    t0, t1 = edges[0], edges[-1]
    overlapping = sum(start < t1 and start + max(n, 0) >= t0 for start, n, _ in rows)
    assert lane.n_in(ORIGIN + t0, ORIGIN + t1) == overlapping


def test_a_store_is_followed_in_parts_and_started_anew_when_it_is_cleared():
    records = make_records(30)
    store, times = make_store(records[:400]), SpanTimes()
    times.update(store)
    store.append(records[400:])
    times.update(store)
    first, last = store.time_range()
    edges = np.array([first, last + 1])
    spans = store.kind(Kind.SPAN)
    for slot in (ENGINE_TRACK, 0, 3):
        of_slot = spans[spans["slot"] == slot]
        assert times.lane(slot).n_in(*edges.tolist()) == len(of_slot) > 0
        drafts = of_slot["duration_ns"][of_slot["code"] == Phase.DRAFT]
        assert times.lane(slot).between(edges)[Phase.DRAFT, 0] == drafts.sum()
    store.clear()
    times.update(store)
    assert times.lane(0).n_in(*edges.tolist()) == 0


def test_only_new_spans_are_gone_through(monkeypatch):
    store, times = make_store(make_records(50)), SpanTimes()
    times.update(store)
    taken = []
    append = LaneTimes.append
    monkeypatch.setattr(LaneTimes, "append", lambda self, spans: (taken.append(len(spans)), append(self, spans))[1])
    store.append(record(Kind.SPAN, t_start_ns=2**50, duration_ns=5, code=Phase.DRAFT))
    times.update(store)
    assert taken == [1]
