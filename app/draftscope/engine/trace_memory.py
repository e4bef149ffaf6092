"""The memory that an engine writes a trace into: the ring of records, and behind it the ring of side arrays."""

from __future__ import annotations

from draftscope.engine.array_ring import DEFAULT_CAPACITY as ARRAY_CAPACITY
from draftscope.engine.array_ring import ArrayRing, ArrayRingWriter, array_ring_bytes
from draftscope.engine.ring import DEFAULT_CAPACITY, Ring, ring_bytes


def trace_memory_bytes(capacity: int = DEFAULT_CAPACITY, array_capacity: int = ARRAY_CAPACITY) -> int:
    """Bytes for a ring of so many records and a ring of so many bytes of arrays."""
    return ring_bytes(capacity) + array_ring_bytes(array_capacity)


class TraceMemory:
    """The reading sides of both rings, made in memory of the caller.

    Attributes:
        ring: the records.
        arrays: the side arrays.
    """

    def __init__(
        self, memory: memoryview, capacity: int = DEFAULT_CAPACITY, array_capacity: int = ARRAY_CAPACITY
    ) -> None:
        """Make both rings in writable memory of at least ``trace_memory_bytes`` bytes.

        Raises:
            ValueError: a capacity is not a power of two, or the memory is too small.
        """
        self.ring = Ring.create(memory, capacity)
        self.arrays = ArrayRing.create(memory[ring_bytes(capacity) :], array_capacity)


def array_writer(memory: memoryview) -> ArrayRingWriter | None:
    """For engines in Python: the ring of arrays in memory that a ring of records begins; None where there is none.

    Raises:
        EngineError: PROTOCOL, when there is no ring of records, or what is behind it is none of arrays.
    """
    rest = memory[ring_bytes(Ring.attach(memory).capacity) :]
    return ArrayRingWriter(rest) if rest.nbytes else None
