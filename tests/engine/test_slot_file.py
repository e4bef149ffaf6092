"""Slot files: what was written is read, and whatever else is in a file is refused with a sentence."""

from __future__ import annotations

import os
import resource
import signal
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from draftscope.engine.backend import ModelIdentity
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.slot_file import MAGIC, SlotImage, read_slot_file, write_slot_file

IDENTITY = ModelIdentity("ab" * 32, "llama.cpp 1")
IMAGE = SlotImage(IDENTITY, "tiny, 7 M", (1, 2, 300), b"state" * 100)


def no_beat() -> None:
    """Nobody watches."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kept.slot"
    write_slot_file(str(path), IMAGE, no_beat)
    return path


def refusal(path: Path, code: ErrorCode = ErrorCode.BAD_FILE, identity: ModelIdentity = IDENTITY) -> str:
    with pytest.raises(EngineError, match=r"\.$") as caught:
        read_slot_file(str(path), identity, no_beat)
    assert caught.value.code is code
    assert caught.value.hint.endswith(".")
    return caught.value.message


def with_head(data: bytes, offset: int, value: bytes) -> bytes:
    """A file whose head says something else, and has the right checksum of its own."""
    head = data[:offset] + value + data[offset + len(value) : 36]
    return head + struct.pack("<I", zlib.crc32(head)) + data[40:]


def test_what_was_written_is_read(path: Path) -> None:
    assert read_slot_file(str(path), IDENTITY, no_beat) == (IMAGE, path.stat().st_size)


def test_an_older_slot_file_is_replaced_and_nothing_is_left_beside_it(path: Path) -> None:
    newer = replace(IMAGE, tokens=(7,), state=b"")
    assert write_slot_file(str(path), newer, no_beat) == path.stat().st_size
    assert read_slot_file(str(path), IDENTITY, no_beat)[0] == newer
    assert list(path.parent.iterdir()) == [path]


def test_a_link_to_a_slot_file_stays_a_link(path: Path) -> None:
    link = path.with_name("link.slot")
    link.symlink_to(path.name)
    write_slot_file(str(link), replace(IMAGE, tokens=(7,)), no_beat)
    assert link.is_symlink()
    assert read_slot_file(str(path), IDENTITY, no_beat)[0].tokens == (7,)


def test_a_file_that_is_no_slot_file_is_not_replaced(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF and weights")
    with pytest.raises(EngineError, match="no slot file, so it is left as it is"):
        write_slot_file(str(model), IMAGE, no_beat)
    assert model.read_bytes() == b"GGUF and weights"


def test_a_save_that_is_interrupted_leaves_the_older_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_slot_file(str(path), replace(IMAGE, state=bytes(40 << 20)), stop)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_the_older_file(path: Path) -> None:
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(EngineError, match="cannot be written: File too large") as caught:
            write_slot_file(str(path), replace(IMAGE, state=bytes(2 << 20)), no_beat)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert caught.value.code is ErrorCode.BAD_FILE
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["missing/kept.slot", "folder", "pipe", "with\0null"])
def test_places_where_no_file_can_be_written_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EngineError, match=r"\.$") as caught:
        write_slot_file(str(tmp_path / name), IMAGE, no_beat)
    assert caught.value.code is ErrorCode.BAD_FILE


@contextmanager
def without_privileges() -> Iterator[None]:
    """As a user who is not root, who may read and write everything."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own)


def test_what_this_user_may_not_read_is_refused(path: Path) -> None:
    path.chmod(0)
    with without_privileges():
        assert "cannot be read: Permission denied" in refusal(path)


def test_a_pipe_a_folder_and_nothing_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not an ordinary file" in refusal(tmp_path / "pipe")
    assert "not an ordinary file" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path / "none.slot")


def test_a_file_that_is_cut_off_is_refused_wherever_it_ends(path: Path) -> None:
    whole = path.read_bytes()
    for n in (0, 1, 7):
        path.write_bytes(whole[:n])
        refusal(path)
    for n in (8, 39, 40, 41, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n])
        assert "cut off" in refusal(path) or "damaged" in refusal(path)
    path.write_bytes(whole + b"x")
    assert "should have" in refusal(path)


def test_every_changed_byte_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    for at in [*range(160), *range(160, len(whole), 37)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        refusal(path)


def test_other_files_and_newer_ones_say_what_they_are(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    assert refusal(path).endswith("is no slot file.")
    path.write_bytes(with_head(whole, len(MAGIC), struct.pack("<I", 2)))
    assert "a newer Draftscope (format 2" in refusal(path)


def test_sizes_that_lie_take_no_memory(path: Path) -> None:
    whole = path.read_bytes()
    for offset, value in ((12, struct.pack("<I", 2**32 - 1)), (16, struct.pack("<Q", 2**62)), (24, bytes([255] * 8))):
        path.write_bytes(with_head(whole, offset, value))
        assert "damaged" in refusal(path)


def test_a_state_of_another_model_or_library_is_refused_by_name(path: Path) -> None:
    other = refusal(path, ErrorCode.BAD_STATE, replace(IDENTITY, fingerprint="cd" * 32))
    assert "saved with another model (tiny, 7 M)" in other
    newer = refusal(path, ErrorCode.BAD_STATE, replace(IDENTITY, library="llama.cpp 2"))
    assert "llama.cpp 1, and its states are not those of llama.cpp 2" in newer


def test_a_large_state_is_written_and_read_with_signs_of_life(path: Path) -> None:
    beats: list[int] = []
    image = replace(IMAGE, state=bytes(50 << 20))
    write_slot_file(str(path), image, lambda: beats.append(1))
    n_written = len(beats)
    assert read_slot_file(str(path), IDENTITY, lambda: beats.append(1))[0] == image
    assert n_written >= 2 * 4
    assert len(beats) - n_written >= 2 * 4
