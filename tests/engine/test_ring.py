"""The ring: every record arrives once and in order, or is counted as dropped."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import RECORD_DTYPE, Phase, empty_records
from draftscope.engine.ring import Ring, RingWriter, ring_bytes


def ring_of(capacity: int) -> tuple[bytearray, Ring, RingWriter]:
    memory = bytearray(ring_bytes(capacity))
    return memory, Ring.create(memory, capacity), RingWriter(memory)


def append(writer: RingWriter, n: int, first: int = 0) -> None:
    record = empty_records(1)[0]
    for number in range(first, first + n):
        record["token"] = number
        writer.append(record)


def test_a_new_ring_has_the_header_of_the_contract() -> None:
    memory, _, _ = ring_of(8)
    expected = struct.pack("<IIIIQQQqIii", 0x47525344, 1, 64, 8, 0, 0, 0, 0, 0, -1, -1)
    assert memory[:60] == expected
    assert memory[:4] == b"DSRG"
    assert RECORD_DTYPE.itemsize == 64


def test_a_record_lies_where_the_contract_says() -> None:
    memory, _, writer = ring_of(4)
    append(writer, 2)
    assert np.frombuffer(memory, RECORD_DTYPE, 1, offset=128 + 64)["token"][0] == 1


def test_records_come_back_in_order_over_the_end_of_the_memory() -> None:
    _, ring, writer = ring_of(8)
    append(writer, 6)
    assert ring.read()["token"].tolist() == [0, 1, 2, 3, 4, 5]
    append(writer, 7, first=6)
    assert ring.read()["token"].tolist() == [6, 7, 8, 9, 10, 11, 12]
    assert len(ring.read()) == 0


def test_a_full_ring_counts_its_drops_and_uses_up_their_numbers() -> None:
    _, ring, writer = ring_of(4)
    append(writer, 7)
    assert ring.n_dropped == 3
    assert ring.read()["sequence"].tolist() == [0, 1, 2, 3]
    append(writer, 1)
    assert ring.read()["sequence"].tolist() == [7]


def test_what_was_read_is_a_copy() -> None:
    _, ring, writer = ring_of(4)
    append(writer, 4)
    records = ring.read()
    append(writer, 4, first=100)
    assert records["token"].tolist() == [0, 1, 2, 3]


def test_the_operation_is_told_in_words() -> None:
    _, ring, writer = ring_of(4)
    assert ring.operation_words() == ""
    writer.set_operation(Phase.VERIFY, 12)
    assert ring.operation() == (Phase.VERIFY, 12, -1)
    assert ring.operation_words() == "verifying drafts in round 12"
    writer.set_operation(Phase.RESTORE, 3, 1)
    assert ring.operation_words() == "restoring checkpoints of slot 1 in round 3"
    assert ring.heartbeat_ns > 0


def test_every_phase_has_words() -> None:
    _, ring, writer = ring_of(4)
    for phase in Phase:
        writer.set_operation(phase)
        assert bool(ring.operation_words()) == (phase is not Phase.IDLE)


@pytest.mark.parametrize("offset", [0, 4, 8, 12])
def test_memory_that_is_no_ring_of_this_version_is_refused(offset: int) -> None:
    memory, _, _ = ring_of(8)
    memory[offset] ^= 0xFF
    for attach in (Ring.attach, RingWriter):
        with pytest.raises(EngineError) as caught:
            attach(memory)
        assert caught.value.code is ErrorCode.PROTOCOL


def test_memory_smaller_than_its_header_says_is_refused() -> None:
    memory, _, _ = ring_of(8)
    for size in (0, 64, 128, len(memory) - 1):
        with pytest.raises(EngineError):
            Ring.attach(bytearray(memory[:size]))


@pytest.mark.parametrize("capacity", [0, -1, 3, 1000])
def test_a_capacity_that_is_no_power_of_two_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Ring.create(bytearray(1 << 20), capacity)


def test_a_header_that_a_dying_engine_overwrote_is_survived() -> None:
    memory, ring, writer = ring_of(8)
    append(writer, 3)
    struct.pack_into("<Q", memory, 16, 2**64 - 1)
    struct.pack_into("<I", memory, 48, 0xDEAD)
    assert len(ring.read()) == 8
    assert ring.operation_words() == ""
    struct.pack_into("<Q", memory, 16, 0)
    assert len(ring.read()) == 0


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=30))
def test_in_any_order_of_writes_and_reads_nothing_is_lost_unseen(turns: list[tuple[int, bool]]) -> None:
    _, ring, writer = ring_of(8)
    n_appended, seen = 0, []
    for n, reads in turns:
        append(writer, n, first=n_appended)
        n_appended += n
        if reads:
            seen += ring.read()["token"].tolist()
    seen += ring.read()["token"].tolist()
    assert len(seen) + ring.n_dropped == n_appended
    assert seen == sorted(set(seen))


def test_a_reader_in_another_thread_sees_whole_records_only() -> None:
    _, ring, writer = ring_of(64)
    n = 5000

    def write() -> None:
        record = empty_records(1)[0]
        for number in range(n):
            record["token"], record["n"] = number, -number
            writer.append(record)

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    while thread.is_alive() or ring.n_waiting:
        records = ring.read()
        assert (records["token"] == -records["n"]).all()
        assert (records["sequence"] == records["token"]).all()
        seen += records["token"].tolist()
    thread.join()
    assert len(seen) + ring.n_dropped == n
