"""libllama's bytes of a recurrent state read apart, independently of the engine's reader."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_TYPES = {0: np.dtype("<f4"), 1: np.dtype("<f2")}
"""ggml's numbers of the types that states come in."""


@dataclass(frozen=True)
class StateBlob:
    """One sequence: positions of its cells, and by recurrent layer the conv state and the delta-net state."""

    positions: tuple[int, ...]
    conv: list[NDArray[np.float64]]
    delta: list[NDArray[np.float64]]
    offsets: list[int]
    """Where the values of each part begin: all conv parts, then all delta-net parts."""


def parse(data: bytes) -> StateBlob:
    """Of bytes with flag PARTIAL_ONLY, in host memory."""
    place = 8  # magic, sequence
    (n_cells,) = struct.unpack_from("<I", data, place)
    place += 4
    positions = []
    for _ in range(n_cells):
        position, n_seq = struct.unpack_from("<iI", data, place)
        positions.append(position)
        place += 8 + 4 * n_seq
    transposed, _n_layer = struct.unpack_from("<II", data, place)
    assert not transposed
    place += 8
    parts, offsets = [], []
    while place < len(data):
        kind, row_bytes = struct.unpack_from("<iQ", data, place)
        place += 12
        parts.append(
            np.frombuffer(data, _TYPES[kind], row_bytes * n_cells // _TYPES[kind].itemsize, place).astype(float)
        )
        offsets.append(place)
        place += row_bytes * n_cells
    middle = len(parts) // 2
    return StateBlob(tuple(positions), parts[:middle], parts[middle:], offsets)
