"""The table of restores: which records it holds, which probe belongs to which, and what the verdicts say."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from draftscope.engine.events import ENGINE_TRACK, Kind, Mechanism, Operation, Phase, Reuse, SlotState
from draftscope.engine.probes import (
    FAULTS,
    PROBE_COLUMNS,
    UNKNOWN_POSITION,
    ZERO_ROW,
    Fault,
    RestoreKind,
    StateStatus,
)
from draftscope.trace.probe_cost import ProbeCost
from draftscope.trace.restore_text import csv_table, markdown_table, probe_sentences, restore_markdown
from draftscope.trace.restore_verdict import (
    Verdict,
    effect_briefly,
    effect_of,
    findings_of,
    verdict_briefly,
    verdict_words,
    verdicts_of,
    worth_of,
)
from draftscope.trace.restores import PATIENCE_NS, RestoreTable
from draftscope.trace.rows_in_use import RowsInUse
from draftscope.trace.store import TraceStore
from tests.trace.probed import moment, operation, probe, restore, result, store_with
from tests.trace.synthetic import make_records, make_store, record


def table_of(store: TraceStore) -> RestoreTable:
    table = RestoreTable()
    table.update(store)
    return table


# ---- which records


def test_every_restore_of_a_run_is_there_in_order_of_time() -> None:
    records = make_records(50)
    table = table_of(make_store(records))
    expected = records[records["kind"] == Kind.RESTORE]
    assert len(table) == len(expected) > 20
    for name in ("t_start_ns", "round", "slot", "position", "duration_ns", "size_bytes"):
        assert table.rows[name].tolist() == expected[name].tolist()
    assert table.n_by_verdict() == {Verdict.NOT_PROBED: len(table)}


def test_operations_that_put_a_state_back_are_restores_and_others_are_not() -> None:
    kinds = {
        Operation.PROMPT_RESTORE: RestoreKind.PROMPT,
        Operation.CACHE_TAKE: RestoreKind.CACHE,
        Operation.SLOT_RESTORE: RestoreKind.SLOT,
        Operation.FORK: RestoreKind.FORK,
        Operation.REWIND: RestoreKind.REWIND,
    }
    reuse = {Operation.FORK: Reuse.KEPT, Operation.REWIND: Reuse.RESTORED}
    records = [
        operation(1_000_000 * what, what, n=30, position=32, m=reuse.get(what, Reuse.NONE)) for what in Operation
    ]
    table = table_of(store_with(*records))
    assert table.rows["kind"].tolist() == [kinds[what] for what in Operation if what in kinds]
    assert set(table.rows["position"].tolist()) == {30}
    replay = dict(zip(table.rows["kind"].tolist(), table.rows["n_replay"].tolist(), strict=True))
    assert (replay[RestoreKind.PROMPT], replay[RestoreKind.FORK]) == (0, 2)


def test_a_slot_that_a_fork_reads_and_a_rewind_that_drops_a_tail_put_no_state_back() -> None:
    records = (
        operation(1_000, Operation.FORK, n=30, m=Reuse.NONE),
        operation(2_000, Operation.REWIND, n=20, m=Reuse.TAIL_DROPPED),
        operation(3_000, Operation.REWIND, n=20, m=Reuse.KEPT),
        operation(4_000, Operation.SLOT_RESTORE, n=0),
    )
    assert len(table_of(store_with(*records))) == 0


@pytest.mark.parametrize("at_once", [True, False])
def test_a_rewind_by_a_prompt_checkpoint_is_one_restore(at_once: bool) -> None:
    part = operation(2_000, Operation.PROMPT_RESTORE, n=30, duration_ns=500)
    whole = operation(1_000, Operation.REWIND, n=30, duration_ns=3_000, m=Reuse.RESTORED)
    store, table = TraceStore(), RestoreTable()
    for records in [np.concatenate([part, whole])] if at_once else [part, whole]:
        store.append(records)
        table.update(store)
    assert [RestoreKind(kind) for kind in table.rows["kind"]] == [RestoreKind.REWIND]
    store.append_arrays([result(probe(1_800, kind=RestoreKind.REWIND, position=30))])
    table.update(store)
    assert table.n_by_verdict() == {Verdict.EQUAL: 1}


# ---- which probe


def test_a_probe_belongs_to_the_restore_that_it_began_before_or_within() -> None:
    records = (restore(10_000, 0, 1), restore(20_000, 1, 1), restore(50_000, 0, 2), restore(90_000, 0, 3))
    table = table_of(store_with(*records, probes=(probe(49_000, round=2), probe(21_000, slot=1, round=1))))
    assert [row["probe"] for row in table.rows] == [-1, 1, 0, -1]
    assert table.n_unmatched == 0


def test_probes_of_rejections_and_of_operations_are_kept_apart() -> None:
    records = (restore(10_000), operation(20_000, Operation.PROMPT_RESTORE, n=40))
    table = table_of(store_with(*records, probes=(probe(9_000, kind=RestoreKind.PROMPT),)))
    assert [row["probe"] for row in table.rows] == [-1, 0]
    assert [Mechanism(int(row["mechanism"])) for row in table.rows] == [Mechanism.HOST, Mechanism.HOST]


def test_a_probe_that_came_before_its_restore_waits_for_it() -> None:
    store = store_with(restore(10_000, round_id=1), probes=(probe(69_000, round=2),))
    table = table_of(store)
    assert [row["probe"] for row in table.rows] == [-1]
    store.append(restore(70_000, round_id=2))
    assert table.update(store)
    assert [row["probe"] for row in table.rows] == [-1, 0]
    assert not table.update(store)


def test_a_probe_that_is_told_again_is_the_newer_one() -> None:
    store = store_with(restore(10_000), probes=(probe(9_000, n_vocab=0, saved_accepted=-1),))
    table = table_of(store)
    store.append_arrays([result(probe(9_000, saved_accepted=1))])
    table.update(store)
    assert len(store.probes) == 1
    assert table.probe(0)["saved_accepted"] == 1  # type: ignore[index]


def test_a_probe_whose_restore_was_lost_is_counted_and_joined_to_no_other() -> None:
    lost = (probe(5_000, position=57), probe(5_500, slot=3))
    store = store_with(restore(10_000, position=40), probes=lost)
    table = table_of(store)
    assert table.n_unmatched == 0
    store.append(moment(6_000 + PATIENCE_NS))
    table.update(store)
    assert table.n_unmatched == 2
    assert [row["probe"] for row in table.rows] == [-1]


def test_a_cleared_store_begins_anew() -> None:
    store = store_with(restore(1_000), probes=(probe(500),))
    table = table_of(store)
    store.clear()
    table.update(store)
    assert (len(table), table.n_by_verdict()) == (0, {})


def test_filters_pass_what_they_say() -> None:
    records = [restore(100_000 * (n + 1), slot=n % 2, round_id=n) for n in range(6)]
    bad = probe(250_000, slot=0, restored_n_differing=3, restored_position=41)
    table = table_of(store_with(*records, operation(700_000, Operation.FORK, 40, m=Reuse.KEPT), probes=(bad,)))
    assert table.select().tolist() == list(range(7))
    assert table.select(slot=1).tolist() == [1, 3, 5]
    assert table.select(kind=RestoreKind.FORK).tolist() == [6]
    assert table.select(only_differing=True).tolist() == [2]
    assert table.slots() == (0, 1)
    assert table.kinds() == (RestoreKind.REJECTION, RestoreKind.FORK)


# ---- verdicts

STALE = {"restored_n_differing": 60, "restored_max_abs": 3.25, "restored_position": 43}
CASES = (
    ({}, Verdict.EQUAL, "equal"),
    (STALE, Verdict.ROW_OF_OTHER_POSITION, "row differs: it is the row of position 43, expected 40"),
    (STALE | {"restored_position": ZERO_ROW}, Verdict.ROW_ZERO, "row is zero"),
    ({"restored_position": ZERO_ROW}, Verdict.ROW_ZERO, "row is zero, and was saved so"),
    (
        {"restored_position": 43},
        Verdict.ROW_OF_OTHER_POSITION,
        "row was saved wrong: it is the row of position 43, expected 40",
    ),
    ({"restored_position": UNKNOWN_POSITION}, Verdict.EQUAL, "equal"),
    ({"restored_position": ZERO_ROW, "row_position": -1}, Verdict.EQUAL, "equal"),
    (
        STALE | {"restored_position": -1},
        Verdict.ROW_UNKNOWN,
        "row differs in 60 of 64 dimensions by up to 3.25: it is none of the slot's known rows",
    ),
    (
        {
            "state_status": StateStatus.DIFFERS,
            "state_max_abs": 0.12,
            "worst_layer": 3,
            "worst_part": 1,
            "n_layers_differing": 1,
        },
        Verdict.STATE_DIFFERS,
        "recurrent layer 3, delta-net part differs by up to 0.120",
    ),
    ({"companion_n": 38}, Verdict.COMPANION_LENGTH, "MTP context holds 38 of 41 positions"),
    ({"companion_n": 44}, Verdict.COMPANION_LENGTH, "MTP context holds 44 positions, 3 more than it should"),
    (
        {"companion_n_wrong": 7, "companion_first_wrong": 34},
        Verdict.COMPANION_WRONG,
        "7 of the MTP context's positions come from other tokens or rows, from position 34 on",
    ),
    (
        {"state_status": StateStatus.ROUNDING, "state_max_abs": 3e-7, "state_scatter": 5e-7},
        Verdict.ROUNDING,
        "equal, the recurrent state within rounding",
    ),
    (
        {
            "restored_n_differing": -1,
            "companion_expected": -1,
            "companion_n": -1,
            "companion_n_wrong": -1,
            "state_status": StateStatus.UNKNOWN_LAYOUT,
        },
        Verdict.NOTHING_COMPARED,
        "nothing could be compared",
    ),
)


@pytest.mark.parametrize(("columns", "verdict", "words"), CASES, ids=lambda case: str(case)[:40])
def test_a_verdict_names_what_was_found(columns: dict[str, float], verdict: Verdict, words: str) -> None:
    row = probe(**columns)
    assert verdict_words(row) == words
    assert verdicts_of(np.asarray(row).reshape(1)).tolist() == [verdict]
    assert [finding.verdict for finding in findings_of(row)] == ([verdict] if verdict.is_difference else [])


def test_the_gravest_comes_first_and_the_others_are_not_lost() -> None:
    row = probe(**STALE, companion_n=38, companion_n_wrong=2)
    assert verdict_words(row).endswith("expected 40; and 2 more")
    assert [finding.verdict for finding in findings_of(row)] == [
        Verdict.ROW_OF_OTHER_POSITION,
        Verdict.COMPANION_LENGTH,
        Verdict.COMPANION_WRONG,
    ]
    assert verdict_words(None) == "not probed"


def test_a_difference_stands_beside_its_effect_which_may_be_none() -> None:
    harmless = probe(**STALE, restored_n_changed=100)
    assert effect_of(harmless) == (
        False,
        "100 of 100 draft logits change, the same likeliest token, the same draft, 2 accepted either way",
    )
    harmful = probe(**STALE, restored_n_changed=100, restored_top=9, restored_n_same=1, restored_accepted=1)
    assert effect_of(harmful) == (
        True,
        "100 of 100 draft logits change, another likeliest token, another draft from its token 2 on, 1 accepted instead"
        " of 2",
    )
    assert effect_of(probe(**STALE, n_vocab=0)).matters is None
    assert effect_of(probe()).matters is False
    assert effect_of(probe(companion_n=38)).matters is None
    assert effect_of(probe(restored_position=43)) == (
        None,
        "the saved row is wrong itself, so drafts from it do not tell what this does",
    )


def test_layers_that_are_off_by_more_than_rounding_after_a_rollback_are_counted_as_such() -> None:
    differing = {"state_status": StateStatus.DIFFERS, "state_max_abs": 0.5, "worst_layer": 3, "n_layers_differing": 2}
    assert verdict_words(probe(**differing)).endswith("(2 of 18 recurrent layers differ)")
    words = verdict_words(probe(**differing, mechanism=Mechanism.ROLLBACK))
    assert words.endswith("(2 of 18 recurrent layers differ by more than rounding)")


def test_a_table_has_the_verdict_in_few_words() -> None:
    assert verdict_briefly(None) == "not probed"
    assert verdict_briefly(probe()) == "equal"
    assert verdict_briefly(probe(**STALE)) == "row of 43, expected 40"
    assert verdict_briefly(probe(**STALE, companion_n=38)) == "row of 43, expected 40 +1"
    differing = {"state_status": StateStatus.DIFFERS, "state_max_abs": 0.12, "worst_layer": 3}
    assert verdict_briefly(probe(**differing)) == "layer 3 off by 0.120"
    assert verdict_briefly(probe(companion_n=38)) == "MTP context 38 of 41"
    assert verdict_briefly(probe(companion_n_wrong=2, companion_first_wrong=30)) == "MTP context, 2 wrong"


def test_the_effect_is_told_briefly_where_there_is_a_difference() -> None:
    changed = STALE | {"restored_n_changed": 100}
    assert effect_briefly(None) == effect_briefly(probe()) == ""
    assert effect_briefly(probe(**changed)) == "none"
    assert effect_briefly(probe(**changed, restored_top=9)) == "another likeliest token"
    assert effect_briefly(probe(**changed, restored_n_same=2)) == "another draft"
    assert effect_briefly(probe(**changed, restored_n_same=1, restored_accepted=1)) == "accepts 1, not 2"
    assert effect_briefly(probe(**STALE, n_vocab=0)) == effect_briefly(probe(companion_n=3)) == "not measured"


def test_what_the_hook_is_worth_is_said_apart() -> None:
    words = worth_of(probe())
    assert words.startswith(
        "Without the hook drafting would go on from the row of position 43 instead of 40, off by up"
    )
    assert words.endswith("another draft from its token 1 on, 0 accepted instead of 2.")
    assert worth_of(probe(without_n_differing=0)) == "Without the hook the row would be the same here."
    assert worth_of(probe(without_n_differing=-1)) == ""
    assert "a row of zeros" in worth_of(probe(without_position=ZERO_ROW))


def test_a_probe_in_sentences_says_what_could_not_be_compared_and_which_fault_was_there() -> None:
    row = probe(state_status=StateStatus.UNKNOWN_LAYOUT, fault=FAULTS.index(Fault.STALE_ROW))
    text = "\n".join(probe_sentences(row))
    assert "Equal bit for bit: all 64 dimensions of the row, the 41 positions of the MTP context." in text
    assert "the layout of its bytes is not known" in text
    assert "A fault was injected on purpose: an older pending row is put back." in text


# ---- text


def filled() -> RestoreTable:
    records = (restore(10_000, round_id=1), restore(50_000, round_id=2))
    return table_of(store_with(*records, probes=(probe(49_000, **STALE),)))


def test_markdown_has_a_row_a_restore() -> None:
    lines = markdown_table(filled(), (0, 1)).splitlines()
    assert len(lines) == 4
    assert lines[2] == "| 1 | 0 | rejected draft | host | 40 | 2 | 5.00 µs | not probed |  |"
    assert lines[3].endswith("| row differs: it is the row of position 43, expected 40 | none |")


def test_csv_has_every_figure_by_its_name_and_nothing_where_nothing_was_measured() -> None:
    first, second = csv.DictReader(io.StringIO(csv_table(filled(), (0, 1))))
    assert {column.name for column in PROBE_COLUMNS} <= set(first)
    assert (first["verdict"], first["restored_max_abs"], first["level"]) == ("not_probed", "", "")
    assert (second["verdict"], second["restored_max_abs"], second["level"]) == (
        "row_of_other_position",
        "3.25",
        "state",
    )
    assert second["restored_kl"] == ""


def test_one_restore_whole_says_verdict_effect_and_figures() -> None:
    table = filled()
    text = restore_markdown(table, 1)
    assert text.startswith("### Restore of slot 0, round 2\n")
    assert "- Row differs: it is the row of position 43, expected 40." in text
    assert "| restored_max_abs | 3.25 | largest |difference|" in text.replace("\\", "")
    assert "restored_kl" not in text
    assert restore_markdown(table, 0).rstrip().endswith("Not probed.")


# ---- rows in use, and cost


def test_rows_in_use_are_counted_by_what_they_are() -> None:
    rows = RowsInUse()
    store = TraceStore()
    rows.update(store)
    assert rows.words == ""
    for expected, found in ((5, 5), (6, 6), (9, 4), (12, ZERO_ROW), (15, -1)):
        store.append(record(Kind.ROW, position=expected, n=found, round=expected))
        rows.update(store)
    assert (rows.n, rows.n_right, rows.n_other, rows.n_zero, rows.n_unknown) == (5, 2, 1, 1, 1)
    assert rows.words.startswith("2 of 5 drafts from the right row, 1 from another position's")


def test_cost_is_the_share_of_the_time_in_which_slots_were_at_work() -> None:
    def state(t_ns: int, slot: int, code: SlotState) -> np.ndarray:
        return record(Kind.SLOT, t_start_ns=t_ns, slot=slot, code=code, round=-1)

    store, cost = TraceStore(), ProbeCost()
    store.append(state(0, 0, SlotState.PROMPT))
    store.append(state(100, 1, SlotState.PROMPT))
    store.append(record(Kind.SPAN, t_start_ns=200, duration_ns=10, slot=0, code=Phase.PROBE))
    store.append(record(Kind.SPAN, t_start_ns=201, duration_ns=8, slot=ENGINE_TRACK, code=Phase.PROBE))
    store.append(record(Kind.SPAN, t_start_ns=300, duration_ns=500, slot=ENGINE_TRACK, code=Phase.VERIFY))
    store.append(record(Kind.ROW, t_start_ns=700, duration_ns=2, slot=0))
    store.append_arrays([result(probe(100, duration_ns=9)), result(probe(101, duration_ns=4, level=1))])
    cost.update(store)
    assert cost.share == pytest.approx(16 / 800)
    store.append(state(900, 0, SlotState.DONE))
    store.append(state(1_000, 1, SlotState.DONE))
    store.append(state(51_000, 1, SlotState.PROMPT))
    store.append(record(Kind.SPAN, t_start_ns=51_100, duration_ns=30, slot=1, code=Phase.PROBE))
    store.append(state(52_000, 1, SlotState.DONE))
    cost.update(store)
    assert (cost.probed_ns, cost.busy_ns) == (46, 2_000)
    assert cost.share == pytest.approx(0.023)


def test_a_hundred_thousand_restores_are_taken_at_the_cost_of_the_new_ones() -> None:
    n = 100_000
    many = np.repeat(restore(0), n)
    many["t_start_ns"] = np.arange(n) * 10_000
    many["round"], many["slot"] = np.arange(n), np.arange(n) % 4
    probes = np.repeat(np.asarray(probe()).reshape(1), n)
    probes["t_start_ns"], probes["slot"] = many["t_start_ns"] - 100, many["slot"]
    store, table = TraceStore(), RestoreTable()
    store.append(many)
    store._probes._results.append(probes)
    table.update(store)
    assert table.n_by_verdict() == {Verdict.EQUAL: n}
    taken: list[int] = []
    append = table._append
    table._append = lambda new: (taken.append(len(new)), append(new))[1]  # type: ignore[method-assign]
    store.append(restore(n * 10_000, round_id=n))
    table.update(store)
    assert (len(table), taken) == (n + 1, [1])
