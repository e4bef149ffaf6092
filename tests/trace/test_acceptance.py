"""The figures of acceptance, against their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.engine.events import Kind, Origin, SlotState, empty_records
from draftscope.trace.acceptance import AcceptanceTable, SlotAcceptance, from_counts
from draftscope.trace.store import TraceStore
from tests.trace.synthetic import SyntheticRun, make_store, record


def rounds_of(pairs, slot=0):
    made = [
        record(Kind.ROUND, slot=slot, round=i, n=n, m=m, t_start_ns=i * 10, duration_ns=10)
        for i, (n, m) in enumerate(pairs)
    ]
    return np.concatenate([empty_records(), *made])


def table_of(*parts):
    table = AcceptanceTable()
    table.update(make_store(np.concatenate(parts)))
    return table


def test_the_figures_of_a_slot_follow_their_definitions():
    slot = table_of(rounds_of([(3, 3), (3, 1), (2, 0), (0, 0)])).slot(0)
    assert (slot.n_rounds, slot.draft_n, slot.n_accepted) == (4, 8, 4)
    assert slot.rate == 4 / 8
    assert slot.mean_accepted_length == 1 + 4 / 4
    assert slot.drafted_at == (3, 3, 2)
    assert slot.accepted_at == (2, 1, 1)
    assert slot.per_position == (2 / 3, 1 / 3, 1 / 2)


def test_without_drafts_there_is_no_rate_but_a_length_of_one():
    slot = table_of(rounds_of([(0, 0), (0, 0)])).slot(0)
    assert math.isnan(slot.rate)
    assert slot.mean_accepted_length == 1
    assert slot.per_position == ()


def test_a_slot_without_records_has_no_figures():
    slot = AcceptanceTable().slot(3)
    assert slot == AcceptanceTable().slot(4)
    assert (slot.n_rounds, slot.draft_n) == (0, 0)
    assert math.isnan(slot.rate)
    assert math.isnan(slot.mean_accepted_length)
    assert math.isnan(slot.tokens_per_second)
    assert math.isnan(AcceptanceTable().total().tokens_per_second)
    assert [len(column) for column in AcceptanceTable().over_rounds(3, 5)] == [0, 0]


def test_slots_are_counted_apart_and_the_total_counts_all():
    table = table_of(rounds_of([(3, 3), (3, 2)], 0), rounds_of([(4, 0)], 2))
    assert table.slots() == (0, 2)
    assert (table.slot(0).rate, table.slot(2).rate) == (5 / 6, 0)
    total = table.total()
    assert (total.n_rounds, total.draft_n, total.n_accepted) == (3, 10, 5)
    assert total.drafted_at == (3, 3, 3, 1)
    assert total.accepted_at == (2, 2, 1, 0)


def test_produced_tokens_are_those_that_were_not_rejected():
    origins = (Origin.SAMPLED, Origin.ACCEPTED, Origin.REJECTED, Origin.SAMPLED)
    tokens = [record(Kind.TOKEN, slot=1, code=origin) for origin in origins]
    table = table_of(*tokens)
    assert table.slot(1).n_tokens == table.total().n_tokens == 3


def test_the_speed_of_a_slot_is_the_engines_and_that_of_all_is_tokens_over_time():
    first = record(Kind.ROUND, t_start_ns=0, duration_ns=10**9, value=0.0)
    last = record(Kind.ROUND, slot=1, t_start_ns=10**9, duration_ns=10**9, value=12.5)
    tokens = [record(Kind.TOKEN, slot=slot) for slot in (0, 1, 1, 1)]
    table = table_of(first, last, *tokens)
    assert math.isnan(table.slot(0).tokens_per_second)
    assert table.slot(1).tokens_per_second == 12.5
    assert table.total().tokens_per_second == 4 / 2


def test_counts_of_an_engine_give_the_same_figures_as_its_records():
    run = SyntheticRun()
    table = AcceptanceTable()
    table.update(make_store(run.make(60)))
    for slot, pairs in run.counts.items():
        seen = table.slot(slot)
        counted = from_counts(
            n_rounds=len(pairs),
            draft_n=sum(n for n, _ in pairs),
            n_accepted=sum(m for _, m in pairs),
            drafted_at=[sum(n > i for n, _ in pairs) for i in range(run.n_draft)],
            accepted_at=[sum(m > i for _, m in pairs) for i in range(run.n_draft)],
            n_tokens=1 + sum(1 + m for _, m in pairs),
        )
        assert (seen.rate, seen.mean_accepted_length, seen.per_position) == (
            counted.rate,
            counted.mean_accepted_length,
            counted.per_position,
        )
        assert seen.n_tokens == counted.n_tokens
    rates = [table.slot(slot).rate for slot in range(4)]
    assert rates == sorted(rates, reverse=True)


def test_the_speed_from_counts_leaves_out_the_first_token():
    fields = {"n_rounds": 1, "draft_n": 0, "n_accepted": 0}
    assert from_counts(**fields, n_tokens=11, generate_ms=500).tokens_per_second == 20
    assert math.isnan(from_counts(**fields, n_tokens=1, generate_ms=500).tokens_per_second)
    assert math.isnan(from_counts(**fields, n_tokens=5).tokens_per_second)


def test_moving_acceptance_looks_back_over_the_rounds_of_the_slot():
    table = table_of(rounds_of([(2, 2), (2, 0), (0, 0), (0, 0), (4, 1)]))
    rounds, rate = table.over_rounds(0, 2)
    assert rounds.tolist() == [0, 1, 2, 3, 4]
    assert (rounds.dtype, rate.dtype) == (np.int32, np.float32)
    assert rate[[0, 1, 2, 4]].tolist() == [1.0, 0.5, 0.0, 0.25]
    assert math.isnan(rate[3])


@pytest.mark.parametrize("window", [1, 3, 5, 99])
def test_a_window_as_long_as_the_run_ends_at_the_overall_rate(window):
    pairs = [(3, 1), (3, 3), (3, 0), (2, 2), (3, 2)]
    _, rate = table_of(rounds_of(pairs)).over_rounds(0, window)
    expected = pairs[-window:]
    assert rate[-1] == np.float32(sum(m for _, m in expected) / sum(n for n, _ in expected))


def test_a_cleared_store_starts_the_table_anew_even_when_it_has_grown_again():
    store = make_store(rounds_of([(3, 3)] * 4))
    table = AcceptanceTable()
    table.update(store)
    store.clear()
    store.append(rounds_of([(3, 0)] * 9))
    table.update(store)
    assert (table.slot(0).n_rounds, table.slot(0).n_accepted) == (9, 0)


def test_figures_are_frozen():
    with pytest.raises(AttributeError):
        SlotAcceptance().n_rounds = 3  # type: ignore[misc]


@given(
    pairs=st.lists(st.integers(0, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=5),
)
def test_updating_in_parts_gives_what_counting_by_hand_gives(pairs, cuts):
    table, store = AcceptanceTable(), TraceStore()
    for part in np.split(rounds_of(pairs), sorted(min(cut, len(pairs)) for cut in cuts)):
        store.append(part)
        table.update(store)
    slot = table.slot(0)
    longest = max((n for n, _ in pairs), default=0)
    assert slot.n_rounds == len(pairs)
    assert (slot.draft_n, slot.n_accepted) == (sum(n for n, _ in pairs), sum(m for _, m in pairs))
    assert slot.drafted_at == tuple(sum(n > i for n, _ in pairs) for i in range(longest))
    assert slot.accepted_at == tuple(sum(m > i for _, m in pairs) for i in range(longest))


def test_the_speed_of_all_leaves_out_the_time_between_turns():
    second = 1_000_000_000

    def state(code, t_ns):
        return record(Kind.SLOT, code=code, t_start_ns=t_ns)

    rounds = rounds_of([(0, 0)] * 4)
    rounds["t_start_ns"] = np.array([0, 1, 61, 62]) * second
    rounds["duration_ns"] = second
    tokens = np.concatenate([record(Kind.TOKEN, code=Origin.SAMPLED)] * 8)
    states = [state(SlotState.PROMPT, 0), state(SlotState.DONE, 2 * second)]
    states += [state(SlotState.PROMPT, 61 * second), state(SlotState.DONE, 63 * second)]
    table = table_of(states[0], rounds[:2], tokens[:4], states[1], states[2], rounds[2:], tokens[4:], states[3])
    assert table.total().tokens_per_second == 8 / 4
