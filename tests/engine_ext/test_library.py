"""The library beneath: one copy, our patches in it, and fewer modes without them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from draftscope.engine import events
from draftscope.engine.errors import EngineError
from draftscope.engine.library import core, engine_facts
from draftscope.engine.protocol import CheckpointMode, ContextSettings
from tests.engine_ext.harness import TEXTS, Bench, open_bench, run, token_prompts

ROOT = Path(__file__).parents[2]


def test_that_one_copy_of_libllama_is_mapped() -> None:
    maps = Path("/proc/self/maps").read_text().splitlines()
    copies = {line.split()[-1] for line in maps if "/libllama.so" in line}
    assert copies == {engine_facts().library}


def test_that_records_have_the_layout_of_the_column_table() -> None:
    assert core.record_layout() == {
        name: events.RECORD_DTYPE.fields[name][1] for name in events.RECORD_DTYPE.names or ()
    }
    assert events.RECORD_DTYPE.itemsize == 64


def test_that_no_staging_symbol_is_missing() -> None:
    assert engine_facts().missing_symbols == ()


def test_that_patch_1_gives_qwen3next_native_rollback(random_qwen3next: Path) -> None:
    # Fails without engine_ext/llama/patches/0001: the library then clamps n_rs_seq to 0 and host checkpoints step in.
    asked = ContextSettings(checkpoint=CheckpointMode.ROLLBACK, n_threads=1)
    done = run(random_qwen3next, token_prompts(4), asked, max_tokens=96)
    assert done.report.is_patched
    assert (done.report.way_back.granted, done.report.way_back.n_rs_seq_granted) == ("rollback", 3)
    assert done.counts.target == done.counts.rounds


def test_that_plain_attention_needs_no_checkpoints_whatever_was_asked(random_glm4moe: Path) -> None:
    done = run(random_glm4moe, token_prompts(2), ContextSettings(checkpoint=CheckpointMode.HOST, n_threads=1))
    assert done.report.way_back.granted == "kv_removal"
    assert done.checkpoints.n_saves == 0


def test_that_a_model_without_mtp_runs_and_says_why_nothing_is_drafted(dense_model: Path) -> None:
    done = run(dense_model, token_prompts(4))
    assert not done.report.speculation.is_active
    assert "no MTP layers" in done.report.speculation.reason
    assert done.counts.draft == 0
    assert all(len(tokens) == 64 for tokens in done.tokens)


def test_that_a_model_whose_mtp_layers_cannot_be_used_runs_without_them(made_model: Callable[[str], Path]) -> None:
    model = made_model("two-mtp-layers")
    with pytest.raises(EngineError, match="drives exactly one"):
        run(model, token_prompts(1))
    done = run(model, token_prompts(2), ContextSettings(use_mtp=False, n_threads=1))
    assert all(len(tokens) == 64 for tokens in done.tokens)
    with open_bench(model, ContextSettings(n_slots=1, use_mtp=False, n_threads=1)) as bench:
        again = bench.backend.configure(ContextSettings(n_slots=1, n_threads=1))  # asks for what was not loaded
    assert not again.speculation.is_active
    assert "drives exactly one" in again.speculation.reason


def test_that_mtp_turned_off_says_so(demo_model: Path) -> None:
    off = run(demo_model, TEXTS[:1], ContextSettings(use_mtp=False, n_threads=1))
    assert off.report.speculation.reason == "MTP is turned off."
    zero = run(demo_model, TEXTS[:1], ContextSettings(n_draft_max=0, n_threads=1))
    assert zero.report.speculation.reason == "The draft length is 0."
    assert zero.tokens == off.tokens


STOCK_RUN = """
import dataclasses, json, sys
from pathlib import Path
from draftscope.engine.errors import EngineError
from draftscope.engine.library import engine_facts
from draftscope.engine.protocol import ContextSettings
from tests.engine_ext.harness import run, token_prompts
files = {"draft_path": sys.argv[2]} if len(sys.argv) > 2 else {}
done = run(Path(sys.argv[1]), token_prompts(4), ContextSettings(n_threads=1), max_tokens=96, **files)
maps = Path("/proc/self/maps").read_text().splitlines()
print(json.dumps({
    "tokens": done.tokens,
    "report": dataclasses.asdict(done.report),
    "saves": done.checkpoints.n_saves,
    "accepted": sum(result.draft_n_accepted for result in done.results),
    "libraries": sorted({line.split()[-1] for line in maps if "/libllama.so" in line}),
}))
"""


def run_on_stock_package(*files: Path | None) -> dict[str, object]:
    """A run on the unpatched library in a process of its own: with a model, and the assistant where there is one."""
    site = os.environ.get("DRAFTSCOPE_STOCK_SITE")
    if not site:
        pytest.fail(
            "DRAFTSCOPE_STOCK_SITE is not set: run the tests through 'make test', which builds the stock package."
        )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((site, str(ROOT)))}
    command = [sys.executable, "-c", STOCK_RUN, *(str(path) for path in files if path)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    outcome: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    assert outcome["libraries"] == [str(Path(site) / "llama_cpp" / "lib" / "libllama.so")]
    return outcome


def test_that_the_stock_package_saves_states_for_qwen3next_with_the_same_text(
    random_qwen3next: Path,
) -> None:
    drafted = run_on_stock_package(random_qwen3next)
    report = drafted["report"]
    assert isinstance(report, dict)
    assert not report["is_patched"]
    assert (report["way_back"]["granted"] in ("cow", "device", "host"), report["way_back"]["n_rs_seq_granted"]) == (
        True,
        0,
    )
    rollback = report["way_back"]["calibration"][0]
    assert (rollback["mechanism"], rollback["is_available"]) == ("rollback", False)
    assert "no native rollback" in rollback["why"]
    assert isinstance(drafted["saves"], int) and drafted["saves"] > 0
    here = run(random_qwen3next, token_prompts(4), ContextSettings(n_threads=1), max_tokens=96)
    assert [tuple(tokens) for tokens in drafted["tokens"]] == here.tokens  # type: ignore[union-attr]
    assert isinstance(drafted["accepted"], int) and drafted["accepted"] > 0


def test_that_an_engine_that_goes_down_with_an_error_does_not_hide_it(random_qwen35: Path) -> None:
    def loaded() -> Bench:
        bench = Bench()
        bench.load(random_qwen35, ContextSettings(n_threads=1))
        return bench

    # The only reference is that of the unfinished list, which is freed while the error is on its way.
    with pytest.raises(ZeroDivisionError):
        [loaded() for divisor in (1, 0) if 1 / divisor]


ENUMS = ("Kind", "Phase", "Origin", "Mechanism", "SlotState", "StopReason", "FallbackReason", "Operation", "Reuse")


@pytest.mark.parametrize("name", ENUMS)
def test_that_the_core_numbers_its_records_as_the_contract_does(name: str) -> None:
    text = (ROOT / "engine_ext" / "core" / "records.h").read_text()
    body = re.search(rf"enum class {name} : uint8_t {{([^}}]*)}}", text)
    assert body is not None
    pairs = re.findall(r"(\w+) = (\d+)", body[1])
    in_core = {re.sub(r"(?<!^)(?=[A-Z])", "_", word).upper(): int(number) for word, number in pairs}
    assert in_core == {member.name: member.value for member in getattr(events, name)}
