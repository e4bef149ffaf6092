"""``run`` and ``bench`` with a draft model, on the real engine in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from draftscope.cli.failure import ExitCode

SHORT = ("--prompt", "abc", "--max-tokens", "24", "--temp", "0", "--threads", "1", "--json")


def command(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a command."""
    whole = [sys.executable, "-m", "draftscope.cli.main", *arguments]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout)


def test_a_run_with_an_assistant_drafts_and_writes_what_one_without_writes(random_gemma4: tuple[Path, Path]) -> None:
    target, assistant = (str(path) for path in random_gemma4)
    code, assisted = command("run", target, "--draft-model", assistant, *SHORT)
    assert code == ExitCode.DONE
    assert assisted["speculation"]["family"] == "assistant"
    assert assisted["settings"]["model"]["draft_path"] == assistant
    assert assisted["slots"][0]["draft_n_accepted"] > 0
    code, alone = command("run", target, *SHORT)
    assert code == ExitCode.DONE
    assert "--draft-model" in alone["speculation"]["reason"]
    assert alone["slots"][0]["tokens"] == assisted["slots"][0]["tokens"]


def test_a_bench_with_an_assistant_times_it_against_no_mtp(random_gemma4: tuple[Path, Path]) -> None:
    target, assistant = (str(path) for path in random_gemma4)
    sizes = ("--slots", "1", "--modes", "auto", "--draft-max", "2", "--repeat", "1")
    code, timed = command("bench", target, "--draft-model", assistant, *sizes, *SHORT)
    assert code == ExitCode.DONE
    assert "assistant" in json.dumps(timed)


def test_a_draft_model_that_does_not_fit_is_a_bad_input_file(made_model: Callable[[str], Path]) -> None:
    draft = str(made_model("gemma4-assistant"))
    code, told = command("run", str(made_model("qwen35")), "--draft-model", draft, *SHORT)
    assert code == ExitCode.BAD_INPUT
    assert "does not draft with an assistant" in told["error"]["message"]
    code, told = command("run", draft, *SHORT)
    assert code == ExitCode.BAD_INPUT
    assert "--draft-model" in told["error"]["hint"]
