"""The store: what goes in comes out, windows and rounds are found, gaps are counted."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.engine.events import ENGINE_TRACK, Kind, Phase, empty_records
from draftscope.trace.store import TraceStore
from tests.trace.export.made_probes import made_arrays
from tests.trace.synthetic import make_many, make_records, make_store, record


def same(a, b):
    return a.tobytes() == b.tobytes()


def test_records_come_back_by_kind_and_in_order_however_they_were_cut():
    records = make_records(40)
    store = TraceStore()
    for part in np.array_split(records, 53):
        store.append(part)
    assert store.n_records == len(records)
    assert same(store.in_order(), records)
    for kind in Kind:
        assert same(store.kind(kind), records[records["kind"] == kind])


def test_views_are_read_only_and_survive_appending_and_clearing():
    records = make_records(5)
    store = make_store(records)
    view = store.kind(Kind.SPAN)
    before = view.copy()
    store.append(make_records(200, seed=1))
    store.clear()
    store.append(make_records(5, seed=2))
    assert same(view, before)
    with pytest.raises(ValueError, match="read-only"):
        view["n"] = 1


def test_the_store_keeps_a_copy_of_what_it_was_given():
    records = record(Kind.ROUND, n=3, m=2)
    store = make_store(records)
    records["n"] = 9
    assert store.kind(Kind.ROUND)["n"].tolist() == [3]


def test_another_dtype_is_refused():
    with pytest.raises(ValueError, match="trace records"):
        TraceStore().append(np.zeros(3))


def test_an_empty_store_has_no_slots_and_no_times():
    store = make_store(empty_records())
    assert (store.n_records, store.slots(), store.time_range()) == (0, (), None)
    assert len(store.spans_in(0, 0, 10)) == len(store.round_records(0)) == len(store.in_order()) == 0


def test_slots_leave_out_the_engine_track_and_the_time_range_covers_all():
    records = make_records(10, n_slots=3)
    store = make_store(records)
    assert store.slots() == (0, 1, 2)
    end = records["t_start_ns"] + records["duration_ns"]
    assert store.time_range() == (records["t_start_ns"].min(), end.max())


def test_records_that_are_missing_in_the_sequence_are_counted():
    records = make_records(10)
    store = TraceStore()
    store.append(records[5:20])
    assert store.n_missing == 0
    store.append(np.delete(records[23:60], [4, 5]))
    assert store.n_missing == 3 + 2


def test_a_sequence_that_starts_again_is_no_gap():
    store = make_store(make_records(10))
    store.append(make_records(3))
    assert store.n_missing == 0


def test_records_of_an_unknown_kind_are_counted_and_not_kept():
    strange = record(Kind.SPAN)
    strange["kind"] = 200
    store = make_store(np.concatenate([strange, record(Kind.ROUND)]))
    assert (store.n_records, store.n_unknown) == (1, 1)


def test_clearing_forgets_everything_and_tells_readers():
    store = make_store(make_records(10))
    store.append(make_records(3)[7:])
    store.clear()
    assert (store.n_records, store.n_missing, store.slots(), store.generation) == (0, 0, (), 1)
    assert len(store.spans_in(0, 0, 2**62)) == 0


def span(start, duration, slot=0):
    return record(Kind.SPAN, t_start_ns=start, duration_ns=duration, slot=slot, code=Phase.DRAFT)


def test_a_window_has_what_overlaps_it_and_nothing_that_only_touches_it():
    store = make_store(
        np.concatenate([span(0, 10), span(10, 10), span(20, 0), span(20, 10), span(30, 5), span(15, 2, 1)])
    )
    assert store.spans_in(0, 10, 20)["t_start_ns"].tolist() == [10]
    assert store.spans_in(0, 20, 30)["t_start_ns"].tolist() == [20, 20]
    assert store.spans_in(0, 12, 13)["t_start_ns"].tolist() == [10]
    assert store.spans_in(0, 35, 99)["t_start_ns"].tolist() == []


@pytest.mark.parametrize("n_parts", [1, 100])
def test_a_long_span_that_began_long_before_the_window_is_found(n_parts):
    short = [span(start, 5) for start in range(10, 1000, 10)]
    store = TraceStore()
    for part in np.array_split(np.concatenate([span(0, 10_000), *short]), n_parts):
        store.append(part)
    assert store.spans_in(0, 903, 904)["t_start_ns"].tolist() == [0, 900]


@given(
    spans=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    window=st.tuples(st.integers(-5, 100), st.integers(0, 50)),
)
def test_a_window_query_finds_what_a_full_search_finds(spans, cuts, window):
    records = np.concatenate([empty_records(), *(span(start, duration) for start, duration in spans)])
    store = TraceStore()
    for part in np.split(records, sorted(min(cut, len(records)) for cut in cuts)):
        store.append(part)
    t0, t1 = window[0], window[0] + window[1]
    expected = sorted(pair for pair in spans if pair[0] < t1 and (pair[0] >= t0 or sum(pair) > t0))
    found = store.spans_in(0, t0, t1)
    assert found["t_start_ns"].tolist() == sorted(found["t_start_ns"].tolist())
    assert sorted(found[["t_start_ns", "duration_ns"]].tolist()) == expected


def test_shared_decodes_are_found_on_the_engine_track_and_rounds_by_slot():
    records = make_records(10)
    store = make_store(records)
    low, high = store.time_range()
    expected = records[(records["kind"] == Kind.SPAN) & (records["slot"] == ENGINE_TRACK)]
    assert same(store.spans_in(ENGINE_TRACK, low, high + 1), expected)
    assert store.rounds_in(2, low, high + 1)["round"].tolist() == list(range(10))


@pytest.mark.parametrize("round", [-1, 0, 7, 19, 20, 2**31 - 1])
def test_a_round_has_all_its_records_in_order_of_arrival(round):
    records = make_records(20)
    assert same(make_store(records).round_records(round), records[records["round"] == round])


def test_rounds_that_are_counted_anew_are_found_all_the_same():
    records = np.concatenate([make_records(20), make_records(20, seed=3)])
    assert same(make_store(records).round_records(7), records[records["round"] == 7])


def test_a_million_records_are_taken_and_searched_quickly():
    records = make_many(1_000_000)
    store = TraceStore()
    started = time.perf_counter()
    for part in np.array_split(records, 2000):
        store.append(part)
    seconds = time.perf_counter() - started
    assert store.n_records == len(records)
    assert seconds < 5, f"{len(records)} records took {seconds:.2f} s"
    low, high = store.time_range()
    middle = (low + high) // 2
    started = time.perf_counter()
    for _ in range(100):
        assert 0 < len(store.spans_in(1, middle, middle + 1_000_000)) < 100
        assert len(store.round_records(3000)) > 10
    assert time.perf_counter() - started < 2


def test_a_store_hands_over_what_it_keeps_and_takes_it_back() -> None:
    store = TraceStore()
    store.append(make_records(20))
    records, views = store.in_order(), {kind: store.kind(kind) for kind in Kind}
    generation = store.generation
    kept = store.hand_over()
    assert (store.n_records, store.time_range()) == (0, None)
    assert same(kept.in_order(), records)
    store.append(make_records(3))
    store.take_over(kept)
    assert same(store.in_order(), records)
    assert all(same(store.kind(kind), view) for kind, view in views.items())
    assert (kept.n_records, store.generation) == (0, generation + 2)


def test_a_frozen_store_stays_as_it_is_while_the_other_grows_and_shares_its_memory():
    records = make_records(30)
    store = make_store(records[:500])
    store.append_arrays(made_arrays(2))
    frozen = store.frozen()
    window = store.time_range()
    before = frozen.spans_in(0, *window)
    assert np.shares_memory(frozen.kind(Kind.SPAN), store.kind(Kind.SPAN))
    store.append(records[500:])
    store.append_arrays(made_arrays(3))
    assert (frozen.n_records, len(frozen.probes), frozen.time_range()) == (500, 2, window)
    assert frozen.in_order().tobytes() == make_store(records[:500]).in_order().tobytes()
    assert same(frozen.spans_in(0, *window), before)
    assert store.n_records == len(records)
    store.clear()
    assert frozen.n_records == 500
    frozen.append(records[500:])
    assert frozen.in_order().tobytes() == make_store(records).in_order().tobytes()


def test_what_is_appended_to_a_frozen_store_does_not_come_into_the_other():
    records = make_records(30)
    store = make_store(records[:500])
    frozen = store.frozen()
    frozen.append(make_records(5, seed=9))
    store.append(records[500:])
    assert store.in_order().tobytes() == make_store(records).in_order().tobytes()
