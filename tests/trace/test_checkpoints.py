"""What going back costs, against its definitions; and fallbacks in sentences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from draftscope.engine.events import ENGINE_TRACK, FallbackReason, Kind, Mechanism, Phase, Records
from draftscope.trace.checkpoints import DEFINITIONS, MIN_ROUNDS, CheckpointTable, Group
from draftscope.trace.fallback_words import FallbackKind, fallback_of, mechanism_words
from draftscope.trace.store import TraceStore
from tests.trace.synthetic import make_records, make_store, record


def table_of(*parts: Records) -> CheckpointTable:
    table = CheckpointTable()
    table.update(make_store(np.concatenate(parts)))
    return table


def decode(round_id: int, start_ns: int, duration_ns: int, phase: Phase = Phase.VERIFY, slot: int = -1) -> Records:
    return record(
        Kind.SPAN, slot=slot, code=phase, round=round_id, t_start_ns=start_ns, duration_ns=duration_ns, n=4, m=1
    )


def restore(round_id: int, start_ns: int) -> Records:
    columns = {"code": Mechanism.COW, "round": round_id, "t_start_ns": start_ns, "duration_ns": 5}
    return record(Kind.RESTORE, slot=0, **columns)


def test_median_and_p99_are_those_of_the_records_by_mechanism_and_slot() -> None:
    records = make_records(60)
    table = table_of(records)
    for kind in (Kind.SAVE, Kind.RESTORE):
        of_kind = records[records["kind"] == kind]
        for slot in range(4):
            durations = of_kind[of_kind["slot"] == slot]["duration_ns"] / 1e3
            timing = table.timing(kind, Mechanism.HOST, slot)
            assert timing is not None
            assert timing.n == len(durations) > 0
            assert timing.median_us == pytest.approx(np.median(durations))
            assert timing.p99_us == pytest.approx(np.percentile(durations, 99))
        everything = table.timing(kind)
        assert everything is not None
        assert everything.n == len(of_kind)
        assert everything.median_us == pytest.approx(np.median(of_kind["duration_ns"] / 1e3))


def test_what_never_happened_has_no_figures() -> None:
    table = table_of(make_records(10, mechanism=Mechanism.ROLLBACK))
    assert table.timing(Kind.SAVE) is None
    assert table.timing(Kind.RESTORE, Mechanism.COW) is None
    assert table.timing(Kind.RESTORE, None, 9) is None
    assert table.mechanisms() == (Mechanism.ROLLBACK,)
    assert table.saved_bytes() == {}
    assert len(CheckpointTable().series(Kind.SAVE)) == 0


def test_groups_come_saves_first_then_by_mechanism_and_slot() -> None:
    cow = record(Kind.SAVE, slot=1, code=Mechanism.COW)
    host = record(Kind.SAVE, slot=0, code=Mechanism.HOST)
    back = record(Kind.RESTORE, slot=1, code=Mechanism.COW)
    assert table_of(back, host, cow).groups() == (
        Group(Kind.SAVE, Mechanism.COW, 1),
        Group(Kind.SAVE, Mechanism.HOST, 0),
        Group(Kind.RESTORE, Mechanism.COW, 1),
    )


def test_records_that_come_one_by_one_give_the_same_as_all_at_once() -> None:
    records = make_records(40)
    store, table = TraceStore(), CheckpointTable()
    for part in np.array_split(records, 37):
        store.append(part)
        table.update(store)
    whole = table_of(records)
    assert table.groups() == whole.groups()
    assert table.after_restore() == whole.after_restore()
    for group in whole.groups():
        assert_array_equal(table.durations_us(*group), whole.durations_us(*group))
    assert_array_equal(table.series(Kind.SAVE).round.view, whole.series(Kind.SAVE).round.view)
    assert_array_equal(table.series(Kind.RESTORE).duration_us.view, whole.series(Kind.RESTORE).duration_us.view)


def test_a_cleared_store_starts_the_table_anew() -> None:
    store, table = make_store(make_records(20)), CheckpointTable()
    table.update(store)
    store.clear()
    store.append(record(Kind.SAVE, slot=2, code=Mechanism.COW, duration_ns=4_100))
    table.update(store)
    assert table.groups() == (Group(Kind.SAVE, Mechanism.COW, 2),)
    timing = table.timing(Kind.SAVE)
    assert timing is not None
    assert timing.median_us == 4.1


def test_a_series_has_every_event_in_order_of_time() -> None:
    records = make_records(30)
    saves, series = records[records["kind"] == Kind.SAVE], table_of(records).series(Kind.SAVE)
    assert_array_equal(series.round.view, saves["round"])
    assert_array_equal(series.slot.view, saves["slot"])
    assert_array_equal(series.duration_us.view, saves["duration_ns"] / 1e3)
    assert_array_equal(series.size_bytes.view, saves["size_bytes"])


def test_the_bytes_of_a_slot_are_those_saved_last() -> None:
    saves = [record(Kind.SAVE, slot=slot, size_bytes=size) for slot, size in ((0, 10), (1, 20), (0, 30))]
    assert table_of(*saves).saved_bytes() == {0: 30, 1: 20}


def rounds_after(n_after: int, n_other: int) -> list[Records]:
    """Rounds with a restore before them take 150 + 30 (a replay of its own), the others 100; one more stays open."""
    parts, now = [], 1_000_000
    for round_id in range(n_after + n_other + 1):
        if round_id < n_after:
            parts += [restore(round_id - 1, now), decode(round_id, now + 10, 30_000, Phase.REPLAY)]
        parts.append(decode(round_id, now + 100_000, 150_000 if round_id < n_after else 100_000))
        parts.append(decode(round_id, now + 100_000, 900_000, slot=0))
        now += 1_000_000
    return parts


def test_what_the_decodes_after_a_restore_pay_is_the_difference_of_the_medians_a_round() -> None:
    compared = table_of(*rounds_after(6, 7)).after_restore()
    assert compared is not None
    assert (compared.n_after, compared.n_other) == (6, 7)
    assert (compared.after_us, compared.other_us) == (180.0, 100.0)
    assert compared.paid_us == 80.0


@pytest.mark.parametrize(("n_after", "n_other"), [(MIN_ROUNDS - 1, 50), (50, MIN_ROUNDS - 1), (0, 0)])
def test_too_few_rounds_on_either_side_give_no_figure(n_after: int, n_other: int) -> None:
    assert table_of(*rounds_after(n_after, n_other)).after_restore() is None


def test_rounds_of_more_slots_are_not_compared_with_rounds_of_fewer() -> None:
    alone = rounds_after(6, 7)
    together = [decode(round_id, 10**9 + round_id * 10**6, 900_000) for round_id in range(20, 40)]
    slots = [decode(round_id, 10**9 + round_id * 10**6, 900_000, slot=1) for round_id in range(20, 40)]
    slots += [decode(round_id, 10**9 + round_id * 10**6, 900_000, slot=0) for round_id in range(20, 40)]
    compared = table_of(*alone, *slots, *together).after_restore()
    assert compared is not None
    assert (compared.after_us, compared.other_us) == (180.0, 100.0)
    assert (compared.n_after, compared.n_other) == (6, 8)


def test_prompts_and_slots_own_spans_are_no_decodes_of_rounds() -> None:
    parts = rounds_after(6, 7)
    prompt = decode(-1, 1, 10**9, Phase.PROMPT)
    assert table_of(prompt, *parts).after_restore() == table_of(*parts).after_restore()
    assert ENGINE_TRACK == -1


def test_every_figure_has_a_definition() -> None:
    assert set(DEFINITIONS) == {"save_us", "restore_us", "after_restore_us"}


def fallback(reason: int, asked: int, used: int, slot: int = 2, round_id: int = 14) -> str:
    made = record(Kind.FALLBACK, code=reason, n=asked, m=used, slot=slot, round=round_id, position=9)
    return fallback_of(made[0]).sentence


def test_a_fallback_says_where_why_and_what_is_done_instead() -> None:
    assert fallback(FallbackReason.NO_MEMORY, Mechanism.DEVICE, Mechanism.HOST) == (
        "Slot 2, round 14: there was no room on the device for a checkpoint, so host memory is used."
    )
    assert fallback(FallbackReason.CANNOT_UNIFY, Mechanism.COW, Mechanism.DEVICE, slot=-1, round_id=-1) == (
        "All slots: the slots cannot share one cell space, which copy on write needs, so device memory is used."
    )


def test_without_another_way_a_slot_goes_without_a_draft_or_is_read_again() -> None:
    assert fallback(FallbackReason.NO_MEMORY, Mechanism.HOST, Mechanism.NONE).endswith(
        "no room in host memory for a checkpoint, so nothing was drafted in this round."
    )
    for reason in (FallbackReason.BEYOND_REACH, FallbackReason.RESTORE_FAILED, FallbackReason.POSITION_MISMATCH):
        assert fallback(reason, Mechanism.HOST, Mechanism.NONE).endswith("the slot is read again from its beginning.")
    assert fallback(FallbackReason.REFUSED, Mechanism.ROLLBACK, Mechanism.HOST).endswith(
        "so the slot is read again from its beginning and goes on with checkpoints in host memory."
    )


@pytest.mark.parametrize("reason", FallbackReason)
@pytest.mark.parametrize("used", Mechanism)
def test_every_reason_and_mechanism_makes_a_sentence_of_its_own(reason: FallbackReason, used: Mechanism) -> None:
    sentence = FallbackKind(reason, Mechanism.COW, used).sentence
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert "{" not in sentence
    others = {FallbackKind(other, Mechanism.COW, used).sentence for other in FallbackReason}
    assert len(others) == len(FallbackReason)


def test_codes_of_a_later_version_are_told_all_the_same() -> None:
    assert fallback(250, 99, 98).startswith("Slot 2, round 14: another way back than none was taken")
    assert mechanism_words("teleport") == "teleport"
    assert mechanism_words("cow") == "copy on write"
