"""``draftscope report``: what is written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.cli.failure import ExitCode
from draftscope.trace.tracefile import TraceWriter
from tests.cli.conftest import Command
from tests.trace.synthetic import PIECES, make_records


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "run.dscope"
    with TraceWriter(path, {"program": "test"}) as writer:
        writer.append(make_records(20))
        writer.add_pieces(PIECES)
    return path


def test_one_page_is_written(command: Command, trace: Path) -> None:
    out = trace.with_name("report.html")
    told = command("report", trace, "-o", out)
    assert told.exit_code == ExitCode.DONE
    assert str(out) in told.out
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert "Slot 0" in out.read_text()


def test_json_says_what_was_written_and_no_text_leaves_it_out(command: Command, trace: Path) -> None:
    out = trace.with_name("report.html")
    told = command("report", trace, "-o", out, "--no-text", "--json").json
    assert told == {"output": str(out), "with_text": False, "size_bytes": out.stat().st_size}
    assert " cat" not in out.read_text()


def test_what_cannot_be_read_or_written_is_refused(command: Command, trace: Path, tmp_path: Path) -> None:
    assert command("report", trace, "-o", tmp_path / "nowhere" / "x.html").exit_code == ExitCode.WRONG_USE
    assert command("report", trace, "-o", tmp_path).exit_code == ExitCode.WRONG_USE
    assert command("report", trace, "-o", trace).exit_code == ExitCode.WRONG_USE
    assert command("report", tmp_path / "gone.dscope", "-o", tmp_path / "x.html").exit_code == ExitCode.BAD_INPUT
    assert not (tmp_path / "x.html").exists()
