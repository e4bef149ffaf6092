"""``draftscope run`` on the fake engine: options, forms of output, errors, traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftscope.cli.failure import ExitCode
from draftscope.engine.events import Kind, Operation
from draftscope.trace.tracefile import read_trace
from tests.cli.conftest import Command

FAKE = "fake:model"


def test_a_run_prints_every_key_that_scripts_rely_on(fake_command: Command) -> None:
    told = fake_command("run", FAKE, "--prompt", "a", "--slots", "2", "--max-tokens", "8", "--json")
    assert told.exit_code == ExitCode.DONE
    assert set(told.json) == {
        "model",
        "settings",
        "slots",
        "checkpoints",
        "memory",
        "decodes",
        "speculation",
        "fallbacks",
        "probes",
        "records",
        "totals",
        "slot_files",
        "is_interrupted",
    }
    assert [slot["slot"] for slot in told.json["slots"]] == [0, 1]
    assert all(slot["draft_n"] > 0 and slot["accepted_per_position"] for slot in told.json["slots"])
    assert told.json["records"]["n"] > 0


def test_the_figures_agree_with_the_counts(fake_command: Command) -> None:
    slots = fake_command("run", FAKE, "--prompt", "a", "--max-tokens", "20", "--json").json["slots"]
    for slot in slots:
        assert slot["n_tokens"] == len(slot["tokens"])
        assert slot["acceptance"] == pytest.approx(slot["draft_n_accepted"] / slot["draft_n"])
        assert sum(slot["accepted_per_position"]) == slot["draft_n_accepted"]
        assert slot["mean_accepted_length"] == pytest.approx(1 + slot["draft_n_accepted"] / slot["n_rounds"])


def test_a_single_task_is_streamed_as_its_text(fake_command: Command) -> None:
    arguments = ("run", FAKE, "--prompt", "Begin", "--slots", "1", "--max-tokens", "12")
    text = fake_command(*arguments, "--json").json["slots"][0]["text"]
    told = fake_command(*arguments)
    assert told.out.startswith(f"Begin{text}\n\n")
    assert "tok/s" in told.out


def test_several_tasks_are_printed_in_blocks(fake_command: Command) -> None:
    told = fake_command("run", FAKE, "--prompt", "a", "--prompt", "b", "--max-tokens", "4")
    assert "--- slot 0, prompt 1 of 2" in told.out
    assert "--- slot 1, prompt 2 of 2" in told.out


def test_more_prompts_than_slots_are_all_run(fake_command: Command) -> None:
    prompts = [argument for text in "abcde" for argument in ("--prompt", text)]
    told = fake_command("run", FAKE, *prompts, "--slots", "2", "--max-tokens", "6", "--json")
    assert [slot["prompt"] for slot in told.json["slots"]] == [0, 1, 2, 3, 4]
    assert {slot["slot"] for slot in told.json["slots"]} == {0, 1}
    assert told.json["decodes"]["counted_by"] == "records"


def test_without_mtp_nothing_is_drafted_and_the_reason_is_told(fake_command: Command) -> None:
    told = fake_command("run", FAKE, "--prompt", "a", "--max-tokens", "6", "--no-mtp", "--json")
    assert told.json["slots"][0]["draft_n"] == 0
    assert not told.json["speculation"]["is_active"]
    assert told.json["speculation"]["reason"]


def test_where_catch_up_and_replays_go_is_passed_on(fake_command: Command) -> None:
    arguments = ("run", FAKE, "--prompt", "a", "--max-tokens", "4", "--json")
    context = fake_command(*arguments).json["settings"]["context"]
    assert (context["catch_up"], context["replay"]) == ("ride", "measured")
    context = fake_command(*arguments, "--catch-up", "alone", "--replay", "ride").json["settings"]["context"]
    assert (context["catch_up"], context["replay"]) == ("alone", "ride")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--prompt", "a", "--rpc", "127.0.0.1"), "does not name an RPC server"),
        (("--prompt", "a", "--rpc", "[::1]:50052"), "IPv4"),
        (("--prompt", "a", "--rpc", "gpu:50052", "--rpc", "gpu:99999"), "'gpu:99999' is not a number from 1 to 65535"),
        ((), "nothing to generate from"),
        (("--prompt", "a", "--prompts", "f.jsonl"), "exclude each other"),
        (("--prompt", ""), "empty"),
        (("--prompts", "f.jsonl", "--chat"), "--chat needs --prompt"),
        (("--prompt", "a", "--trace", "/no/such/folder/x.dscope"), "does not exist"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_loaded(
    fake_command: Command, arguments: tuple[str, ...], sentence: str
) -> None:
    told = fake_command("run", FAKE, *arguments, "--json")
    assert told.exit_code == ExitCode.WRONG_USE
    assert sentence in told.json["error"]["message"]
    assert sentence in told.err.splitlines()[0]


def test_a_prompts_file_that_is_missing_is_a_bad_input(fake_command: Command, tmp_path: Path) -> None:
    assert fake_command("run", FAKE, "--prompts", tmp_path / "none.jsonl").exit_code == ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    ("option", "text", "key"),
    [
        ("--grammar", 'root ::= "yes"', "grammar"),
        ("--grammar-file", 'root ::= "yes" # or not\n', "grammar"),
        ("--json-schema", "{}", "json_schema"),
        ("--json-schema-file", '{"type": "string"}', "json_schema"),
    ],
)
def test_a_grammar_or_schema_is_taken_as_text_or_file_and_goes_before_that_of_a_prompts_file(
    fake_command: Command, tmp_path: Path, option: str, text: str, key: str
) -> None:
    prompts, file = tmp_path / "prompts.jsonl", tmp_path / "form"
    prompts.write_text('{"text": "a", "grammar": "root ::= [ab]"}\n{"text": "b"}\n', encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    value = file if option.endswith("file") else text
    told = fake_command("run", FAKE, "--prompts", prompts, "--max-tokens", 4, "--json", option, value)
    forms = [{name: prompt[name] for name in ("grammar", "json_schema")} for prompt in told.json["settings"]["prompts"]]
    assert forms == [{"grammar": "", "json_schema": ""} | {key: text}] * 2


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["--grammar", "root ::= x"], ExitCode.WRONG_USE, "--grammar cannot be used: Line 1, column 10"),
        (["--json-schema", "[]"], ExitCode.WRONG_USE, "--json-schema cannot be used: A JSON schema is an object"),
        (["--grammar", ""], ExitCode.WRONG_USE, "--grammar is empty"),
        (["--grammar", 'root ::= "a"', "--json-schema", "{}"], ExitCode.WRONG_USE, "exclude each other"),
        (["--grammar-file", "/nowhere.gbnf"], ExitCode.BAD_INPUT, "/nowhere.gbnf cannot be read"),
        (["--json-schema-file", "BAD"], ExitCode.BAD_INPUT, "BAD cannot be used: It is not JSON"),
        (["--json-schema", '{"type": "colour"}'], ExitCode.WRONG_USE, "The JSON schema of slot 0 cannot be used"),
    ],
)
def test_a_grammar_or_schema_of_no_use_is_refused(
    fake_command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    exit_code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("BAD").write_text("{", encoding="utf-8")
    told = fake_command("run", FAKE, "--prompt", "a", *arguments)
    assert told.exit_code == exit_code
    assert says in told.err


def test_a_failed_load_is_told(fake_command: Command) -> None:
    told = fake_command("run", "fake:fail-load", "--prompt", "a", "--json")
    assert told.exit_code in (ExitCode.RUN_FAILED, ExitCode.BAD_INPUT)
    assert told.json["error"]["message"]


def test_a_slot_that_fails_fails_the_run_and_the_others_are_told(fake_command: Command) -> None:
    told = fake_command("run", FAKE, "--prompt", "a", "--prompt", "fake:fail", "--max-tokens", "8", "--json")
    assert told.exit_code == ExitCode.RUN_FAILED
    assert [slot["stop"] for slot in told.json["slots"]] == ["max_tokens", "failed"]
    assert told.err.startswith("draftscope: slot 1 failed: ")


def test_an_engine_that_dies_while_it_loads_is_told(fake_command: Command) -> None:
    told = fake_command("run", "fake:die-in-load", "--prompt", "a", "--json")
    assert told.exit_code == ExitCode.ENGINE_DIED
    assert told.json["error"]["code"] == "engine_died"


def test_a_trace_is_kept_when_the_engine_dies(fake_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.dscope"
    told = fake_command("run", FAKE, "--prompt", "a", "--prompt", "fake:die", "--trace", path)
    assert told.exit_code == ExitCode.ENGINE_DIED
    assert read_trace(path).header["program"].startswith("draftscope ")


def test_a_trace_holds_the_run(fake_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.dscope"
    told = fake_command("run", FAKE, "--prompt", "a", "--max-tokens", "8", "--trace", path, "--json")
    trace = read_trace(path)
    assert trace.is_complete
    assert trace.store.n_records == told.json["records"]["n"]
    assert [result["tokens"] for result in trace.results] == [slot["tokens"] for slot in told.json["slots"]]
    assert trace.header["settings"] == told.json["settings"]
    assert trace.pieces.text(told.json["slots"][0]["tokens"]) != ""
    assert trace.header["build"]["draftscope"] and trace.header["machine"]["n_processors"] > 0
    assert trace.header["clock"]["unix_ns"] > 0
    assert {kind for _, kind, _, _ in trace.memory} >= {use["kind"] for use in trace.header["model"]["memory"]}


def test_a_trace_without_text_tells_times_and_counts_alone(fake_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.dscope"
    prompt = "a hidden purpose"
    told = fake_command("run", FAKE, "--prompt", prompt, "--max-tokens", "8", "--trace", path, "--no-text", "--json")
    trace = read_trace(path)
    assert trace.store.n_records == told.json["records"]["n"]
    assert prompt.encode() not in path.read_bytes()
    assert "text" not in trace.results[0] and len(trace.pieces) == 0
    assert trace.header["settings"]["prompts"][0]["sampling"] == told.json["settings"]["prompts"][0]["sampling"]


def test_a_trace_without_text_has_no_grammar_and_no_schema(fake_command: Command, tmp_path: Path) -> None:
    path, prompts = tmp_path / "run.dscope", tmp_path / "prompts.jsonl"
    lines = [{"text": "a", "grammar": 'root ::= "purloined"'}, {"text": "b", "json_schema": '{"const": "purloined"}'}]
    prompts.write_text("\n".join(json.dumps(line) for line in lines))
    arguments = ("run", FAKE, "--prompts", prompts, "--max-tokens", "4", "--trace", path)
    fake_command(*arguments)
    assert b"purloined" in path.read_bytes()
    assert "purloined" in read_trace(path).header["settings"]["prompts"][0]["grammar"]
    fake_command(*arguments, "--no-text")
    assert b"purloined" not in path.read_bytes()
    assert read_trace(path).header["settings"]["prompts"][1]["max_tokens"] == 4


def test_a_trace_has_the_saves_of_slots_after_the_run(fake_command: Command, tmp_path: Path) -> None:
    path, kept = tmp_path / "run.dscope", tmp_path / "kept.slot"
    arguments = ("--prompt", "a", "--max-tokens", "8", "--trace", path, "--save-slot", f"0:{kept}", "--json")
    told = fake_command("run", FAKE, *arguments)
    assert told.exit_code == ExitCode.DONE, told.err
    assert kept.exists()
    trace = read_trace(path)
    assert trace.is_complete and trace.store.n_records == told.json["records"]["n"]
    assert Operation.SLOT_SAVE in trace.store.kind(Kind.OPERATION)["code"].tolist()


def test_a_trace_does_not_replace_a_file_that_is_none(fake_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader")
    told = fake_command("run", FAKE, "--prompt", "a", "--max-tokens", "8", "--trace", path)
    assert told.exit_code == ExitCode.WRONG_USE
    assert path.read_text() == "Dear reader"


def test_a_prompts_file_sets_the_sampling_and_options_go_before_it(fake_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    line = {"text": "a", "sampling": {"temperature": 0.5, "seed": 3}, "max_tokens": 7}
    path.write_text(json.dumps(line))
    told = fake_command("run", FAKE, "--prompts", path, "--temp", "0", "--json")
    prompt = told.json["settings"]["prompts"][0]
    assert prompt["sampling"]["temperature"] == 0.0
    assert prompt["sampling"]["seed"] == 3
    assert prompt["max_tokens"] == 7
