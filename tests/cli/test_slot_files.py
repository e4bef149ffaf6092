"""``draftscope run`` with slots that come from files and go into files."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.cli.failure import ExitCode
from tests.cli.conftest import Command

FAKE = "fake:model"
PROMPT = "This module provides an object"


def run(command: Command, *arguments: object, n: int = 12) -> object:
    told = command("run", FAKE, "--max-tokens", n, "--temp", 0, "--json", *arguments)
    assert told.exit_code == ExitCode.DONE, told.err
    return told.json


@pytest.fixture
def kept(fake_command: Command, tmp_path: Path) -> Path:
    """A file of a slot that holds the prompt and twelve tokens more."""
    path = tmp_path / "kept.slot"
    run(fake_command, "--prompt", PROMPT, "--save-slot", f"0:{path}")
    return path


def test_a_saved_slot_goes_on_where_it_was_without_any_prompt(fake_command: Command, kept: Path) -> None:
    whole = run(fake_command, "--prompt", PROMPT, n=24)["slots"][0]
    told = run(fake_command, "--restore-slot", f"0:{kept}")
    (slot,) = told["slots"]
    assert whole["text"] == whole["text"][: -len(slot["text"])] + slot["text"]
    assert whole["tokens"][12:] == slot["tokens"]
    assert slot["reuse"] == "kept"
    assert 0 < slot["n_reused"] < slot["n_prompt"]
    assert told["totals"]["n_prompt_processed"] == slot["n_prompt"] - slot["n_reused"]
    (restored,) = told["slot_files"]["restored"]
    assert (restored["slot"], restored["file"], restored["size_bytes"]) == (0, str(kept), kept.stat().st_size)


def test_a_prompt_is_appended_unless_it_begins_with_what_the_slot_holds(fake_command: Command, kept: Path) -> None:
    held = PROMPT + run(fake_command, "--prompt", PROMPT)["slots"][0]["text"]
    appended = run(fake_command, "--restore-slot", f"0:{kept}", "--prompt", " and more")["slots"][0]
    repeated = run(fake_command, "--restore-slot", f"0:{kept}", "--prompt", f"{held} and more")["slots"][0]
    plain = run(fake_command, "--prompt", f"{held} and more")["slots"][0]
    assert appended["text"] == repeated["text"] == plain["text"]
    assert appended["reuse"] == repeated["reuse"] == "kept"
    assert plain["reuse"] == "none"


def test_the_text_that_a_slot_holds_is_printed_before_what_it_adds(fake_command: Command, kept: Path) -> None:
    text = run(fake_command, "--prompt", PROMPT)["slots"][0]["text"]
    arguments = ("run", FAKE, "--max-tokens", 4, "--temp", 0, "--restore-slot", f"0:{kept}")
    told = fake_command(*arguments)
    assert told.out.startswith(PROMPT + text)
    assert "reused" in told.out
    assert "restored    slot 0, " in told.out
    blocks = fake_command(*arguments, "--slots", 2, "--prompt", " on").out
    assert f"{PROMPT}{text} on" in blocks
    assert "\n on" in blocks  # slot 1 has the prompt alone


def test_a_slot_is_restored_into_another_and_the_rest_take_the_prompts(fake_command: Command, kept: Path) -> None:
    told = run(fake_command, "--restore-slot", f"2:{kept}", "--prompt", " on")
    assert [slot["reuse"] for slot in told["slots"]] == ["none", "none", "kept"]


def test_nothing_is_reused_when_told_so(fake_command: Command) -> None:
    prompts = ("--prompt", PROMPT, "--prompt", PROMPT, "--slots", 1)
    assert run(fake_command, *prompts, "--no-reuse")["slots"][1]["reuse"] == "turned_off"
    assert run(fake_command, *prompts)["slots"][1]["reuse"] != "turned_off"


def test_a_save_that_fails_does_not_lose_the_figures(
    fake_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftscope.cli.slot_files.place_of_slot_file", lambda _path: None)  # it seemed to be fine
    told = fake_command("run", FAKE, "--prompt", "a", "--json", "--save-slot", f"0:{tmp_path / 'none' / 'a.slot'}")
    assert told.exit_code == ExitCode.RUN_FAILED
    assert "cannot be written" in told.err
    (saved,) = told.json["slot_files"]["saved"]
    assert "cannot be written" in saved["error"]
    assert told.json["slots"][0]["n_tokens"] > 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none/a.slot", "there is no folder"),
        (".", "is not an ordinary file"),
        ("other.txt", "is there already and is no slot file"),
    ],
)
def test_a_slot_that_could_not_be_saved_is_refused_before_the_run(
    fake_command: Command, tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "other.txt").write_text("mine")
    told = fake_command("run", FAKE, "--prompt", "a", "--json", "--save-slot", f"0:{tmp_path / name}")
    assert told.exit_code == ExitCode.WRONG_USE
    assert words in told.json["error"]["message"]
    assert (tmp_path / "other.txt").read_text() == "mine"


def test_a_file_that_cannot_be_restored_is_bad_input(fake_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.slot"
    path.write_bytes(b"GGUF")
    told = fake_command("run", FAKE, "--prompt", "a", "--restore-slot", f"0:{path}")
    assert told.exit_code == ExitCode.BAD_INPUT
    assert "is no slot file" in told.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--save-slot", "0"), "SLOT:FILE"),
        (("--save-slot", "x:a"), "SLOT:FILE"),
        (("--restore-slot", "-1:a"), "SLOT:FILE"),
        (("--save-slot", "0:a", "--save-slot", "0:b"), "names slot 0 twice"),
        (("--restore-slot", "0:a", "--no-reuse"), "exclude each other"),
        (("--restore-slot", "2:a", "--slots", "2"), "no slot 2 among 2"),
    ],
)
def test_options_that_make_no_sense_are_refused(fake_command: Command, arguments: tuple[str, ...], words: str) -> None:
    told = fake_command("run", FAKE, "--prompt", "a", *arguments)
    assert told.exit_code == ExitCode.WRONG_USE
    assert words in told.err
