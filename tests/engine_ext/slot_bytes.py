"""Saved slots and hidden rows as bytes, taken apart and put together again; layouts of core/slot_image and mtp_state.

The tests change one part and put a right hash behind it, so that what is refused is the change and not the hash.
"""

from __future__ import annotations

import dataclasses
import struct
from itertools import accumulate

_MASK = (1 << 64) - 1
SLOT_MAGIC, ROWS_MAGIC = 0x4C535344, 0x52544D44
SLOT_HEADER, CHECKPOINT_HEADER, ROWS_HEADER = (
    struct.Struct("<IIiiQQQQ"),
    struct.Struct("<qQQ"),
    struct.Struct("<IIIIiiiI"),
)


def hash_of(data: bytes) -> int:
    """The hash that ends a saved slot."""
    found = 0xCBF29CE484222325
    for (word,) in struct.iter_unpack("<Q", data + bytes(-len(data) % 8)):
        found = ((found ^ word) * 0x9E3779B97F4A7C15) & _MASK
        found ^= found >> 29
    return found


@dataclasses.dataclass(frozen=True)
class Rows:
    """Hidden rows; ``payload`` is float32."""

    width: int
    n_rows: int
    n_positions: int
    n_missing: int
    n_heads: int
    payload: bytes
    magic: int = ROWS_MAGIC
    version: int = 1

    @staticmethod
    def parse(data: bytes) -> Rows:
        """Of bytes that the engine wrote."""
        magic, version, width, n_rows, n_positions, n_missing, n_heads, _ = ROWS_HEADER.unpack_from(data)
        return Rows(width, n_rows, n_positions, n_missing, n_heads, data[ROWS_HEADER.size :], magic, version)

    def build(self) -> bytes:
        """As they are, right or wrong."""
        header = (self.magic, self.version, self.width, self.n_rows, self.n_positions, self.n_missing, self.n_heads, 0)
        return ROWS_HEADER.pack(*header) + self.payload


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A prompt checkpoint in a saved slot."""

    position: int
    state: bytes
    rows: bytes

    def build(self) -> bytes:
        """As it is, right or wrong."""
        return CHECKPOINT_HEADER.pack(self.position, len(self.state), len(self.rows)) + self.state + self.rows


@dataclasses.dataclass(frozen=True)
class SlotBytes:
    """A saved slot in its parts. Sizes that are None are those of the parts."""

    n_tokens: int
    n_decoded: int
    tokens: bytes
    target: bytes
    draft: bytes
    rows: bytes
    checkpoints: tuple[Checkpoint, ...] = ()
    magic: int = SLOT_MAGIC
    version: int = 1
    sizes: tuple[int, int, int, int] | None = None

    @staticmethod
    def parse(data: bytes) -> SlotBytes:
        """Of bytes that the engine wrote."""
        magic, version, n_tokens, n_decoded, *sizes, n_checkpoints = SLOT_HEADER.unpack_from(data)
        rest = memoryview(data)[SLOT_HEADER.size :]

        def cut(size: int) -> bytes:
            nonlocal rest
            part, rest = bytes(rest[:size]), rest[size:]
            return part

        parts = [cut(size) for size in (4 * n_tokens, *sizes)]
        checkpoints = []
        for _ in range(n_checkpoints):
            position, *ends = CHECKPOINT_HEADER.unpack(cut(CHECKPOINT_HEADER.size))
            checkpoints.append(Checkpoint(position, *(cut(size) for size in ends)))
        return SlotBytes(n_tokens, n_decoded, *parts, tuple(checkpoints), magic, version)

    def build(self) -> bytes:
        """With the right hash."""
        sizes = self.sizes or (len(self.target), len(self.draft), len(self.rows), len(self.checkpoints))
        header = SLOT_HEADER.pack(self.magic, self.version, self.n_tokens, self.n_decoded, *sizes)
        body = header + b"".join(self.parts)
        return body + struct.pack("<Q", hash_of(body))

    @property
    def parts(self) -> list[bytes]:
        """What follows the header."""
        return [self.tokens, self.target, self.draft, self.rows, *(one.build() for one in self.checkpoints)]

    @property
    def borders(self) -> list[int]:
        """Where the header ends, and each part."""
        return list(accumulate((len(part) for part in self.parts), initial=SLOT_HEADER.size))


def without_rows(data: bytes) -> bytes:
    """The same slot, as an engine saves it that drafts nothing."""
    saved = SlotBytes.parse(data)
    checkpoints = tuple(dataclasses.replace(one, rows=b"") for one in saved.checkpoints)
    return dataclasses.replace(saved, draft=b"", rows=b"", checkpoints=checkpoints).build()
