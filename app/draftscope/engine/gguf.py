"""Reader of GGUF headers: metadata and the list of tensors, without reading any weights.

The file is mapped, walked once, and every count, length and offset is checked against the size of the file before
anything is allocated or followed, since the file may come from anywhere. What libllama refuses (duplicate keys, gaps
between tensors, nested arrays) is refused here with a sentence. Arrays are decoded when they are first asked for, so a
vocabulary of 152 thousand tokens costs a walk over its lengths and no more.

Format: little endian; magic "GGUF", u32 version, u64 tensors, u64 pairs; then pairs (string key, u32 type, value),
then tensors (string name, u32 dimensions, u64 each, u32 type, u64 offset), then padding and the weights.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType

from draftscope.engine.errors import EngineError
from draftscope.engine.gguf_values import (
    ARRAY,
    BROKEN_HINT,
    CUT_HINT,
    NUMBERS,
    STRING,
    TENSOR_TYPES,
    TYPE_NAMES,
    U32,
    U64,
    GgufArray,
    MetadataValue,
    TensorInfo,
    bad_file,
    quoted,
)

MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_STRINGS = 1 << 21
"""Limits far beyond any real model (the largest vocabularies have 2^18 entries); they bound the time of a walk."""

_MAX_NAME_BYTES = 63
_MAX_DIMENSIONS = 4
_INT64_MAX = (1 << 63) - 1
_DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The header of an open file. Close it (or leave its ``with`` block) when the arrays are no longer needed.

    ``metadata`` keeps the file's order; ``types`` has the type of each value (``u16``, ``str``, ``array``). Text that
    is not UTF-8 has replacement characters. ``data_offset`` is where the weights begin, in bytes.
    """

    path: Path
    version: int
    size_bytes: int
    alignment: int
    data_offset: int
    metadata: Mapping[str, MetadataValue]
    types: Mapping[str, str]
    tensors: tuple[TensorInfo, ...]
    _view: mmap.mmap = field(repr=False)

    def close(self) -> None:
        """Unmap the file; harmless when done already."""
        self._view.close()

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Read a file's header.

    Raises:
        EngineError: code BAD_FILE, for every file that cannot be opened or is not a whole GGUF file of version 2 or 3;
            the sentence names the file and what is wrong with it.
    """
    place = Path(path)
    view = _map(place)
    try:
        return _Walk(place, view).read()
    except BaseException:
        view.close()
        raise


def _map(path: Path) -> mmap.mmap:
    try:
        mode = path.stat().st_mode  # before opening: to open a pipe would wait for its other end
        if stat.S_ISDIR(mode):
            raise bad_file(path, "is a folder, not a file", "Name the .gguf file inside it.")
        if not stat.S_ISREG(mode):
            raise bad_file(path, "is not an ordinary file", "Copy the model into a file and open that.")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise bad_file(path, "is empty", CUT_HINT)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise bad_file(path, "does not exist", "Check the path.") from None
    except PermissionError:
        raise bad_file(
            path, "may not be read by this user", "Change its permissions, or copy it to where it may be read."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path, or a size that cannot be mapped
        reason = getattr(error, "strerror", None) or str(error)
        raise bad_file(path, f"cannot be opened: {reason}") from error


class _Walk:
    """One pass over a header; ``_position`` is the next byte to read."""

    def __init__(self, path: Path, view: mmap.mmap) -> None:
        self._path, self._view, self._size = path, view, len(view)
        self._position = 0
        self._n_strings = 0

    def read(self) -> GgufFile:
        version, n_tensors, n_keys = self._start()
        metadata: dict[str, MetadataValue] = {}
        types: dict[str, str] = {}
        for _ in range(n_keys):
            key, type_name, value = self._pair()
            if key in metadata:
                raise self._broken(f"has the metadata key {quoted(key)} twice")
            metadata[key], types[key] = value, type_name
        alignment = self._alignment(metadata)
        entries = [self._tensor() for _ in range(n_tensors)]
        data_offset = -(-self._position // alignment) * alignment if entries else self._position
        tensors = self._place(entries, data_offset, alignment)
        return GgufFile(
            path=self._path,
            version=version,
            size_bytes=self._size,
            alignment=alignment,
            data_offset=data_offset,
            metadata=MappingProxyType(metadata),
            types=MappingProxyType(types),
            tensors=tensors,
            _view=self._view,
        )

    def _start(self) -> tuple[int, int, int]:
        magic = self._view[:4]
        if magic != b"GGUF":
            raise bad_file(self._path, "is not a GGUF file", "Models in other formats must be converted to GGUF first.")
        if self._size < 24:
            raise self._cut_short()
        self._position = 4
        version = self._u32()
        if version & 0xFFFF == 0:
            raise bad_file(
                self._path,
                "is a big-endian GGUF file, which this machine cannot run",
                "Get the little-endian file of the model.",
            )
        if version < 2:
            raise bad_file(
                self._path,
                f"is a GGUF file of version {version}, which llama.cpp no longer reads",
                "Convert the model again.",
            )
        if version > 3:
            raise bad_file(
                self._path,
                f"is a GGUF file of version {version}; this engine reads 2 and 3",
                "It needs a newer Draftscope.",
            )
        n_tensors, n_keys = self._u64(), self._u64()
        for count, smallest, limit, what in (
            (n_tensors, 24, MAX_TENSORS, "tensors"),
            (n_keys, 13, MAX_KEYS, "metadata keys"),
        ):
            if count > limit:
                raise self._broken(f"claims {count} {what}")
            if count * smallest > self._size - self._position:
                raise self._cut_short()
        return version, n_tensors, n_keys

    def _pair(self) -> tuple[str, str, MetadataValue]:
        key = self._string()
        if not key:
            raise self._broken("has a metadata key without a name")
        type_number = self._u32()
        if type_number == ARRAY:
            return key, "array", self._array(key)
        if type_number == STRING:
            return key, "str", self._string()
        if type_number not in NUMBERS:
            raise self._broken(f"gives the metadata key {quoted(key)} the unknown type {type_number}")
        return key, TYPE_NAMES[type_number], self._number(NUMBERS[type_number])

    def _array(self, key: str) -> GgufArray:
        type_number, length = self._u32(), self._u64()
        if type_number == ARRAY:
            raise self._broken(f"nests arrays in the metadata key {quoted(key)}")
        start = self._position
        if type_number == STRING:
            self._skip_strings(length)
        elif type_number in NUMBERS:
            self._skip(length * struct.calcsize("<" + NUMBERS[type_number]))
        else:
            raise self._broken(f"gives the array {quoted(key)} the unknown type {type_number}")
        return GgufArray(self._view, start, type_number, length)

    def _skip_strings(self, count: int) -> None:
        self._n_strings += count
        if count * 8 > self._size - self._position:
            raise self._cut_short()
        if self._n_strings > MAX_STRINGS:
            raise self._broken(f"has more than {MAX_STRINGS} strings in its arrays")
        view, position, unpack = self._view, self._position, U64
        try:
            for _ in range(count):
                position += 8 + unpack(view, position)[0]
        except (struct.error, OverflowError):  # a length led past the end
            raise self._cut_short() from None
        self._position = position
        self._skip(0)

    def _alignment(self, metadata: Mapping[str, MetadataValue]) -> int:
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
            raise self._broken("has an alignment that is not a power of two")
        return alignment

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string(_MAX_NAME_BYTES)
        n_dimensions = self._u32()
        if n_dimensions > _MAX_DIMENSIONS:
            raise self._broken(f"gives the tensor {quoted(name)} {n_dimensions} dimensions")
        shape = tuple(self._u64() for _ in range(n_dimensions))
        if any(n > _INT64_MAX for n in shape) or math.prod(n for n in shape if n) > _INT64_MAX:
            raise self._broken(f"gives the tensor {quoted(name)} an impossible shape")
        type_number, offset = self._u32(), self._u64()
        if type_number not in TENSOR_TYPES:
            raise bad_file(
                self._path,
                f"stores the tensor {quoted(name)} in type {type_number}, which this engine does not know",
                "A file made for a newer llama.cpp needs a newer engine; otherwise it is damaged.",
            )
        return name, shape, type_number, offset

    def _place(
        self, entries: Sequence[tuple[str, tuple[int, ...], int, int]], data_offset: int, alignment: int
    ) -> tuple[TensorInfo, ...]:
        tensors: dict[str, TensorInfo] = {}
        expected = 0
        for name, shape, type_number, offset in entries:
            type_name, block, block_bytes = TENSOR_TYPES[type_number]
            row = shape[0] if shape else 1
            if row % block:
                raise self._broken(
                    f"has rows of {row} elements in the tensor {quoted(name)}, not whole {type_name} blocks"
                )
            if offset != expected:
                raise self._broken(f"places the tensor {quoted(name)} at {offset} where {expected} is expected")
            if name in tensors:
                raise self._broken(f"has the tensor {quoted(name)} twice")
            n_bytes = math.prod(shape) // block * block_bytes
            expected += -(-n_bytes // alignment) * alignment
            if data_offset + offset + n_bytes > self._size:
                raise self._cut_short(data_offset + expected)
            tensors[name] = TensorInfo(name, shape, type_name, n_bytes, data_offset + offset)
        return tuple(tensors.values())

    def _skip(self, n: int) -> None:
        if n > self._size - self._position:
            raise self._cut_short()
        self._position += n

    def _u32(self) -> int:
        start = self._position
        self._skip(4)
        return int(U32(self._view, start)[0])

    def _u64(self) -> int:
        start = self._position
        self._skip(8)
        return int(U64(self._view, start)[0])

    def _number(self, code: str) -> int | float | bool:
        start = self._position
        self._skip(struct.calcsize("<" + code))
        value: int | float | bool = struct.unpack_from("<" + code, self._view, start)[0]
        return value

    def _string(self, limit: int | None = None) -> str:
        length = self._u64()
        start = self._position
        self._skip(length)
        if limit is not None and length > limit:
            raise self._broken(f"has a tensor name of {length} bytes")
        return self._view[start : start + length].decode("utf-8", "replace")

    def _cut_short(self, needed: int = 0) -> EngineError:
        missing = f": it has {self._size} bytes and needs at least {needed}" if needed else ""
        return bad_file(self._path, f"is cut short or damaged{missing}", CUT_HINT)

    def _broken(self, what: str) -> EngineError:
        return bad_file(self._path, what, BROKEN_HINT)
