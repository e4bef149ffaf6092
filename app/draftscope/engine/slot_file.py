"""Files that hold what a slot held, to be restored into any slot of the same model, also after a restart.

Format, little endian: magic "DSCPSLOT", u32 version, u32 bytes of the description, u64 tokens, u64 bytes of the state,
u32 CRC-32 of all that follows the head, u32 CRC-32 of the head before it; then the description (JSON: fingerprint of
the model, library that wrote the state, name of the model), the tokens (i32 each), and the state as the engine gave it.

The tokens are there so that the text can be shown, and the room checked, before any state is touched. What else a state
depends on (whether there is a draft context, how it is laid out) stands in the state itself, and the engine checks it.
A file is written under another name and renamed when it is whole: an interrupted save leaves the older one.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from draftscope.engine.backend import ModelIdentity
from draftscope.engine.errors import EngineError, ErrorCode

MAGIC = b"DSCPSLOT"
VERSION = 1

_HEAD = struct.Struct("<8sIIQQII")
_MAX_DESCRIPTION = 1 << 16
_CHUNK = 16 << 20
"""Bytes between two signs of life: 16 MiB, some 10 ms on a disk of today."""

_ANOTHER_COPY = "Use another copy of it, or save the slot again."
_OTHER_PLACE = "Choose another file."
_NAME_ONE = "Name a file that a slot was saved in."


@dataclass(frozen=True, slots=True)
class SlotImage:
    """What a slot file holds. ``model`` is a name for people; ``identity`` is what is compared."""

    identity: ModelIdentity
    model: str
    tokens: tuple[int, ...]
    state: bytes


def write_slot_file(path: str, image: SlotImage, beat: Callable[[], None]) -> int:
    """Write an image, in the place of an older slot file of that name; the bytes written.

    Args:
        path: may be a link, which stays.
        image: its state is not copied.
        beat: called between pieces of work.

    Raises:
        EngineError: BAD_FILE: it cannot be written, or the name belongs to something that is no slot file.
    """
    place = place_of_slot_file(path)
    description = json.dumps(
        {"fingerprint": image.identity.fingerprint, "library": image.identity.library, "model": image.model}
    ).encode()
    tokens = np.array(image.tokens, "<i4").tobytes()
    body = (description, tokens, image.state)
    head = _head(body, len(image.tokens), beat)
    new = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with _removed_unless_renamed(new), new.open("xb") as file:
            file.write(head)
            for part in body:
                for piece in _pieces(part):
                    file.write(piece)
                    beat()
            file.flush()
            os.fsync(file.fileno())
            new.replace(place)
    except (OSError, ValueError) as error:
        raise _bad_file(path, f"cannot be written: {_reason(error)}", _OTHER_PLACE) from error
    return len(head) + sum(map(len, body))


def _head(body: tuple[bytes, bytes, bytes], n_tokens: int, beat: Callable[[], None]) -> bytes:
    crc = 0
    for part in body:
        crc = _crc(part, crc, beat)
    start = _HEAD.pack(MAGIC, VERSION, len(body[0]), n_tokens, len(body[2]), crc, 0)[:-4]
    return start + struct.pack("<I", zlib.crc32(start))


def _crc(data: bytes, crc: int, beat: Callable[[], None]) -> int:
    for piece in _pieces(data):
        crc = zlib.crc32(piece, crc)
        beat()
    return crc


def _pieces(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    return (view[start : start + _CHUNK] for start in range(0, len(view), _CHUNK))


@contextlib.contextmanager
def _removed_unless_renamed(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def place_of_slot_file(path: str) -> Path:
    """Where the file goes. A slot file may be replaced; whatever else has the name is somebody's.

    Raises:
        EngineError: BAD_FILE: it cannot be written there, as far as that is seen without writing.
    """
    try:
        place = Path(os.path.realpath(path))
        if not place.parent.is_dir():
            raise _bad_file(path, f"cannot be written: there is no folder {place.parent}", _OTHER_PLACE)
        if not os.access(place.parent, os.W_OK):
            raise _bad_file(path, "cannot be written: the folder may not be written to", _OTHER_PLACE)
        mode = place.stat().st_mode
        if not stat.S_ISREG(mode):
            raise _bad_file(path, "is not an ordinary file, so no slot can be saved in it", _OTHER_PLACE)
        with place.open("rb") as file:
            start = file.read(len(MAGIC))
    except FileNotFoundError:
        return place
    except (OSError, ValueError) as error:
        raise _bad_file(path, f"cannot be written: {_reason(error)}", _OTHER_PLACE) from error
    if start not in (b"", MAGIC):
        raise _bad_file(path, "is there already and is no slot file, so it is left as it is", _OTHER_PLACE)
    return place


def read_slot_file(path: str, identity: ModelIdentity, beat: Callable[[], None]) -> tuple[SlotImage, int]:
    """The image in a file, checked from end to end, and the file's bytes.

    Args:
        path: a file that may be anything.
        identity: of the loaded model; the image's must be the same.
        beat: called between pieces of work.

    Raises:
        EngineError: BAD_FILE: it is no whole slot file; BAD_STATE: it is one, of another model or library.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # before opening: to open a pipe would wait for its other end
            raise _bad_file(path, "is not an ordinary file, so it holds no slot", _NAME_ONE)
        with Path(path).open("rb") as file:
            return _read(path, file, identity, beat)
    except FileNotFoundError as error:
        raise _bad_file(path, "does not exist", "Check the path.") from error
    except (OSError, ValueError) as error:
        raise _bad_file(path, f"cannot be read: {_reason(error)}", "Check its permissions.") from error


