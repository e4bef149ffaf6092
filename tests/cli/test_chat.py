"""``draftscope chat`` on the scripted engine: every command, and what a pipe gets."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftscope.cli.chat_commands import CHAT_COMMANDS, parse_line
from draftscope.cli.chat_lines import PipedLines
from draftscope.cli.failure import ExitCode, UsageError
from draftscope.engine.dialogue import Dialogue
from draftscope.engine.dialogue_file import load_dialogue
from draftscope.engine.events import Kind
from draftscope.trace.tracefile import read_trace
from tests.cli.conftest import Command, Told

Chat = Callable[..., Told]


@pytest.fixture
def chat(fake_command: Command, monkeypatch: pytest.MonkeyPatch) -> Chat:
    """Pipe lines into a chat: ``chat(["hello"], "--json")``."""

    def run(lines: list[str], *options: object, model: str = "fake:model") -> Told:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return fake_command("chat", model, "--max-tokens", "12", *options)

    return run


def turns(told: Told) -> list[dict[str, Any]]:
    """The objects that were printed, one a line."""
    return [json.loads(line) for line in told.out.splitlines()]


def said(turn: dict[str, Any]) -> list[tuple[str, str]]:
    """Roles and texts of a turn's messages."""
    return [(message["role"], message["content"]) for message in turn["messages"]]


def test_every_line_is_answered_on_stdout(chat: Chat) -> None:
    told = chat(["why do stars dance?", "", "tell a story"])
    assert told.exit_code == ExitCode.DONE, told.err
    assert len([line for line in told.out.split("\n") if line.strip()]) >= 2
    assert told.err == ""


def test_each_turn_goes_on_from_the_ones_before(chat: Chat) -> None:
    first, second = turns(chat(["one", "two"], "--json", "--system", "Be short."))
    assert said(first)[:2] == [("system", "Be short."), ("user", "one")]
    assert said(first)[2] == ("assistant", first["text"])
    assert said(second)[:4] == [*said(first), ("user", "two")]
    assert second["n_prompt"] > first["n_prompt"]
    assert (first["turn"], first["operation"], second["turn"]) == (1, "say", 2)
    assert len(first["tokens"]) == first["n_tokens"] == 12
    assert {"draft_n", "draft_n_accepted", "acceptance", "tokens_per_second", "n_reused", "stop"} <= set(first)
    assert "prompt" not in first


def test_another_answer_takes_another_seed(chat: Chat) -> None:
    first, again, third = turns(chat(["one", "/regenerate", "/regenerate"], "--json", "--temp", "1"))
    assert said(again)[:-1] == said(first)[:-1]
    assert len(said(third)) == 2
    assert len({turn["text"] for turn in (first, again, third)}) > 1
    assert [turn["operation"] for turn in (first, again, third)] == ["say", "regenerate", "regenerate"]


def test_an_edit_drops_what_followed_and_back_brings_it_back(chat: Chat) -> None:
    told = chat(["one", "two", "/edit 1 other", "/back"], "--json")
    _, second, edited, back = turns(told)
    assert [text for role, text in said(edited) if role == "user"] == ["other"]
    assert said(back) == said(second)


def test_deleting_clearing_and_the_system_prompt(chat: Chat) -> None:
    lines = ["/system Be short.", "one", "two", "/delete", "/show", "/clear", "/show", "/system -", "/system", "three"]
    _, _, deleted, cleared, system, last = turns(chat(lines, "--json"))
    assert [text for role, text in said(deleted) if role != "assistant"] == ["Be short.", "one"]
    assert said(cleared) == [("system", "Be short.")]
    assert system == {"system": ""}
    assert said(last)[0] == ("user", "three")


def test_a_conversation_is_saved_and_gone_on_with(chat: Chat, tmp_path: Path) -> None:
    kept, copy = tmp_path / "a.json", tmp_path / "b.json"
    (first,) = turns(chat(["one", f"/save {copy}"], "--json", "--save", kept))
    assert json.loads(kept.read_text()) == json.loads(copy.read_text()) == {"messages": first["messages"]}
    (second,) = turns(chat(["two"], "--json", "--load", kept))
    assert said(second)[:3] == [*said(first), ("user", "two")]
    shown, third = turns(chat([f"/load {kept}", "three"], "--json"))
    assert said(shown) == said(first)
    assert said(third)[:3] == [*said(first), ("user", "three")]


def test_what_run_reads_a_chat_has_written(chat: Chat, fake_command: Command, tmp_path: Path) -> None:
    kept = tmp_path / "talk.json"
    chat(["one"], "--save", kept)
    lines = tmp_path / "prompts.jsonl"
    lines.write_text(json.dumps(json.loads(kept.read_text())))
    told = fake_command("run", "fake:model", "--prompts", lines, "--max-tokens", "4", "--json")
    assert told.exit_code == ExitCode.DONE


def test_stats_add_up(chat: Chat) -> None:
    first, second, stats = turns(chat(["one", "two", "/stats"], "--json"))
    assert stats["stats"]["n_answers"] == 2
    for key in ("n_prompt", "n_tokens", "draft_n", "draft_n_accepted"):
        assert stats["stats"][key] == first[key] + second[key]
    assert stats["stats"]["n_ctx_used"] == second["n_prompt"] + second["n_tokens"]


