"""How many records a second the reader takes out of the ring."""

from __future__ import annotations

import struct

import numpy as np

from draftscope.engine.events import RECORD_DTYPE
from draftscope.engine.ring import HEADER_BYTES, Ring, ring_bytes
from tests.perf.figures import Figure, seconds_of
from tests.perf.synthetic import rounds

_CAPACITY = 65_536
_N_WRITTEN_AT = 16


def measure(repeats: int) -> list[Figure]:
    """Records a second through ``Ring.read`` of a full ring."""
    memory = bytearray(ring_bytes(_CAPACITY))
    ring = Ring.create(memory, _CAPACITY)
    stored = np.frombuffer(memory, dtype=RECORD_DTYPE, count=_CAPACITY, offset=HEADER_BYTES)
    stored[:] = np.resize(rounds(3_000), _CAPACITY)
    samples = []
    for number in range(1, repeats + 1):
        struct.pack_into("<Q", memory, _N_WRITTEN_AT, number * _CAPACITY)
        samples += [_CAPACITY / seconds for seconds in seconds_of(ring.read, 1)]
    definition = f"Ring.read of {_CAPACITY} records, copied"
    return [Figure("ring, reading", "records/s", tuple(samples), is_more_better=True, definition=definition)]
