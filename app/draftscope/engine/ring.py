"""The ring of trace records in shared memory: one writer (the engine), one reader (the client that made the memory).

The reader owns the memory, so what was written before the engine died is still there after it. Little endian; a header
of 128 bytes, then ``capacity`` records, record ``i`` at ``128 + (i % capacity) * 64``:

====== ==== ================ ==========================================================================
offset type field            meaning
====== ==== ================ ==========================================================================
0      u32  magic            0x47525344, the bytes "DSRG"
4      u32  version          1
8      u32  record_size      64
12     u32  capacity         records; a power of two
16     u64  n_written        records stored since the ring was made; written last, after the record
24     u64  n_read           records taken by the reader
32     u64  n_dropped        records lost because the ring was full; their sequence numbers are used up
40     i64  heartbeat_ns     monotonic clock at the engine's last sign of life
48     u32  operation        ``events.Phase`` that the engine is in
52     i32  operation_round  its round, or -1
56     i32  operation_slot   its slot, or -1
====== ==== ================ ==========================================================================
"""

from __future__ import annotations

import threading
import time

import numpy as np

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import ENGINE_TRACK, NO_ROUND, RECORD_DTYPE, Phase, Records, empty_records

MAGIC = 0x47525344
VERSION = 1
HEADER_BYTES = 128
DEFAULT_CAPACITY = 65_536
"""Records that a ring holds unless asked otherwise: 4 MiB, some seconds of the fastest engine."""

_HEADER = np.dtype(
    [
        ("magic", "<u4"),
        ("version", "<u4"),
        ("record_size", "<u4"),
        ("capacity", "<u4"),
        ("n_written", "<u8"),
        ("n_read", "<u8"),
        ("n_dropped", "<u8"),
        ("heartbeat_ns", "<i8"),
        ("operation", "<u4"),
        ("operation_round", "<i4"),
        ("operation_slot", "<i4"),
    ]
)

_WORDS = {
    Phase.IDLE: "",
    Phase.PROMPT: "reading prompts",
    Phase.DRAFT: "drafting",
    Phase.SAVE: "saving checkpoints",
    Phase.VERIFY: "verifying drafts",
    Phase.ACCEPT: "accepting tokens",
    Phase.RESTORE: "restoring checkpoints",
    Phase.REPLAY: "replaying accepted tokens",
    Phase.CATCH_UP: "feeding the draft context",
    Phase.LOAD: "loading a model",
    Phase.PROBE: "measuring a restore",
}


def ring_bytes(capacity: int = DEFAULT_CAPACITY) -> int:
    """Bytes of memory that a ring of ``capacity`` records needs."""
    return HEADER_BYTES + capacity * RECORD_DTYPE.itemsize


def _header_of(memory: memoryview | bytearray) -> np.void:
    return np.frombuffer(memory, dtype=_HEADER, count=1)[0]  # type: ignore[no-any-return]


def _checked_header(memory: memoryview | bytearray) -> np.void:
    """The header of an existing ring.

    Raises:
        EngineError: PROTOCOL, when the memory is not a ring of this version or smaller than it says.
    """
    if memoryview(memory).nbytes < HEADER_BYTES:
        raise EngineError(ErrorCode.PROTOCOL, "The memory given for trace records is too small for a ring.")
    header = _header_of(memory)
    expected = (MAGIC, VERSION, RECORD_DTYPE.itemsize)
    if (int(header["magic"]), int(header["version"]), int(header["record_size"])) != expected:
        raise EngineError(ErrorCode.PROTOCOL, "The memory given for trace records is not a ring of this version.")
    capacity = int(header["capacity"])
    if not _is_power_of_two(capacity) or memoryview(memory).nbytes < ring_bytes(capacity):
        raise EngineError(ErrorCode.PROTOCOL, "The memory given for trace records is smaller than its header says.")
    return header


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


