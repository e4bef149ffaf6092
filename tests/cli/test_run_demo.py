"""``draftscope run demo`` on the real engine: what must hold of the bundled model, with and without drafts."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftscope.cli.failure import ExitCode
from draftscope.engine.events import Kind
from draftscope.engine.probes import ArrayKind
from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile import read_trace

GREEDY = ("--slots", "4", "--max-tokens", "64", "--temp", "0")


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "draftscope.cli.main", *arguments]


@functools.cache
def _run(*arguments: str) -> dict[str, Any]:
    """The output of a run in a process of its own; each set of arguments runs once."""
    done = subprocess.run(_command("run", "demo", *arguments, "--json"), capture_output=True, text=True, timeout=120)
    assert done.returncode == ExitCode.DONE, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def _tokens(output: dict[str, Any]) -> list[list[int]]:
    return [slot["tokens"] for slot in output["slots"]]


def test_four_slots_draft_and_accept() -> None:
    output = _run(*GREEDY)
    assert [slot["slot"] for slot in output["slots"]] == [0, 1, 2, 3]
    for slot in output["slots"]:
        assert slot["draft_n"] > 0
        assert len(slot["accepted_per_position"]) == 3
        assert slot["n_tokens"] <= 64
        assert slot["text"]
    assert output["speculation"]["is_active"]
    assert output["checkpoints"]["mode"] == "rollback"
    assert output["records"]["dropped"] == 0


def test_the_tokens_are_those_without_mtp() -> None:
    plain = _run(*GREEDY, "--no-mtp")
    assert all(slot["draft_n"] == 0 for slot in plain["slots"])
    assert _tokens(_run(*GREEDY)) == _tokens(plain)


def test_host_checkpoints_give_the_same_tokens() -> None:
    output = _run(*GREEDY, "--checkpoint", "host")
    assert output["checkpoints"]["mode"] == "host"
    assert output["checkpoints"]["n_saves"] > 0
    assert output["checkpoints"]["n_restores"] > 0
    assert output["checkpoints"]["bytes_per_slot"] > 0
    assert output["checkpoints"]["save_us"]["n"] == output["checkpoints"]["n_saves"]
    assert output["checkpoints"]["restore_us"]["p99"] >= output["checkpoints"]["restore_us"]["median"] > 0
    assert _tokens(output) == _tokens(_run(*GREEDY))


def test_a_round_is_one_target_decode_and_k_mtp_decodes() -> None:
    decodes = _run(*GREEDY, "--checkpoint", "rollback")["decodes"]
    assert decodes["target"] == decodes["rounds"]
    assert decodes["draft"] == 3 * decodes["rounds"]
    assert (decodes["replay"], decodes["catch_up"]) == (0, 0)
    host = _run(*GREEDY, "--checkpoint", "host")["decodes"]
    assert host["target"] == host["rounds"] + host["replay"]


def test_catch_up_alone_costs_decodes_and_changes_no_token() -> None:
    alone = _run(*GREEDY, "--catch-up", "alone")
    assert alone["decodes"]["catch_up"] > 0
    assert _tokens(alone) == _tokens(_run(*GREEDY))


def test_counting_the_records_gives_the_engines_counts() -> None:
    prompts = [argument for text in ("a", "b", "c") for argument in ("--prompt", text)]
    together = _run(*prompts, "--slots", "3", "--temp", "0", "--max-tokens", "16")
    queued = _run(*prompts, "--slots", "1", "--temp", "0", "--max-tokens", "16")
    assert (together["decodes"]["counted_by"], queued["decodes"]["counted_by"]) == ("engine", "records")
    assert queued["decodes"]["rounds"] == sum(slot["n_rounds"] for slot in queued["slots"])
    assert queued["decodes"]["target"] == queued["decodes"]["rounds"]
    assert queued["decodes"]["draft"] == 3 * queued["decodes"]["rounds"]
    assert _tokens(queued) == _tokens(together)


def test_the_same_prompt_gives_every_slot_the_same() -> None:
    output = _run(*GREEDY, "--prompt", "def main():")
    first = output["slots"][0]
    for slot in output["slots"][1:]:
        assert slot["tokens"] == first["tokens"]
        assert slot["accepted_per_position"] == first["accepted_per_position"]


def test_in_process_gives_the_same() -> None:
    assert _tokens(_run(*GREEDY, "--in-process")) == _tokens(_run(*GREEDY))


@pytest.mark.parametrize("slots", ["1", "4"])
@pytest.mark.parametrize("mode", ["auto", "rollback", "cow", "device", "host"])
def test_every_way_back_gives_the_tokens_of_a_run_without_mtp(mode: str, slots: str) -> None:
    greedy = ("--slots", slots, "--max-tokens", "64", "--temp", "0")
    plain, drafted = _run(*greedy, "--no-mtp"), _run(*greedy, "--checkpoint", mode)
    assert _tokens(drafted) == _tokens(plain)
    assert drafted["checkpoints"]["asked"] == mode
    assert mode in ("auto", drafted["checkpoints"]["mode"])


def test_a_file_that_is_no_model_is_a_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "letter.gguf"
    path.write_text("Dear reader")
    done = subprocess.run(_command("run", str(path), "--prompt", "a", "--json"), capture_output=True, text=True)
    assert done.returncode == ExitCode.BAD_INPUT
    assert json.loads(done.stdout)["error"]["code"] == "bad_file"


@contextlib.contextmanager
def _generating(trace: Path) -> Iterator[subprocess.Popen[str]]:
    """A long run that has generated tokens in every slot; killed when the test leaves it alive."""
    arguments = ("run", "demo", "--max-tokens", "1900", "--ignore-eos", "--json", "--trace", str(trace))
    process = subprocess.Popen(_command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while _n_slots_with_tokens(trace) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


def _n_slots_with_tokens(trace: Path) -> int:
    try:
        return len(np.unique(read_trace(trace).store.kind(Kind.ROUND)["slot"]))
    except TraceError:
        return 0


def test_ctrl_c_prints_what_there_is(tmp_path: Path) -> None:
    with _generating(tmp_path / "run.dscope") as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, err
    output = json.loads(out)
    assert output["is_interrupted"]
    assert {slot["stop"] for slot in output["slots"]} == {"cancelled"}
    assert all(0 < slot["n_tokens"] < 1900 for slot in output["slots"])


def test_an_engine_that_is_killed_is_told_and_the_trace_is_kept(tmp_path: Path) -> None:
    trace = tmp_path / "run.dscope"
    with _generating(trace) as process:
        (engine,) = _children(process.pid)
        os.kill(engine, signal.SIGKILL)
        out, err = process.communicate(timeout=10)
    assert process.returncode == ExitCode.ENGINE_DIED
    assert json.loads(out)["error"]["code"] == "engine_died"
    assert "signal 9 (SIGKILL)" in err.splitlines()[0]
    assert len(read_trace(trace).store.kind(Kind.TOKEN)) > 0


def _children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task")
    return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]


PROMPT = ("--prompt", "class Stack:\n    def push(self, item):\n", "--temp", "0", "--ignore-eos")


@pytest.mark.parametrize("way", ["rollback", "host", "cow"])
def test_a_slot_that_was_saved_goes_on_in_another_slot_of_another_process(tmp_path: Path, way: str) -> None:
    kept = tmp_path / "kept.slot"
    ways = ("--checkpoint", way)
    whole = _run(*PROMPT, *ways, "--slots", "1", "--max-tokens", "48")["slots"][0]
    first = _run(*PROMPT, *ways, "--slots", "1", "--max-tokens", "24", "--save-slot", f"0:{kept}")
    told = _run("--temp", "0", "--ignore-eos", *ways, "--max-tokens", "24", "--restore-slot", f"2:{kept}")
    (rest,) = told["slots"]
    assert rest["slot"] == 2
    assert first["slots"][0]["tokens"] + rest["tokens"] == whole["tokens"]
    assert rest["reuse"] == "kept"
    assert rest["n_prompt"] - rest["n_reused"] <= 2 * (1 + 3)  # what the last rounds left to be decoded, and no prompt
    assert rest["draft_n_accepted"] > 0
    assert told["slot_files"]["restored"][0]["size_bytes"] == kept.stat().st_size


def test_prompts_that_wait_say_what_they_would_say_alone() -> None:
    texts = ["def main():", "In the beginning", "class Stack:", "import sys", "This module provides"]
    prompts = [argument for text in texts for argument in ("--prompt", text)]
    queued = _run(*prompts, "--slots", "2", "--max-tokens", "20", "--temp", "0")
    alone = [_run("--prompt", text, "--slots", "1", "--max-tokens", "20", "--temp", "0") for text in texts]
    assert [slot["prompt"] for slot in queued["slots"]] == [0, 1, 2, 3, 4]
    assert _tokens(queued) == [output["slots"][0]["tokens"] for output in alone]


def test_that_what_slots_keep_is_as_asked_for_and_a_context_that_cannot_shift_says_why() -> None:
    command = _command("run", "demo", "--prompt", "In", "--max-tokens", "2", "--context-shift", "--prompt-cache", "7")
    command += ["--prompt-checkpoints", "5", "--prompt-checkpoint-spacing", "64", "--no-hooks"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "full slots  end: The model has recurrent layers" in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120)
    context = json.loads(done.stdout)["settings"]["context"]
    kept = ("prompt_checkpoints_mib", "prompt_checkpoint_spacing", "prompt_cache_mib", "use_hooks", "shift")
    assert [context[name] for name in kept] == [5, 64, 7, False, True]


@pytest.mark.parametrize("level", ["hidden", "logits", "state"])
def test_probed_runs_write_the_same_and_sum_up_what_was_found(level: str) -> None:
    plain, probed = _run(*GREEDY), _run(*GREEDY, "--probe", level)
    assert _tokens(probed) == _tokens(plain)
    assert plain["probes"] is None
    probes = probed["probes"]
    assert (probes["level"], probed["settings"]["probe"]) == (level, level)
    assert set(probes["verdicts"]["by_verdict"]) <= {"equal", "rounding"}
    assert probes["verdicts"]["n_differing"] == 0 < probes["n"]
    assert probes["by_kind"] == {"rejection": probes["n"]}
    assert probes["rows_in_use"]["n"] == probes["rows_in_use"]["n_right"] > 50
    assert probes["cost"]["probed_ms"] > 0
    assert 0 < probes["cost"]["share"] < 1
    assert probes["n_dropped"] == probes["n_not_kept"] == 0


def test_the_table_of_a_probed_run_says_what_was_found_and_what_it_took() -> None:
    command = _command("run", "demo", *GREEDY, "--probe", "state")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == ExitCode.DONE, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("probes ")]
    assert "restores at level state: all equal; took " in line
    assert re.search(r"(\d+) of \1 drafts from the right row", done.stdout)


def test_the_trace_of_a_probed_run_holds_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "probed.dscope"
    command = _command("run", "demo", *GREEDY, "--probe", "state", "--trace", str(path), "--json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == ExitCode.DONE, done.stderr
    store = read_trace(path).store
    assert len(store.probes) == json.loads(done.stdout)["probes"]["n"] > 20
    assert {ArrayKind.ROWS, ArrayKind.LAYERS, ArrayKind.DRAFT_TOKENS} <= {array.kind for array in store.arrays()}
