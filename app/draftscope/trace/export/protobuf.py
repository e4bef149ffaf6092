"""Protocol buffer messages, many alike at a time, as numpy arrays.

``Messages`` are K messages of the same fields. Numbers are varints; all of one field are as long as the largest of
them needs, with leading zeros in the others, which every reader takes: so the K messages are one block of bytes, and
no byte is written by Python. Single messages are made by ``message`` and ``field``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Block = NDArray[np.uint8]

VARINT, FIXED64, LENGTH = 0, 1, 2
"""Wire types."""


def varint(value: int) -> bytes:
    """A number in [-2**63, 2**64) as a varint; negative ones take ten bytes."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def tag(number: int, wire_type: int) -> bytes:
    """What stands before a field's value."""
    return varint(number << 3 | wire_type)


def field(number: int, value: int | float | str | bytes) -> bytes:
    """One field: a whole number as a varint, a float as a double, text and bytes with their length."""
    if isinstance(value, float):
        return tag(number, FIXED64) + struct.pack("<d", value)
    if isinstance(value, int):
        return tag(number, VARINT) + varint(value)
    encoded = value.encode() if isinstance(value, str) else value
    return tag(number, LENGTH) + varint(len(encoded)) + encoded


def varint_block(values: Ints) -> Block:
    """Varints of equal length: uint8 (K, n), n the length that the largest needs; a negative one needs ten."""
    numbers = values.astype(np.uint64)
    largest = int(numbers.max(initial=0))
    n = max(-(-largest.bit_length() // 7), 1)
    shifts = np.arange(0, 7 * n, 7, dtype=np.uint64)
    block: Block = (numbers[:, np.newaxis] >> shifts & np.uint64(0x7F)).astype(np.uint8)
    block[:, :-1] |= 0x80
    return block


def fixed_block(values: NDArray[np.float64] | Ints) -> Block:
    """The eight bytes of doubles or fixed64: uint8 (K, 8)."""
    little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
    return little.view(np.uint8).reshape(-1, 8)


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes of K messages: uint8 (K, n); with ``present`` bool (K,) only those have them."""

    block: Block
    present: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class _Repeated:
    """``counts[k]`` messages of ``inner`` in turn, in message k: at least one of them in all."""

    inner: Messages
    counts: Ints
    lengths: Ints


class Messages:
    """K messages of the same fields, to which fields are added at their end; a field may be missing in some."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._parts: list[_Part | _Repeated] = []
        self._lengths = np.zeros(n, np.int64)

    def __len__(self) -> int:
        return self._n

    @property
    def lengths(self) -> Ints:
        """Bytes of each message: int64 (K,), borrowed."""
        return self._lengths

    def constant(self, encoded: bytes, present: NDArray[np.bool_] | None = None) -> None:
        """The same bytes in all."""
        self._add(np.broadcast_to(np.frombuffer(encoded, np.uint8), (self._n, len(encoded))), present)

    def varints(self, number: int, values: Ints, present: NDArray[np.bool_] | None = None) -> None:
        """A whole number in each: int64 (K,)."""
        if present is not None:
            values = np.where(present, values, 0)
        self._tagged(number, VARINT, varint_block(values), present)

    def doubles(self, number: int, values: NDArray[np.float64], present: NDArray[np.bool_] | None = None) -> None:
        """A double in each: float64 (K,)."""
        self._tagged(number, FIXED64, fixed_block(values.astype(np.float64, copy=False)), present)

    def fixed(self, number: int, values: Ints, present: NDArray[np.bool_] | None = None) -> None:
        """A fixed64 in each: int64 (K,)."""
        self._tagged(number, FIXED64, fixed_block(values), present)

    def submessages(self, number: int, inner: Messages, present: NDArray[np.bool_] | None = None) -> None:
        """A message in each."""
        self._tagged(number, LENGTH, varint_block(inner._lengths), present)
        self.extend(inner, present)

    def extend(self, fields: Messages, present: NDArray[np.bool_] | None = None) -> None:
        """All fields of as many other messages, each to its own."""
        for part in fields._parts:
            if isinstance(part, _Repeated):
                if present is not None:
                    raise ValueError("Repeated messages cannot be left out of some: give those a count of 0.")
                self._parts.append(part)
                self._lengths = self._lengths + part.lengths
            else:
                self._add(part.block, _both(part.present, present))

    def repeated(self, number: int, inner: Messages, counts: Ints) -> None:
        """Several messages in each: the first ``counts[0]`` of ``inner`` in the first message, and so on."""
        if len(inner) == 0:
            return
        whole = Messages(len(inner))
        whole.submessages(number, inner)
        ends = np.concatenate([[0], np.cumsum(whole._lengths)])
        last = np.cumsum(counts)
        lengths = ends[last] - ends[last - counts]
        self._parts.append(_Repeated(whole, counts, lengths))
        self._lengths = self._lengths + lengths

    def _tagged(self, number: int, wire_type: int, block: Block, present: NDArray[np.bool_] | None) -> None:
        self.constant(tag(number, wire_type), present)
        self._add(block, present)

    def _add(self, block: Block, present: NDArray[np.bool_] | None) -> None:
        self._lengths = self._lengths + (block.shape[1] if present is None else block.shape[1] * present)
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Part) and last.present is present:
            self._parts[-1] = _Part(np.concatenate([last.block, block], axis=1), present)
        else:
            self._parts.append(_Part(block, present))

    def write_into(self, memory: Block, offsets: Ints) -> None:
        """Put each message at its offset: ``memory`` uint8, ``offsets`` int64 (K,)."""
        at = offsets.copy()
        for part in self._parts:
            if isinstance(part, _Repeated):
                first = np.repeat(at, part.counts)
                lengths = part.inner.lengths
                before = np.cumsum(lengths) - lengths
                owner_first = np.cumsum(part.counts) - part.counts
                starts = before[np.minimum(owner_first, len(lengths) - 1)]
                part.inner.write_into(memory, first + before - np.repeat(starts, part.counts))
                at += part.lengths
            elif part.present is None:
                _scatter(memory, at, part.block)
                at += part.block.shape[1]
            else:
                _scatter(memory, at[part.present], part.block[part.present])
                at += part.block.shape[1] * part.present

    def joined(self) -> bytes:
        """All messages one after the other."""
        memory = np.empty(int(self._lengths.sum()), np.uint8)
        self.write_into(memory, np.cumsum(self._lengths) - self._lengths)
        return memory.tobytes()


def _both(first: NDArray[np.bool_] | None, second: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    if first is None or second is None or first is second:
        return second if first is None else first
    return first & second


def _scatter(memory: Block, offsets: Ints, block: Block) -> None:
    """Copy each row of a block to its offset."""
    if len(block):
        windows = np.lib.stride_tricks.sliding_window_view(memory, block.shape[1], writeable=True)
        windows[offsets] = block