class Ring:
    """The reading side. One thread reads; nothing here blocks.

    Holds views of the memory: it can be unmapped only after the ring is gone.
    """

    def __init__(self, memory: memoryview | bytearray) -> None:
        self._header = _checked_header(memory)
        self.capacity = int(self._header["capacity"])
        self._records: Records = np.frombuffer(memory, dtype=RECORD_DTYPE, count=self.capacity, offset=HEADER_BYTES)
        self._fence = threading.Lock()

    @classmethod
    def create(cls, memory: memoryview | bytearray, capacity: int = DEFAULT_CAPACITY) -> Ring:
        """Make an empty ring in writable memory of at least ``ring_bytes(capacity)`` bytes.

        Raises:
            ValueError: ``capacity`` is not a power of two, or the memory is too small.
        """
        if not _is_power_of_two(capacity):
            raise ValueError(f"A ring's capacity must be a power of two, not {capacity}.")
        if memoryview(memory).nbytes < ring_bytes(capacity):
            raise ValueError(f"A ring of {capacity} records needs {ring_bytes(capacity)} bytes.")
        header = _header_of(memory)
        for name in _HEADER.names or ():
            header[name] = 0
        header["version"], header["record_size"], header["capacity"] = VERSION, RECORD_DTYPE.itemsize, capacity
        header["operation_round"], header["operation_slot"] = NO_ROUND, ENGINE_TRACK
        header["magic"] = MAGIC
        return cls(memory)

    @classmethod
    def attach(cls, memory: memoryview | bytearray) -> Ring:
        """Read a ring that is there already.

        Raises:
            EngineError: PROTOCOL, when the memory is not a ring of this version.
        """
        return cls(memory)

    @property
    def n_waiting(self) -> int:
        """Records that ``read`` would return now; never more than the capacity, even if the header was overwritten."""
        n = int(self._header["n_written"]) - int(self._header["n_read"])
        return min(n, self.capacity) if n > 0 else 0

    @property
    def n_dropped(self) -> int:
        """Records lost since the ring was made."""
        return int(self._header["n_dropped"])

    @property
    def heartbeat_ns(self) -> int:
        """Monotonic clock at the engine's last sign of life; 0 before the first."""
        return int(self._header["heartbeat_ns"])

    def read(self) -> Records:
        """Take all records that are there, oldest first: a copy that the caller owns."""
        n = self.n_waiting
        if n == 0:
            return empty_records()
        # A lock released and taken orders the loads: the records are read after the count that announced them. Python
        # has no fences, and processors other than x86 would be free to swap the two.
        with self._fence:
            n_read = int(self._header["n_read"])
        with self._fence:
            first = n_read % self.capacity
            records = empty_records(n)
            n_until_end = min(n, self.capacity - first)
            records[:n_until_end] = self._records[first : first + n_until_end]
            records[n_until_end:] = self._records[: n - n_until_end]
        self._header["n_read"] = n_read + n
        return records

    def operation(self) -> tuple[Phase, int, int]:
        """What the engine is at, or was when it died: phase, round and slot (-1 where there is none)."""
        number = int(self._header["operation"])
        phase = Phase(number) if number in Phase._value2member_map_ else Phase.IDLE
        return phase, int(self._header["operation_round"]), int(self._header["operation_slot"])

    def operation_words(self) -> str:
        """The operation as words, such as ``verifying drafts in round 12``; '' when idle."""
        phase, round_, slot = self.operation()
        words = _WORDS[phase]
        if words and slot >= 0:
            words += f" of slot {slot}"
        if words and round_ >= 0:
            words += f" in round {round_}"
        return words


class RingWriter:
    """The writing side, for engines in Python; the C++ core has its own. One thread writes."""

    def __init__(self, memory: memoryview | bytearray) -> None:
        """Attach to a ring that its reader made.

        Raises:
            EngineError: PROTOCOL, when the memory is not a ring of this version.
        """
        self._header = _checked_header(memory)
        self._capacity = int(self._header["capacity"])
        self._records: Records = np.frombuffer(memory, dtype=RECORD_DTYPE, count=self._capacity, offset=HEADER_BYTES)
        self._sequence = int(self._header["n_written"]) + int(self._header["n_dropped"])

    def append(self, record: np.void) -> bool:
        """Store one record of ``RECORD_DTYPE``, giving it its sequence number; False when it was dropped."""
        record["sequence"] = self._sequence
        self._sequence += 1
        n_written = int(self._header["n_written"])
        is_stored = n_written - int(self._header["n_read"]) < self._capacity
        if is_stored:
            self._records[n_written % self._capacity] = record
            self._header["n_written"] = n_written + 1
        else:
            self._header["n_dropped"] += 1
        self.beat()
        return is_stored

    def set_operation(self, phase: Phase, round_: int = NO_ROUND, slot: int = ENGINE_TRACK) -> None:
        """Say what the engine is at."""
        self._header["operation"] = phase
        self._header["operation_round"] = round_
        self._header["operation_slot"] = slot
        self.beat()

    def beat(self) -> None:
        """A sign of life; any thread."""
        self._header["heartbeat_ns"] = time.monotonic_ns()
