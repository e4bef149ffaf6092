"""``draftscope diff``: what it prints, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftscope.cli.failure import ExitCode
from draftscope.trace.tracefile import TraceWriter
from tests.cli.conftest import Command
from tests.trace.compared import run
from tests.trace.synthetic import PIECES


def write(path: Path, factor: float = 1.0, seed: int | None = None, **header: Any) -> Path:
    """A trace file of a made-up run."""
    trace = run(factor, seed)
    with TraceWriter(path, {"program": "test"} | header) as writer:
        writer.append(trace.store.in_order())
        writer.add_pieces(PIECES)
    return path


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return write(tmp_path / "before.dscope")


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    return write(tmp_path / "slower.dscope", 4.0, program="another")


def test_two_equal_runs_show_no_difference(command: Command, before: Path, tmp_path: Path) -> None:
    told = command("diff", before, write(tmp_path / "again.dscope"))
    assert told.exit_code == ExitCode.DONE
    assert "are the same, as far as the files tell" in told.out
    assert "The outputs of all 4 tasks are the same, token for token." in told.out
    assert "All figures are exactly equal." in told.out


def test_differences_come_before_outputs_and_those_before_figures(command: Command, before: Path, slower: Path) -> None:
    out = command("diff", before, slower).out
    assert out.index("build         program") < out.index("The outputs of all") < out.index("tokens per second")
    assert "lower: worse" in out
    assert "\x1b" not in out  # the output is no terminal


def test_json_has_both_sides_with_verdict_and_method(command: Command, before: Path, slower: Path) -> None:
    told = command("diff", before, slower, "--json").json
    assert (told["a"], told["b"]) == ([str(before)], [str(slower)])
    figures = {figure["name"]: figure for figure in told["figures"]}
    speed = figures["tokens_per_second"]
    assert speed["ratio"] == pytest.approx(1 / 4, rel=0.01)
    assert speed["low"] <= speed["ratio"] <= speed["high"] < 1
    assert (speed["verdict"], speed["is_change"], speed["better"]) == ("lower", True, "higher")
    assert figures["acceptance"]["verdict"] == "equal"
    assert told["differences"] == [{"group": "build", "name": "program", "a": "test", "b": "another"}]
    assert "t interval" in told["method"]
    assert told["outputs"]["are_equal"] is True


def test_conditions_decide_the_exit_code(command: Command, before: Path, slower: Path) -> None:
    passed = command("diff", before, slower, "--fail-if", "acceptance<0.95")
    assert passed.exit_code == ExitCode.DONE
    assert "passed  acceptance<0.95: it is 1." in passed.out
    failed = command(
        "diff", before, slower, "--fail-if", "acceptance<0.95", "--fail-if", "tokens_per_second<0.95", "--json"
    )
    assert failed.exit_code == ExitCode.RUN_FAILED
    assert [outcome["has_failed"] for outcome in failed.json["fail_if"]] == [False, True]
    assert "tokens_per_second<0.95: it is 0.25." in failed.err


def test_noise_fails_only_when_that_is_asked_for(command: Command, before: Path, tmp_path: Path) -> None:
    noisy = write(tmp_path / "noisy.dscope", 1.3, seed=4)
    condition = ("--fail-if", "tokens_per_second<0.95")
    assert command("diff", before, noisy, *condition).exit_code == ExitCode.DONE
    assert command("diff", before, noisy, *condition, "--strict").exit_code == ExitCode.RUN_FAILED


def test_unknown_names_and_unreadable_conditions_are_wrong_use(command: Command, before: Path, slower: Path) -> None:
    unknown = command("diff", before, slower, "--fail-if", "speed<1")
    assert unknown.exit_code == ExitCode.WRONG_USE
    assert "There are: outputs_apart" in unknown.err and "restore_us.host" in unknown.err
    assert command("diff", before, slower, "--fail-if", "speed is low").exit_code == ExitCode.WRONG_USE


def test_repeats_are_compared_in_pairs(command: Command, tmp_path: Path) -> None:
    ours = [write(tmp_path / f"a{i}.dscope", 1.0, seed=i) for i in range(6)]
    theirs = [write(tmp_path / f"b{i}.dscope", 1.3, seed=50 + i) for i in range(6)]
    told = command("diff", *ours, "--with", *theirs)
    assert "6 runs on each side, compared in pairs." in told.out
    assert "a0.dscope" in told.out and "and 5 more" in told.out
    assert "lower: worse" in told.out


def test_sides_that_do_not_pair_are_wrong_use(command: Command, before: Path, slower: Path) -> None:
    assert command("diff", before).exit_code == ExitCode.WRONG_USE
    assert command("diff", before, slower, before).exit_code == ExitCode.WRONG_USE
    told = command("diff", before, "--with", slower, slower)
    assert told.exit_code == ExitCode.WRONG_USE
    assert "A has 1 and B has 2 runs" in told.err


def test_a_file_that_is_no_trace_is_a_bad_input(command: Command, before: Path, tmp_path: Path) -> None:
    letter = tmp_path / "letter.dscope"
    letter.write_text("Dear reader")
    assert command("diff", before, letter).exit_code == ExitCode.BAD_INPUT
    assert command("diff", tmp_path / "gone.dscope", before).exit_code == ExitCode.BAD_INPUT


def test_all_shows_equal_figures_too(command: Command, before: Path, tmp_path: Path) -> None:
    out = command("diff", before, write(tmp_path / "again.dscope"), "--all").out
    assert "mean accepted length" in out and "equal" in out
