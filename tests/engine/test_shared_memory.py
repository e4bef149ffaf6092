"""Shared memory without a name: both sides see it, and nothing of it stays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from draftscope.engine.shared_memory import SharedMemory, attach


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_both_sides_see_the_same_bytes() -> None:
    memory = SharedMemory(10_000)
    other = attach(memory.address)  # takes the descriptor over, as the child does with its own
    memory.buffer[9_999] = 7
    assert other[9_999] == 7
    assert memory.buffer[0] == 0
    other.close()
    memory.buffer.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no descriptors for it")
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_nothing_stays_when_it_is_forgotten(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_files()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        memory = SharedMemory(4096)
    memory.close_descriptors()
    memory.close_descriptors()
    memory.buffer[0] = 1
    memory.buffer.close()
    assert open_files() == before
    assert not list(Path("/dev/shm").glob("*draftscope*"))
