"""The ring of side arrays: what goes in comes out, whole and in order, or is counted as lost."""

from __future__ import annotations

import numpy as np
import pytest

from draftscope.engine.array_ring import HEADER_BYTES, ArrayRing, ArrayRingWriter, array_ring_bytes
from draftscope.engine.errors import EngineError
from draftscope.engine.probes import PROBE_COLUMNS, PROBE_DTYPE, ArrayKind, SideArray, empty_probes
from draftscope.engine.ring import Ring, ring_bytes
from draftscope.engine.trace_memory import TraceMemory, array_writer, trace_memory_bytes


def rings(capacity: int = 1024) -> tuple[ArrayRing, ArrayRingWriter]:
    memory = bytearray(array_ring_bytes(capacity))
    return ArrayRing.create(memory, capacity), ArrayRingWriter(memory)


def rows(probe: int, width: int = 8) -> SideArray:
    return SideArray(probe, ArrayKind.ROWS, np.arange(3 * width, dtype=np.float32).reshape(3, width) + probe)


@pytest.mark.parametrize(
    "array",
    [
        rows(5),
        SideArray(6, ArrayKind.LAYERS, np.full((2, 2, 2), np.nan)),
        SideArray(7, ArrayKind.DRAFT_TOKENS, np.array([[1, -1]], dtype=np.int32)),
        SideArray(8, ArrayKind.FINGERPRINTS, np.array([[3, -(2**62)]], dtype=np.int64)),
        SideArray(9, ArrayKind.RESULT, empty_probes(1)),
        SideArray(10, ArrayKind.TOP_TOKENS, np.empty(0, dtype=np.int32)),
    ],
)
def test_an_array_comes_out_as_it_went_in(array: SideArray) -> None:
    ring, writer = rings()
    assert ring.is_empty
    assert writer.append(array)
    assert not ring.is_empty
    (read,) = ring.read()
    assert (read.t_start_ns, read.kind, read.values.dtype) == (array.t_start_ns, array.kind, array.values.dtype)
    assert read.values.shape == array.values.shape
    assert read.values.tobytes() == array.values.tobytes()
    assert ring.is_empty
    assert ring.read() == []


def test_arrays_go_around_the_end_many_times_in_order() -> None:
    ring, writer = rings(1024)
    seen = []
    for probe in range(200):
        assert writer.append(rows(probe, width=1 + probe * 7 % 40))
        seen += ring.read()
    assert [array.t_start_ns for array in seen] == list(range(200))
    assert all(
        array.values.tobytes() == rows(array.t_start_ns, array.values.shape[1]).values.tobytes() for array in seen
    )
    assert ring.n_dropped == 0


def test_a_full_ring_drops_and_counts_and_goes_on_when_there_is_room() -> None:
    ring, writer = rings(512)
    taken = [writer.append(rows(probe, width=16)) for probe in range(4)]
    assert taken == [True, True, False, False]
    assert ring.n_dropped == 2
    assert [array.t_start_ns for array in ring.read()] == [0, 1]
    assert writer.append(rows(9, width=16))
    assert [array.t_start_ns for array in ring.read()] == [9]


def test_an_array_that_never_fits_is_counted_as_lost() -> None:
    ring, writer = rings(256)
    assert not writer.append(rows(1, width=64))
    assert (ring.n_dropped, ring.read()) == (1, [])


def test_memory_that_is_no_ring_is_refused() -> None:
    with pytest.raises(EngineError):
        ArrayRing(bytearray(array_ring_bytes(256)))
    with pytest.raises(EngineError):
        ArrayRing(bytearray(8))
    with pytest.raises(ValueError, match="power of two"):
        ArrayRing.create(bytearray(4096), 100)


def test_damaged_entries_are_left_out_and_never_read_beyond_the_ring() -> None:
    capacity = 1024
    memory = bytearray(array_ring_bytes(capacity))
    ring, writer = ArrayRing.create(memory, capacity), ArrayRingWriter(memory)
    writer.append(rows(1))
    writer.append(rows(2))
    memory[HEADER_BYTES + 16] = 99  # kind
    assert [array.t_start_ns for array in ring.read()] == [2]
    writer.append(rows(3))
    place = int.from_bytes(memory[24:32], "little") % capacity
    memory[HEADER_BYTES + place + 8 : HEADER_BYTES + place + 16] = (2**40).to_bytes(8, "little")
    assert ring.read() == []
    assert ring.is_empty


def test_both_rings_lie_in_one_memory() -> None:
    memory = memoryview(bytearray(trace_memory_bytes(64, 1024)))
    both = TraceMemory(memory, 64, 1024)
    writer = array_writer(memory)
    assert writer is not None
    assert writer.append(rows(4))
    assert [array.t_start_ns for array in both.arrays.read()] == [4]
    alone = memoryview(bytearray(ring_bytes(64)))
    Ring.create(alone, 64)
    assert array_writer(alone) is None


def test_every_column_of_a_probe_is_explained_and_packed() -> None:
    assert PROBE_DTYPE.itemsize == sum(np.dtype(column.dtype).itemsize for column in PROBE_COLUMNS)
    assert PROBE_DTYPE.itemsize == 284
    assert all(column.meaning for column in PROBE_COLUMNS)
