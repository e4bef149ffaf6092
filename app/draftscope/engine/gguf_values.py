"""Parts of a GGUF header: the types of tensors and metadata, a tensor's entry, a lazy array, and words for errors."""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import overload

from draftscope.engine.errors import EngineError, ErrorCode

Scalar = int | float | bool | str

STRING, ARRAY = 8, 9
"""Type numbers of metadata values that are neither of the numbers below."""

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Type number -> code of the module ``struct``."""

TYPE_NAMES = {
    0: "u8", 1: "i8", 2: "u16", 3: "i16", 4: "u32", 5: "i32", 6: "f32", 7: "bool", 8: "str",
    10: "u64", 11: "i64", 12: "f64",
}  # fmt: skip
"""Type number -> name, for messages and for ``GgufFile.types``."""

U32 = struct.Struct("<I").unpack_from
U64 = struct.Struct("<Q").unpack_from

TENSOR_TYPES: Mapping[int, tuple[str, int, int]] = MappingProxyType(
    {
        0: ("F32", 1, 4), 1: ("F16", 1, 2), 30: ("BF16", 1, 2), 28: ("F64", 1, 8),
        24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8),
        2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
        8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36),
        10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
        14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
        16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 22: ("IQ2_S", 256, 82),
        18: ("IQ3_XXS", 256, 98), 21: ("IQ3_S", 256, 110), 19: ("IQ1_S", 256, 50), 29: ("IQ1_M", 256, 56),
        20: ("IQ4_NL", 32, 18), 23: ("IQ4_XS", 256, 136),
        34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
        39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
    }
)  # fmt: skip
"""Number in the file -> (name, elements a block, bytes a block), as ggml of the pinned version has them."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor's entry in the header.

    ``shape`` counts elements, fastest axis first, as ggml lists it. ``offset`` is in bytes from the start of the file.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    n_bytes: int
    offset: int

    @property
    def n_elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)


class GgufArray(Sequence[Scalar]):
    """An array of the metadata, decoded when its elements are first asked for. Its length is known without that.

    Elements can be read while the file is open, and afterwards when they were read before.
    """

    def __init__(self, view: mmap.mmap, start: int, type_number: int, length: int) -> None:
        self._view, self._start, self._type, self._length = view, start, type_number, length
        self._items: tuple[Scalar, ...] | None = None

    @property
    def type_name(self) -> str:
        """Type of the elements: u8 ... i64, f32, f64, bool, str."""
        return TYPE_NAMES[self._type]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Scalar: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Scalar]: ...
    def __getitem__(self, index: int | slice) -> Scalar | Sequence[Scalar]:
        return self._decoded()[index]

    def __iter__(self) -> Iterator[Scalar]:
        return iter(self._decoded())

    def __repr__(self) -> str:
        return f"<GgufArray of {self._length} {self.type_name}>"

    def raw_strings(self) -> Iterator[bytes]:
        """The strings of an array of strings as they are in the file; only while it is open."""
        position = self._start
        for _ in range(self._length):
            (length,) = U64(self._view, position)
            yield self._view[position + 8 : position + 8 + length]
            position += 8 + length

    def _decoded(self) -> tuple[Scalar, ...]:
        if self._items is None:
            if self._type == STRING:
                self._items = tuple(item.decode("utf-8", "replace") for item in self.raw_strings())
            else:
                self._items = struct.unpack_from(f"<{self._length}{NUMBERS[self._type]}", self._view, self._start)
        return self._items


MetadataValue = Scalar | GgufArray


def bad_file(path: Path, what: str, hint: str = "") -> EngineError:
    """The error for a file that cannot be used: ``what`` continues a sentence that begins with the file's name."""
    return EngineError(ErrorCode.BAD_FILE, f"{printable(str(path))} {what}.", hint)


BROKEN_HINT = "The file is damaged or was made by a faulty program; get it again."
CUT_HINT = "The download or copy was not finished; get the file again."


def printable(text: str) -> str:
    """A text of unknown origin for a message: what cannot be printed is replaced."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def quoted(text: str) -> str:
    """The same in quotes, cut to 80 characters."""
    return "'" + printable(text if len(text) <= 80 else text[:79] + "…") + "'"
