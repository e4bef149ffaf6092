"""The ring of side arrays, behind the ring of records in the same memory: one writer (the engine), one reader.

Little endian; a header of 64 bytes, then ``capacity`` bytes of entries. An entry is a header of 64 bytes and its
values, filled up to a multiple of 64, and never goes over the end: where it would, an entry of kind ``SKIP`` fills the
rest. Offsets count bytes since the ring was made; byte ``i`` is at ``64 + i % capacity``.

====== ==== ========== =============================================================================
offset type field      meaning, in the header of the ring
====== ==== ========== =============================================================================
0      u32  magic      0x41525344, the bytes "DSRA"
4      u32  version    1
8      u64  capacity   bytes; a power of two
16     u64  n_written  bytes of entries stored since the ring was made; written last
24     u64  n_read     bytes taken by the reader
32     u64  n_dropped  arrays lost because the ring was full
====== ==== ========== =============================================================================

====== ==== ========== =============================================================================
offset type field      meaning, in the header of an entry
====== ==== ========== =============================================================================
0      i64  t_start_ns the probe that the array belongs to
8      u64  n_bytes    bytes of the values
16     u32  kind       ``probes.ArrayKind``
20     u32  dtype      0 float32, 1 float64, 2 int32, 3 int64, 4 one row of ``PROBE_DTYPE``
24     u32  n_axes     at most 4
28     u32  shape[4]   values along each axis
====== ==== ========== =============================================================================
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.probes import PROBE_DTYPE, ArrayKind, SideArray

MAGIC = 0x41525344
VERSION = 1
HEADER_BYTES = 64
DEFAULT_CAPACITY = 16 << 20
"""Bytes of arrays that a ring holds unless asked otherwise: some seconds of probes of a wide model."""

_SKIP = 0xFFFFFFFF
_HEADER = np.dtype(
    [
        ("magic", "<u4"),
        ("version", "<u4"),
        ("capacity", "<u8"),
        ("n_written", "<u8"),
        ("n_read", "<u8"),
        ("n_dropped", "<u8"),
    ]
)
_ENTRY = np.dtype(
    {
        "names": ["t_start_ns", "n_bytes", "kind", "dtype", "n_axes", "shape"],
        "formats": ["<i8", "<u8", "<u4", "<u4", "<u4", ("<u4", (4,))],
        "itemsize": HEADER_BYTES,
    }
)
_DTYPES = (np.dtype("<f4"), np.dtype("<f8"), np.dtype("<i4"), np.dtype("<i8"), PROBE_DTYPE)


def array_ring_bytes(capacity: int = DEFAULT_CAPACITY) -> int:
    """Bytes of memory that a ring of ``capacity`` bytes of arrays needs."""
    return HEADER_BYTES + capacity


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // HEADER_BYTES) * HEADER_BYTES


class _Mapped:
    """The header and the bytes of a ring that is there."""

    def __init__(self, memory: memoryview | bytearray) -> None:
        view = memoryview(memory)
        if view.nbytes < HEADER_BYTES:
            raise EngineError(ErrorCode.PROTOCOL, "The memory given for side arrays is too small for a ring.")
        self.header = np.frombuffer(view, dtype=_HEADER, count=1)[0]
        self.capacity = int(self.header["capacity"])
        is_ours = (int(self.header["magic"]), int(self.header["version"])) == (MAGIC, VERSION)
        if not is_ours or self.capacity % HEADER_BYTES or view.nbytes < array_ring_bytes(self.capacity):
            raise EngineError(ErrorCode.PROTOCOL, "The memory given for side arrays is not a ring of this version.")
        self.data = np.frombuffer(view, dtype=np.uint8, count=self.capacity, offset=HEADER_BYTES)

    def entry(self, place: int) -> np.void:
        return self.data[place : place + HEADER_BYTES].view(_ENTRY)[0]  # type: ignore[no-any-return]


class ArrayRing:
    """The reading side. One thread reads; nothing here blocks. Holds views of the memory."""

    def __init__(self, memory: memoryview | bytearray) -> None:
        """Read a ring that is there.

        Raises:
            EngineError: PROTOCOL, when the memory is not a ring of this version.
        """
        self._ring = _Mapped(memory)
        self._fence = threading.Lock()

    @classmethod
    def create(cls, memory: memoryview | bytearray, capacity: int = DEFAULT_CAPACITY) -> ArrayRing:
        """Make an empty ring in writable memory of at least ``array_ring_bytes(capacity)`` bytes.

        Raises:
            ValueError: ``capacity`` is not a power of two from 64 on, or the memory is too small.
        """
        if capacity < HEADER_BYTES or capacity & (capacity - 1):
            raise ValueError(f"A ring's capacity must be a power of two from {HEADER_BYTES} on, not {capacity}.")
        if memoryview(memory).nbytes < array_ring_bytes(capacity):
            raise ValueError(f"A ring of {capacity} bytes needs {array_ring_bytes(capacity)} bytes.")
        header = np.frombuffer(memory, dtype=_HEADER, count=1)[0]
        for name in _HEADER.names or ():
            header[name] = 0
        header["version"], header["capacity"], header["magic"] = VERSION, capacity, MAGIC
        return cls(memory)

    @property
    def is_empty(self) -> bool:
        """Whether ``read`` would return nothing."""
        return int(self._ring.header["n_written"]) == int(self._ring.header["n_read"])

    @property
    def n_dropped(self) -> int:
        """Arrays lost since the ring was made."""
        return int(self._ring.header["n_dropped"])

    def read(self) -> list[SideArray]:
        """Take all arrays that are there, oldest first: copies that the caller owns. What is damaged is left out."""
        header, arrays = self._ring.header, []
        with self._fence:  # as in ``ring.Ring.read``: the entries are read after the count that announced them
            n_written, n_read = int(header["n_written"]), int(header["n_read"])
        with self._fence:
            while n_read < n_written:
                place = n_read % self._ring.capacity
                entry = self._ring.entry(place)
                n_bytes = int(entry["n_bytes"])
                if place + HEADER_BYTES + n_bytes > self._ring.capacity:
                    n_read = n_written
                    break
                if (array := self._array(entry, place + HEADER_BYTES)) is not None:
                    arrays.append(array)
                n_read += HEADER_BYTES + _padded(n_bytes)
        header["n_read"] = n_read
        return arrays

    def _array(self, entry: np.void, first: int) -> SideArray | None:
        kind, number, n_axes = int(entry["kind"]), int(entry["dtype"]), int(entry["n_axes"])
        if kind not in ArrayKind._value2member_map_ or number >= len(_DTYPES) or n_axes > 4:
            return None
        dtype, shape = _DTYPES[number], tuple(int(n) for n in entry["shape"][:n_axes])
        n_bytes = int(entry["n_bytes"])
        if math.prod(shape) * dtype.itemsize != n_bytes:
            return None
        values = self._ring.data[first : first + n_bytes].copy().view(dtype).reshape(shape)
        return SideArray(int(entry["t_start_ns"]), ArrayKind(kind), values)


class ArrayRingWriter:
    """The writing side, for engines in Python; the C++ core has its own. One thread writes."""

    def __init__(self, memory: memoryview | bytearray) -> None:
        """Attach to a ring that its reader made.

        Raises:
            EngineError: PROTOCOL, when the memory is not a ring of this version.
        """
        self._ring = _Mapped(memory)

    def append(self, array: SideArray) -> bool:
        """Store one array; False when it was dropped, because the ring is full or too small for it."""
        values = np.ascontiguousarray(array.values)
        header, ring = self._ring.header, self._ring
        size = HEADER_BYTES + _padded(values.nbytes)
        n_written = int(header["n_written"])
        rest = ring.capacity - n_written % ring.capacity
        skip = rest if size > rest else 0
        if n_written + skip + size - int(header["n_read"]) > ring.capacity:
            header["n_dropped"] += 1
            return False
        if skip:
            ring.entry(n_written % ring.capacity)["kind"] = _SKIP
            ring.entry(n_written % ring.capacity)["n_bytes"] = skip - HEADER_BYTES
            n_written += skip
        place = n_written % ring.capacity
        self._write(ring.entry(place), array, values)
        ring.data[place + HEADER_BYTES : place + HEADER_BYTES + values.nbytes] = _bytes_of(values)
        header["n_written"] = n_written + size
        return True

    @staticmethod
    def _write(entry: np.void, array: SideArray, values: NDArray[Any]) -> None:
        entry["t_start_ns"], entry["n_bytes"], entry["kind"] = array.t_start_ns, values.nbytes, array.kind
        entry["dtype"], entry["n_axes"] = _DTYPES.index(values.dtype), values.ndim
        entry["shape"] = (*values.shape, *(0,) * (4 - values.ndim))


def _bytes_of(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.frombuffer(values.tobytes(), dtype=np.uint8)
