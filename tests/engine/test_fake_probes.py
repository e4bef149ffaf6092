"""Probes and faults of the scripted engine: by level, the same text at each, and each fault changes what it should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.client import make_client
from draftscope.engine.events import Kind, Phase
from draftscope.engine.probes import ArrayKind, Fault, ProbeLevel, Probes, RestoreKind, StateStatus
from draftscope.engine.protocol import ForkSlot, InjectFault, RestoreSlot, SaveSlot, SetProbe, SlotResult
from draftscope.trace.restore_verdict import Verdict
from draftscope.trace.restores import RestoreTable
from draftscope.trace.rows_in_use import RowsInUse
from draftscope.trace.store import TraceStore
from tests.engine.talk import Talk, task

PROMPTS = ("class Stack:", "And it came to pass")


@pytest.fixture
def talk() -> Iterator[Talk]:
    client = make_client("fake:0", in_process=True)
    yield Talk(client)
    client.close()


def run(
    talk: Talk, level: ProbeLevel, fault: Fault = Fault.NONE, path: str = "fake:hybrid", layer: int = -1
) -> tuple[SlotResult, ...]:
    talk.load(path, n_ctx=1024)
    talk.ask(SetProbe(talk.client.next_id(), level))
    talk.ask(InjectFault(talk.client.next_id(), fault, layer=layer))
    talk.listen()
    tasks = (task(slot, text, 120, ignore_eos=True) for slot, text in enumerate(PROMPTS))
    return talk.run(*tasks).results


def probes_of(talk: Talk) -> Probes:
    results = [array.values for array in talk.arrays if array.kind is ArrayKind.RESULT]
    found: Probes = np.concatenate(results)
    return found


def store_of(talk: Talk) -> TraceStore:
    store = TraceStore()
    store.append(talk.records)
    store.append_arrays(talk.arrays)
    return store


@pytest.mark.parametrize("path", ["m", "fake:hybrid", "fake:plain"])
@pytest.mark.parametrize("level", ProbeLevel)
def test_a_run_is_the_same_at_every_level(talk: Talk, level: ProbeLevel, path: str) -> None:
    plain = run(talk, ProbeLevel.OFF, path=path)
    probed = run(talk, level, path=path)
    assert [r.tokens for r in probed] == [r.tokens for r in plain]
    assert [(r.draft_n, r.accepted_at) for r in probed] == [(r.draft_n, r.accepted_at) for r in plain]


@pytest.mark.parametrize("level", ProbeLevel)
def test_a_level_measures_its_part_and_those_before_it(talk: Talk, level: ProbeLevel) -> None:
    run(talk, level)
    kinds = {array.kind for array in talk.arrays}
    expected = {
        ProbeLevel.OFF: set(),
        ProbeLevel.HIDDEN: {ArrayKind.RESULT, ArrayKind.ROWS, ArrayKind.FINGERPRINTS},
        ProbeLevel.LOGITS: set(ArrayKind) - {ArrayKind.LAYERS},
        ProbeLevel.STATE: set(ArrayKind),
    }[level]
    assert kinds == expected
    spans = talk.records[(talk.records["kind"] == Kind.SPAN) & (talk.records["code"] == Phase.PROBE)]
    rows = talk.records[talk.records["kind"] == Kind.ROW]
    n_restores = np.count_nonzero(talk.records["kind"] == Kind.RESTORE)
    assert n_restores > 20
    if level is ProbeLevel.OFF:
        assert len(spans) == len(rows) == 0
    else:
        assert len(probes_of(talk)) == n_restores
        assert len(spans) == (0 if level is ProbeLevel.HIDDEN else n_restores)
        assert len(rows) == np.count_nonzero(talk.records["kind"] == Kind.ROUND)


def test_without_a_fault_everything_is_equal_and_every_row_is_that_of_its_position(talk: Talk) -> None:
    run(talk, ProbeLevel.STATE)
    store, table, rows = store_of(talk), RestoreTable(), RowsInUse()
    table.update(store)
    rows.update(store)
    assert table.n_by_verdict() == {Verdict.EQUAL: len(table)}
    assert table.n_unmatched == 0
    assert rows.n == rows.n_right > 20
    probes = probes_of(talk)
    assert (probes["without_n_differing"] > 0).all()
    assert (probes["saved_accepted"] == probes["restored_accepted"]).all()
    assert (probes["without_accepted"] < probes["saved_accepted"]).any()


FOUND_BY = {
    Fault.OMIT_HOOK: Verdict.ROW_OF_OTHER_POSITION,
    Fault.ZERO_ROW: Verdict.ROW_ZERO,
    Fault.STALE_ROW: Verdict.ROW_OF_OTHER_POSITION,
    Fault.SKIP_LAYER: Verdict.STATE_DIFFERS,
    Fault.COMPANION_BEHIND: Verdict.COMPANION_WRONG,
}


@pytest.mark.parametrize("fault", FOUND_BY)
def test_a_fault_is_found_where_it_is(talk: Talk, fault: Fault) -> None:
    run(talk, ProbeLevel.STATE, fault, layer=5)
    store, table, rows = store_of(talk), RestoreTable(), RowsInUse()
    table.update(store)
    rows.update(store)
    assert table.n_by_verdict() == {FOUND_BY[fault]: len(table)}
    has_row = fault in (Fault.SKIP_LAYER, Fault.COMPANION_BEHIND)
    assert (rows.n_right == rows.n) == has_row
    probes = probes_of(talk)
    assert ((probes["restored_n_changed"] == 0) == has_row).all()
    if fault is Fault.SKIP_LAYER:
        assert set(probes["worst_layer"].tolist()) == {5}


def test_a_fault_costs_acceptance_and_leaves_the_text(talk: Talk) -> None:
    right = run(talk, ProbeLevel.OFF)
    wrong = run(talk, ProbeLevel.OFF, Fault.OMIT_HOOK)
    assert [r.tokens for r in wrong] == [r.tokens for r in right]
    assert sum(r.draft_n_accepted for r in wrong) / sum(r.draft_n for r in wrong) < 0.8 * (
        sum(r.draft_n_accepted for r in right) / sum(r.draft_n for r in right)
    )


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.OMIT_HOOK])
def test_the_draft_from_the_restored_row_is_what_is_drafted_next(talk: Talk, fault: Fault) -> None:
    run(talk, ProbeLevel.LOGITS, fault)
    drafts = {array.t_start_ns: array.values for array in talk.arrays if array.kind is ArrayKind.DRAFT_TOKENS}
    tokens = talk.records[(talk.records["kind"] == Kind.TOKEN) & (talk.records["n"] > 0)]
    n_compared = 0
    for probe in probes_of(talk):
        following = tokens[(tokens["slot"] == probe["slot"]) & (tokens["round"] == probe["round"] + 1)]
        if len(following) == probe["n_draft"]:
            n_compared += 1
            assert drafts[int(probe["t_start_ns"])][1].tolist() == following["token"].tolist()
            assert np.count_nonzero(following["code"] == 1) == probe["restored_accepted"]
    assert n_compared > 20


def test_levels_and_faults_are_those_of_their_slots(talk: Talk) -> None:
    talk.load("m", n_ctx=1024)
    talk.ask(SetProbe(talk.client.next_id(), ProbeLevel.HIDDEN, (1,)))
    talk.run(*(task(slot, text, 60) for slot, text in enumerate(PROMPTS)))
    assert set(probes_of(talk)["slot"].tolist()) == {1}
    talk.load("m", n_ctx=1024)
    assert set(probes_of(talk)["fault"].tolist()) == {0}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("m", StateStatus.EQUAL),
        ("fake:plain", StateStatus.NO_RECURRENT_LAYERS),
        ("fake:unknown-layout", StateStatus.UNKNOWN_LAYOUT),
    ],
)
def test_a_state_that_cannot_be_compared_says_why(talk: Talk, path: str, status: StateStatus) -> None:
    run(talk, ProbeLevel.STATE, path=path)
    assert set(probes_of(talk)["state_status"].tolist()) == {status}


def test_states_that_are_put_back_as_a_whole_are_probed_too(talk: Talk, tmp_path: Path) -> None:
    run(talk, ProbeLevel.STATE)
    path = str(tmp_path / "kept.slot")
    talk.change(SaveSlot(talk.client.next_id(), 0, path))
    talk.change(RestoreSlot(talk.client.next_id(), 1, path))
    talk.change(ForkSlot(talk.client.next_id(), 0, 1))
    talk.run(task(0, PROMPTS[0], 20))
    talk.run(task(0, f"{PROMPTS[0]} again", 20))
    table = RestoreTable()
    table.update(store_of(talk))
    assert set(table.kinds()) == {RestoreKind.REJECTION, RestoreKind.PROMPT, RestoreKind.SLOT, RestoreKind.FORK}
    assert table.n_unmatched == 0
    assert Verdict.NOT_PROBED not in table.n_by_verdict()
    assert {int(probe["state_status"]) for probe in probes_of(talk) if probe["kind"] == RestoreKind.SLOT} == {
        StateStatus.NO_REFERENCE
    }
