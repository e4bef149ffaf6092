"""The dispatch: exit codes, errors in both forms, help, a closed pipe, and no Qt."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from draftscope.cli import main
from draftscope.cli.failure import ExitCode, failure_of
from draftscope.engine.errors import EngineError, ErrorCode

Output = pytest.CaptureFixture[str]


def test_help_names_every_command_and_the_exit_codes(capsys: Output) -> None:
    assert main.run(["--help"]) == ExitCode.DONE
    text = capsys.readouterr().out
    assert all(f"    {name} " in text for name in main.COMMANDS)
    assert "4 engine died" in text


@pytest.mark.parametrize("command", main.COMMANDS)
def test_every_command_has_help_and_takes_json(command: str, capsys: Output) -> None:
    assert main.run([command, "--help"]) == ExitCode.DONE
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [[], ["fly"], ["run"], ["run", "m", "--nothing"], ["run", "m", "--slots", "0"], ["run", "m", "--temp", "x"]],
)
def test_wrong_use_exits_with_2_and_a_sentence_first(arguments: list[str], capsys: Output) -> None:
    assert main.run(arguments) == ExitCode.WRONG_USE
    output = capsys.readouterr()
    assert output.err.splitlines()[0].startswith("draftscope: ")
    assert output.err.splitlines()[0].endswith(".")
    assert output.out == ""


def test_wrong_use_is_told_as_an_object_with_json(capsys: Output) -> None:
    assert main.run(["run", "m.gguf", "--nothing", "--json"]) == ExitCode.WRONG_USE
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "wrong_use"
    assert "--nothing" in error["message"]
    assert set(error) == {"code", "message", "hint"}


def test_options_are_not_abbreviated(capsys: Output) -> None:
    assert main.run(["run", "m.gguf", "--slo", "2"]) == ExitCode.WRONG_USE
    assert "--slo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (EngineError(ErrorCode.BAD_FILE, "x"), 3),
        (EngineError(ErrorCode.UNSUPPORTED_MODEL, "x"), 3),
        (EngineError(ErrorCode.BAD_SETTINGS, "x"), 2),
        (EngineError(ErrorCode.BAD_PROMPT, "x"), 2),
        (EngineError(ErrorCode.OUT_OF_MEMORY, "x"), 1),
        (EngineError(ErrorCode.DECODE_FAILED, "x"), 1),
        (EngineError(ErrorCode.ENGINE_DIED, "x"), 4),
        (KeyboardInterrupt(), 130),
        (PermissionError(13, "Permission denied", "/x"), 1),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error: BaseException, exit_code: int) -> None:
    assert failure_of(error).exit_code == exit_code


def test_an_unexpected_error_shows_its_traceback() -> None:
    try:
        raise ZeroDivisionError("oops")
    except ZeroDivisionError as error:
        failure = failure_of(error)
    assert failure.exit_code == ExitCode.RUN_FAILED
    assert failure.code == "internal"
    assert "oops" in failure.message
    assert "test_main.py" in failure.detail


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], False),
        (["model.gguf"], False),
        (["run"], True),
        (["--version"], True),
        (["doctor", "--json"], True),
        (["bench", "demo"], True),
    ],
)
def test_the_window_and_the_commands_are_told_apart(arguments: list[str], expected: bool) -> None:
    assert main.is_command_line(arguments) is expected


def test_no_command_imports_qt() -> None:
    code = (
        "import sys; from draftscope.cli import main; main.make_parser();"
        "print([m for m in sys.modules if m.split('.')[0] in ('PySide6', 'shiboken6', 'pyqtgraph')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_reader_that_went_away_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "draftscope.cli.main", "info", "demo", "--json"]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert result.returncode == ExitCode.BROKEN_PIPE
    assert result.stderr == ""


@pytest.mark.parametrize("arguments", [["info", "demo"], ["info", "/nowhere", "--json"]])
def test_output_that_cannot_be_written_is_a_failure_and_no_traceback(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "draftscope.cli.main", *arguments]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == ExitCode.RUN_FAILED
    assert result.stderr.startswith("draftscope: ")
    assert "Traceback" not in result.stderr


def test_output_that_was_closed_before_is_no_failure() -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "draftscope.cli.main", "info", "demo"]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (ExitCode.DONE, "")
