"""What does not fit is refused before the system ends the process for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.engine import native
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.host_memory import available_bytes
from draftscope.engine.protocol import CheckpointMode, ContextSettings
from tests.engine_ext.harness import Bench, run


def test_that_a_context_larger_than_memory_is_refused_with_both_figures(demo_model: Path) -> None:
    bench = Bench()
    with pytest.raises(
        EngineError, match=r"64 slots would take [\d.]+ GiB, and [\d.]+ GiB of memory are free"
    ) as refused:
        bench.load(demo_model, ContextSettings(n_slots=64, n_ctx=1 << 24))
    assert refused.value.code is ErrorCode.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("mode", "n_more"), [(CheckpointMode.ROLLBACK, 3), (CheckpointMode.HOST, 1), (CheckpointMode.AUTO, 1)]
)
def test_that_the_check_counts_what_the_library_allocates(
    mode: CheckpointMode, n_more: int, demo_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = native.check_loadable(str(demo_model)).memory
    assert memory is not None
    settings = ContextSettings(checkpoint=mode, n_threads=1)
    needed = memory.slot(2048, 3, n_more).total_bytes * 4
    monkeypatch.setattr(native, "available_bytes", lambda: needed - 1)
    with pytest.raises(EngineError, match="4 slots would take"):
        run(demo_model, ["def"] * 4, settings)
    monkeypatch.setattr(native, "available_bytes", lambda: needed)
    done = run(demo_model, ["def"] * 4, settings, max_tokens=4)
    assert len(done.results) == 4
    assert (done.report.way_back.granted == "rollback") == (mode is CheckpointMode.ROLLBACK)


def test_that_available_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  2048 kB\nMemAvailable:  1024 kB\n")
    assert available_bytes(meminfo, tmp_path) == 1024 * 1024
    (tmp_path / "memory.max").write_text("500000\n")
    (tmp_path / "memory.current").write_text("100000\n")
    assert available_bytes(meminfo, tmp_path) == 400_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_bytes(meminfo, tmp_path) == 1024 * 1024
    assert available_bytes(tmp_path / "none", tmp_path) is None