def test_stats_for_a_person_have_a_row_an_answer(chat: Chat) -> None:
    told = chat(["one", "two", "/stats"])
    rows = told.err.splitlines()
    assert rows[0].split()[:3] == ["answer", "prompt", "reused"]
    assert [row.split()[0] for row in rows[1:]] == ["1", "2", "context"]


def test_show_numbers_the_messages(chat: Chat) -> None:
    told = chat(["one", "two", "/show"], "--system", "Be short.")
    assert told.err.startswith("system: Be short.\n1> one\n")
    assert "\n2> two\n" in told.err


def test_help_lists_every_command(chat: Chat) -> None:
    told = chat(["/help"])
    assert all(f"/{row.name}" in told.err for row in CHAT_COMMANDS)


def test_quit_ends_before_the_rest(chat: Chat) -> None:
    assert len(turns(chat(["one", "/quit", "two"], "--json"))) == 1


def test_a_trace_holds_every_turn(chat: Chat, tmp_path: Path) -> None:
    path = tmp_path / "talk.dscope"
    done = turns(chat(["one", "two"], "--json", "--trace", path))
    trace = read_trace(path)
    assert [result["prompt_content"]["messages"][-1]["content"] for result in trace.results] == ["one", "two"]
    rounds = trace.store.kind(Kind.ROUND)["round"]
    assert len(set(rounds.tolist())) == sum(turn["n_rounds"] for turn in done)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("/nonsense", "no command /nonsense"),
        ("/clear all", "takes no argument"),
        ("/save", "needs FILE"),
        ("/edit x", "no message's number"),
        ("/edit 2 text", "no message 2"),
        ("/edit 1", "needs the new text"),
        ("/back", "no earlier version"),
        ("/load nowhere.json", "cannot be read"),
    ],
)
def test_a_line_that_cannot_be_done_ends_a_pipe_with_its_number(chat: Chat, line: str, reason: str) -> None:
    told = chat(["one", line, "two"])
    assert told.exit_code == ExitCode.WRONG_USE
    assert told.err.startswith("draftscope: Line 2: ")
    assert reason in told.err


def test_a_conversation_that_cannot_be_saved_is_a_failure_and_no_wrong_use(chat: Chat, tmp_path: Path) -> None:
    told = chat(["one", f"/save {tmp_path / 'no' / 'such'}"])
    assert told.exit_code == ExitCode.RUN_FAILED
    assert told.err.startswith("draftscope: Line 2: The conversation could not be saved")


def test_an_error_is_an_object_on_a_line_as_turns_are(chat: Chat) -> None:
    answered, failed = turns(chat(["one", "/nonsense"], "--json"))
    assert answered["turn"] == 1
    assert failed["error"]["message"] == "Line 2: There is no command /nonsense."


def test_ends_are_named_as_in_the_window(chat: Chat) -> None:
    told = chat(["one", "/stats"], "--ignore-eos")
    assert told.err.splitlines()[-2].endswith("  token limit")


def test_a_prompt_that_does_not_fit_is_refused(chat: Chat) -> None:
    told = chat(["word " * 3_000], "--json")
    assert told.exit_code == ExitCode.WRONG_USE
    assert json.loads(told.out)["error"]["code"] == "bad_prompt"


def test_an_engine_that_dies_ends_the_chat_with_its_code_and_keeps_what_was_said(chat: Chat, tmp_path: Path) -> None:
    kept = tmp_path / "talk.json"
    dialogue = {"messages": [{"role": "user", "content": "fake:die"}], "is_plain": True}
    start = tmp_path / "start.json"
    start.write_text(json.dumps(dialogue))
    told = chat(["/regenerate"], "--load", start, "--save", kept)
    assert told.exit_code == ExitCode.ENGINE_DIED


def test_folders_that_are_missing_are_told_before_anything_is_loaded(chat: Chat, tmp_path: Path) -> None:
    for option in ("--save", "--trace"):
        told = chat(["one"], option, tmp_path / "no" / "such")
        assert told.exit_code == ExitCode.WRONG_USE
        assert f"for {option} does not exist" in told.err


def test_a_file_that_is_no_conversation_is_a_bad_input(chat: Chat, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    assert chat(["one"], "--load", path).exit_code == ExitCode.BAD_INPUT


def test_a_grammar_that_cannot_be_used_is_refused_before_anything_is_loaded(chat: Chat) -> None:
    told = chat(["one"], "--grammar", " ")
    assert told.exit_code == ExitCode.WRONG_USE
    assert "--grammar" in told.err


def test_a_slash_is_doubled_to_be_said() -> None:
    assert parse_line("//etc is a folder") == ("", "/etc is a folder")
    assert parse_line("/edit 2 a b") == ("edit", "2 a b")
    with pytest.raises(UsageError):
        parse_line("/")


def test_a_backslash_at_the_end_goes_on_in_the_next_line() -> None:
    lines = PipedLines(io.StringIO("def f():\\\n    pass\r\n\n  \nlast\\"))
    assert lines.next() == "def f():\n    pass"
    assert lines.place == "Line 1: "
    assert lines.next() == "last"
    assert lines.place == "Line 5: "
    assert lines.next() is None


def test_a_model_without_a_template_goes_on_from_the_text(chat: Chat, tmp_path: Path) -> None:
    kept = tmp_path / "talk.json"
    told = chat(["Once ", "upon "], "--json", "--save", kept, model="fake:no-template")
    first, second = turns(told)
    assert "no chat template" in told.err
    again = Dialogue()
    load_dialogue(again, kept)
    assert again.prompt().text == f"Once {first['text']}upon {second['text']}"
