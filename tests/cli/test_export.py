"""``draftscope export``: what is written, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from draftscope.cli.failure import ExitCode
from draftscope.trace.tracefile import TraceWriter
from tests.cli.conftest import Command
from tests.perf.synthetic import rounds


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "run.dscope"
    with TraceWriter(path, {"program": "test"}) as writer:
        writer.append(rounds(3))
        writer.add_pieces({5: b"word"})
    return path


def test_a_chrome_trace_is_written(command: Command, trace: Path) -> None:
    out = trace.with_name("run.json")
    told = command("export", trace, "--to", "chrome", "-o", out)
    assert told.exit_code == ExitCode.DONE
    assert str(out) in told.out
    events = json.loads(out.read_text())["traceEvents"]
    assert {event["ph"] for event in events} >= {"M", "X"}


def test_a_name_that_ends_in_gz_is_compressed_and_json_says_what_was_written(command: Command, trace: Path) -> None:
    out = trace.with_name("run.json.gz")
    told = command("export", trace, "--to", "chrome", "-o", out, "--no-text", "--json")
    assert told.json == {
        "format": "chrome",
        "output": str(out),
        "with_text": False,
        "n_records": len(rounds(3)),
        "size_bytes": out.stat().st_size,
    }
    assert "word" not in gzip.decompress(out.read_bytes()).decode()


@pytest.mark.parametrize("form", ["perfetto", "parquet", "csv", "npz"])
def test_forms_that_are_not_built_are_refused(command: Command, trace: Path, form: str) -> None:
    told = command("export", trace, "--to", form, "-o", trace.with_name("out"), "--json")
    assert told.exit_code == ExitCode.WRONG_USE
    assert form in told.json["error"]["message"]
    assert not trace.with_name("out").exists()


def test_a_file_that_is_no_trace_is_a_bad_input(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "letter.dscope"
    path.write_text("Dear reader")
    assert command("export", path, "--to", "chrome", "-o", tmp_path / "x.json").exit_code == ExitCode.BAD_INPUT
    assert not (tmp_path / "x.json").exists()


def test_a_missing_trace_is_a_bad_input(command: Command, tmp_path: Path) -> None:
    told = command("export", tmp_path / "none", "--to", "chrome", "-o", tmp_path / "x.json")
    assert told.exit_code == ExitCode.BAD_INPUT


def test_the_trace_itself_is_never_overwritten(command: Command, trace: Path) -> None:
    before = trace.read_bytes()
    assert command("export", trace, "--to", "chrome", "-o", trace).exit_code == ExitCode.WRONG_USE
    assert trace.read_bytes() == before


def test_a_folder_that_is_missing_is_named(command: Command, trace: Path) -> None:
    told = command("export", trace, "--to", "chrome", "-o", "/no/such/folder/x.json")
    assert told.exit_code == ExitCode.WRONG_USE
    assert "/no/such/folder" in told.err