def _read(path: str, file: BinaryIO, identity: ModelIdentity, beat: Callable[[], None]) -> tuple[SlotImage, int]:
    n_description, n_tokens, n_state, crc = _read_head(path, file)
    n_expected = _HEAD.size + n_description + 4 * n_tokens + n_state
    n_bytes = os.fstat(file.fileno()).st_size
    if n_bytes != n_expected:  # before anything is read: the sizes are a stranger's
        raise _bad_file(path, f"is damaged: it has {n_bytes} bytes and should have {n_expected}", _ANOTHER_COPY)
    start = file.read(n_description)
    tokens = file.read(4 * n_tokens)
    state = b"".join(_read_pieces(file, n_state, beat))
    if _crc(state, zlib.crc32(tokens, zlib.crc32(start)), beat) != crc:
        raise _bad_file(path, "is damaged: its checksum is wrong", _ANOTHER_COPY)
    found, model = _described(path, start)
    _check_identity(path, found, model, identity)
    return SlotImage(found, model, tuple(np.frombuffer(tokens, "<i4").tolist()), state), n_bytes


def _read_pieces(file: BinaryIO, n_bytes: int, beat: Callable[[], None]) -> Iterator[bytes]:
    while n_bytes > 0 and (piece := file.read(min(n_bytes, _CHUNK))):
        n_bytes -= len(piece)
        beat()
        yield piece


def _read_head(path: str, file: BinaryIO) -> tuple[int, int, int, int]:
    """Bytes of the description, number of tokens, bytes of the state, checksum."""
    head = file.read(_HEAD.size)
    if not head.startswith(MAGIC[: max(1, len(head))]):
        raise _bad_file(path, "is no slot file", _NAME_ONE)
    if len(head) < _HEAD.size:
        raise _bad_file(path, f"is cut off after {len(head)} bytes", _ANOTHER_COPY)
    _, version, n_description, n_tokens, n_state, crc, head_crc = _HEAD.unpack(head)
    if version > VERSION:
        what = f"was written by a newer Draftscope (format {version}; this one reads up to {VERSION})"
        raise _bad_file(path, what, "Update Draftscope.")
    if zlib.crc32(head[:-4]) != head_crc or n_description > _MAX_DESCRIPTION:
        raise _bad_file(path, "is damaged: its head is not as it was written", _ANOTHER_COPY)
    return n_description, n_tokens, n_state, crc


def _described(path: str, data: bytes) -> tuple[ModelIdentity, str]:
    try:
        fields = json.loads(data)
        return ModelIdentity(str(fields["fingerprint"]), str(fields["library"])), str(fields["model"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _bad_file(path, "is damaged: its description cannot be read", _ANOTHER_COPY) from error


def _check_identity(path: str, found: ModelIdentity, model: str, loaded: ModelIdentity) -> None:
    if found.fingerprint != loaded.fingerprint:
        what = f"{path} was saved with another model ({model or 'without a name'})."
        raise EngineError(ErrorCode.BAD_STATE, what, "Load that model, then restore it.")
    if found.library != loaded.library:
        what = f"{path} was saved with {found.library}, and its states are not those of {loaded.library}."
        raise EngineError(ErrorCode.BAD_STATE, what, "Restore it where it was saved.")


def _bad_file(path: str, what: str, hint: str) -> EngineError:
    return EngineError(ErrorCode.BAD_FILE, f"{path} {what}.", hint)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
