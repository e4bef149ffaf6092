"""``draftscope export``: what is written, and what is refused."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from draftscope.cli.export import FORMATS
from draftscope.cli.failure import ExitCode
from draftscope.trace.export.formats import BY_ID
from draftscope.trace.export.watch import Watch
from draftscope.trace.tracefile import TraceWriter
from tests.cli.conftest import Command
from tests.perf.synthetic import rounds
from tests.trace.export.perfetto_reader import read_perfetto


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


def test_every_format_is_written_and_told(command: Command, trace: Path) -> None:
    outs = {"perfetto": "run.pftrace", "chrome": "run.json", "csv": "tables", "parquet": "arrow", "npz": "run.npz"}
    assert set(outs) == set(FORMATS)
    for form, name in outs.items():
        out = trace.with_name(name)
        told = command("export", trace, "--to", form, "-o", out, "--json")
        assert told.exit_code == ExitCode.DONE
        assert told.json["n_records"] == len(rounds(3))
        files = list(out.iterdir()) if out.is_dir() else [out]
        assert told.json["size_bytes"] == sum(file.stat().st_size for file in files) > 0
    assert read_perfetto(trace.with_name("run.pftrace")).slices


def test_the_formats_of_the_command_are_those_of_the_table() -> None:
    assert set(FORMATS) == set(BY_ID)


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_tells_a_piece_where_text_is_left_out(command: Command, trace: Path, form: str) -> None:
    out = trace.with_name("out")
    assert command("export", trace, "--to", form, "-o", out, "--no-text").exit_code == ExitCode.DONE
    files = list(out.iterdir()) if out.is_dir() else [out]
    assert b"word" not in b"".join(file.read_bytes() for file in files)


def test_parquet_without_pyarrow_is_refused_with_what_to_install(
    command: Command, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told = command("export", trace, "--to", "parquet", "-o", trace.with_name("out"), "--json")
    assert told.exit_code == ExitCode.WRONG_USE
    assert "draftscope[parquet]" in told.json["error"]["message"]
    assert not trace.with_name("out").exists()


def test_a_folder_with_other_files_is_never_written_into(command: Command, trace: Path) -> None:
    told = command("export", trace, "--to", "csv", "-o", trace.parent)
    assert told.exit_code == ExitCode.WRONG_USE
    assert trace.name in told.err
    assert list(trace.parent.iterdir()) == [trace]


def test_a_file_is_no_folder_and_a_folder_no_file(command: Command, trace: Path) -> None:
    folder, file = trace.with_name("folder"), trace.with_name("file")
    folder.mkdir()
    file.write_text("Dear reader")
    assert "is a folder" in command("export", trace, "--to", "perfetto", "-o", folder).err
    assert "is a file" in command("export", trace, "--to", "csv", "-o", file).err
    assert file.read_text() == "Dear reader"


def test_an_interrupt_leaves_nothing_behind(command: Command, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Watch, n_more: float = 0) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "check", interrupted)
    for form in FORMATS:
        told = command("export", trace, "--to", form, "-o", trace.with_name("out"))
        assert told.exit_code == ExitCode.INTERRUPTED
    assert list(trace.parent.iterdir()) == [trace]


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


@pytest.mark.parametrize("form", FORMATS)
def test_a_place_that_cannot_be_written_is_told_by_the_name_that_was_given(
    command: Command, trace: Path, form: str
) -> None:
    out = trace.with_name("x" * 253)  # the name fits, that of the part beside it does not
    told = command("export", trace, "--to", form, "-o", out, "--json")
    assert told.exit_code == ExitCode.RUN_FAILED
    assert told.json["error"]["message"].startswith("OUT cannot be written here: ")
    assert told.json["error"]["hint"].startswith("Name another ")
    assert ".part" not in told.err
    assert list(trace.parent.iterdir()) == [trace]


@pytest.mark.parametrize("form", ["perfetto", "chrome", "npz"])
def test_a_full_device_is_told_and_an_endless_one_takes_everything(command: Command, trace: Path, form: str) -> None:
    told = command("export", trace, "--to", form, "-o", "/dev/full")
    assert told.exit_code == ExitCode.RUN_FAILED
    assert "OUT cannot be written here: No space left on device (/dev/full)." in told.err
    assert command("export", trace, "--to", form, "-o", "/dev/null").exit_code == ExitCode.DONE


def test_a_pipe_gets_the_export_by_whatever_name(command: Command, trace: Path) -> None:
    whole = trace.with_name("whole.json")
    assert command("export", trace, "--to", "chrome", "-o", whole).exit_code == ExitCode.DONE
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        with os.fdopen(writing, "wb"):
            assert whole.stat().st_size < 64 << 10  # as much as a pipe holds
            assert command("export", trace, "--to", "chrome", "-o", f"/dev/fd/{writing}").exit_code == ExitCode.DONE
        assert json.loads(pipe.read()) == json.loads(whole.read_bytes())


def test_the_output_of_the_command_itself_is_no_place_for_an_export(
    trace: Path,
) -> None:
    line = [sys.executable, "-m", "draftscope", "export", str(trace), "--to", "chrome", "-o", "/dev/stdout"]
    told = subprocess.run(line, capture_output=True, text=True, check=False)
    assert told.returncode == ExitCode.WRONG_USE
    assert told.stdout == ""
    assert "OUT cannot be written here: this command prints there." in told.stderr


def test_a_device_is_no_folder(command: Command, trace: Path) -> None:
    told = command("export", trace, "--to", "csv", "-o", "/dev/null")
    assert told.exit_code == ExitCode.WRONG_USE
    assert "/dev/null is no folder" in told.err
