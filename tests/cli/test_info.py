"""``draftscope info``: what is printed, as text and as JSON, and its exit codes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftscope.cli.main import run


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["info", *arguments, "--json"]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def test_the_demo_is_a_file_like_any_other(capsys: pytest.CaptureFixture[str], demo_model: Path) -> None:
    by_name = _json(capsys, "demo")
    by_path = _json(capsys, str(demo_model))
    assert by_name | {"path": ""} == by_path | {"path": ""}
    assert by_name["can_run"]
    assert by_name["mtp"]["can_draft"]


def test_bytes_follow_slots_context_and_draft_length(capsys: pytest.CaptureFixture[str]) -> None:
    small = _json(capsys, "demo", "--slots", "1", "--ctx", "500", "--draft-max", "1")["prediction"]
    large = _json(capsys, "demo", "--slots", "3", "--ctx", "1500", "--draft-max", "3")["prediction"]
    assert (small["slot"]["n_cells"], large["slot"]["n_cells"]) == (512, 1536)
    assert large["slot"]["recurrent_bytes"] == 2 * small["slot"]["recurrent_bytes"]
    assert large["all_slots_bytes"] == 3 * large["slot"]["total_bytes"]
    assert large["state_bytes_by_way_back"]["host"] == 2 * 430_080


def test_memory_is_told_by_way_back_and_as_it_grows(capsys: pytest.CaptureFixture[str]) -> None:
    state = 430_080
    told = _json(capsys, "demo", "--ctx", "500", "--draft-max", "5")["prediction"]
    ways = {way["way_back"]: way for way in told["by_way_back"]}
    sizes = {name: (way["slot"]["recurrent_bytes"], way["slot"]["checkpoint_bytes"]) for name, way in ways.items()}
    assert sizes[None] == (state, 0)
    assert sizes["rollback"] == (6 * state, 0)
    assert all(size == (state, state) for name, size in sizes.items() if name in ("cow", "device", "host"))
    assert ways["host"]["saved_in"] == "host"
    assert ways[None]["slot"]["draft_kv_bytes"] == 0
    for way in ways.values():
        total = way["slot"]["total_bytes"]
        assert way["all_slots_bytes"] == {"1": total, "2": 2 * total, "4": 4 * total, "8": 8 * total}
    assert told["state_bytes_by_way_back"] == {name: sum(size) for name, size in sizes.items() if name}


def test_what_is_not_predicted_has_no_table(
    capsys: pytest.CaptureFixture[str], made_model: Callable[[str], Path]
) -> None:
    assert run(["info", str(made_model("unknown-architecture"))]) == 0
    assert "by way back" not in capsys.readouterr().out


def test_the_text_names_mtp_layers_ways_back_and_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "demo"]) == 0
    text = capsys.readouterr().out
    for part in ("1 claimed, 1 found", "single head", "rollback    yes", "kv removal  no", "one slot", "all slots"):
        assert part in text


def test_a_file_that_cannot_run_is_described_and_says_why(
    capsys: pytest.CaptureFixture[str], vocab_only_model: Path
) -> None:
    assert run(["info", str(vocab_only_model)]) == 0
    text = capsys.readouterr().out
    assert "cannot be run" in text
    assert "vocabulary only" in text
    facts = _json(capsys, str(vocab_only_model))
    assert not facts["can_run"]
    assert facts["obstacle"]["code"] == "unsupported_model"
    assert facts["prediction"] is None


def test_why_nothing_is_drafted_is_said(capsys: pytest.CaptureFixture[str], made_model: Callable[[str], Path]) -> None:
    assert run(["info", str(made_model("dense"))]) == 0
    assert "no. This file has no MTP layers." in capsys.readouterr().out


@pytest.mark.parametrize("name", ["empty", "truncated", "big-endian", "version-1", "not-gguf", "split-00001-of-00002"])
def test_a_bad_file_ends_with_code_3_and_the_error_object(
    name: str, capsys: pytest.CaptureFixture[str], made_model: Callable[[str], Path]
) -> None:
    assert run(["info", str(made_model(name)), "--json"]) == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "bad_file"
    assert captured.err.startswith("draftscope: ")


@pytest.mark.parametrize("option", [["--slots", "0"], ["--slots", "257"], ["--ctx", "0"], ["--draft-max", "-1"]])
def test_numbers_out_of_range_are_wrong_use(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "demo", *option]) == 2
    assert "out of range" in capsys.readouterr().err


def test_a_hostile_name_cannot_write_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def text(key: bytes, value: bytes) -> bytes:
        return struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value

    nan = struct.pack("<Q", 3) + b"nan" + struct.pack("<If", 6, float("nan"))
    path = tmp_path / "hostile.gguf"
    pairs = [text(b"general.name", b"\x1b[2J\x07evil"), text(b"k\x1b", b"\x1b]0;title\x07"), nan]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))
    assert run(["info", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert "NaN" not in json.dumps(_json(capsys, str(path)))


def test_chained_heads_are_told_with_the_longest_draft_they_make(
    capsys: pytest.CaptureFixture[str], random_step35: Path
) -> None:
    facts = _json(capsys, str(random_step35), "--draft-max", "8")
    assert (facts["mtp"]["family"], facts["mtp"]["n_found"]) == ("chained heads", 3)
    told = facts["prediction"]
    assert told["n_draft_max"] == 3
    assert told["slot"]["draft_kv_bytes"] == told["slot"]["n_cells"] * 3 * 128  # each head keeps its own keys
    assert run(["info", str(random_step35)]) == 0
    assert "3: at most 3 tokens are drafted a round" in capsys.readouterr().out


def test_a_model_that_needs_an_assistant_says_so_and_with_it_what_it_is(
    capsys: pytest.CaptureFixture[str], random_gemma4: tuple[Path, Path]
) -> None:
    target, assistant = (str(path) for path in random_gemma4)
    alone = _json(capsys, target)
    assert alone["can_run"]
    assert not alone["mtp"]["can_draft"]
    assert "--draft-model" in alone["mtp"]["reason"]
    assert alone["prediction"]["n_draft_max"] == 0
    both = _json(capsys, target, "--draft-model", assistant)
    assert both["mtp"]["can_draft"]
    assert (both["mtp"]["family"], both["mtp"]["n_found"]) == ("assistant", 2)
    assert both["draft"]["path"] == assistant
    assert both["draft"]["size_bytes"] == random_gemma4[1].stat().st_size
    assert both["prediction"]["n_draft_max"] == 3
    assert both["prediction"]["slot"]["draft_kv_bytes"] == 0
    assert run(["info", target, "--draft-model", assistant]) == 0
    told = capsys.readouterr().out
    assert "gemma4-assistant.gguf" in told
    assert "the assistant reads those above" in told


def test_an_assistant_says_where_it_belongs(
    capsys: pytest.CaptureFixture[str], random_gemma4: tuple[Path, Path]
) -> None:
    assert run(["info", str(random_gemma4[1])]) == 0
    told = capsys.readouterr().out
    assert "is a draft file: only the MTP head (gemma4-assistant) of another model" in told
    assert "It belongs beside its target" in told
    assert "--draft-model" in told
    assert "Memory for" not in told
    assert "Ways back" not in told


def test_a_pair_that_does_not_belong_together_says_in_what(
    capsys: pytest.CaptureFixture[str], made_model: Callable[[str], Path]
) -> None:
    draft = str(made_model("assistant-of-other-width"))
    facts = _json(capsys, str(made_model("gemma4")), "--draft-model", draft)
    assert not facts["can_run"]
    assert "reads hidden rows of 48 numbers" in facts["obstacle"]["message"]
    assert not facts["mtp"]["can_draft"]
