"""Recorded runs of a real engine compared: equal ones, and ways back against each other beside what bench measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftscope.cli.failure import ExitCode
from draftscope.engine.events import Kind
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.checkpoints import CheckpointTable
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile import read_trace
from tests.cli.conftest import Command

_TIMED = ("µs", "tok/s")


def figures(told: Any) -> dict[str, dict[str, Any]]:
    """Figures of ``diff --json`` by name."""
    return {figure["name"]: figure for figure in told["figures"]}


def test_two_equal_runs_of_the_demo_show_no_difference(command: Command, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.dscope" for name in "ab"]
    for path in paths:
        told = command(
            "run", "demo", "--slots", 4, "--max-tokens", 64, "--temp", 0, "--checkpoint", "rollback", "--trace", path
        )
        assert told.exit_code == ExitCode.DONE
    told = command("diff", *paths, "--json", "--fail-if", "outputs_apart>0", "--fail-if", "differences>0")
    assert told.exit_code == ExitCode.DONE, told.err
    assert told.json["outputs"]["n_compared"] == 4
    counted = [figure for figure in told.json["figures"] if figure["unit"] not in _TIMED]
    assert {figure["verdict"] for figure in counted} == {"equal"}
    assert figures(told.json)["acceptance"]["a"] > 0


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Prompts as token ids, which a model without a tokenizer takes."""
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f'{{"tokens": [{first}, 11, 12, 13, 14, 15, 16, 17]}}\n' for first in (21, 22, 23, 24)))
    return path


def test_the_ratio_of_cow_to_host_is_that_which_bench_measures(
    command: Command, random_qwen3next: Path, prompts: Path, tmp_path: Path
) -> None:
    common = (random_qwen3next, "--prompts", prompts, "--slots", 4, "--max-tokens", 48, "--temp", 0, "--ignore-eos")
    common += ("--replay", "ride")  # else measured times decide how often tokens are decoded again
    for mode in ("host", "cow"):
        told = command(
            "run", *common[:-2], "--replay", "ride", "--checkpoint", mode, "--trace", tmp_path / f"{mode}.dscope"
        )
        assert told.exit_code == ExitCode.DONE, told.err
    found = figures(command("diff", tmp_path / "host.dscope", tmp_path / "cow.dscope", "--json").json)
    bench = command("bench", *common, "--modes", "host,cow", "--no-baseline", "--repeat", 1, "--json")
    assert bench.exit_code == ExitCode.DONE, bench.err
    host, cow = bench.json["variants"]
    n_tokens = [sum(sample["n_tokens"] for sample in variant["samples"]) for variant in (host, cow)]
    for name in ("n_saves", "n_restores"):
        assert (found[name]["a"], found[name]["b"]) == (host[name], cow[name]), name
    assert [found["acceptance"][side] for side in "ab"] == pytest.approx([host["acceptance"], cow["acceptance"]])
    assert [found["n_tokens"][side] for side in "ab"] == n_tokens
    per_token = [variant["decodes"]["target"] / (n - 4) for variant, n in zip((host, cow), n_tokens, strict=True)]
    assert found["target_decodes_per_token"]["ratio"] == pytest.approx(per_token[1] / per_token[0])
    assert found["save_us"]["a"] > 0 and found["save_us.cow"]["a"] is None
    for side, mode in zip("ab", ("host", "cow"), strict=True):
        trace = read_trace(tmp_path / f"{mode}.dscope")
        expected = expected_of(trace)
        assert {name: found[name][side] for name in expected} == pytest.approx(expected, rel=1e-12)
        assert found["tokens_per_second"][side] == pytest.approx(as_bench_does(trace), rel=0.05)
    for name in ("tokens_per_second", "round_us", "save_us", "restore_us"):
        assert found[name]["ratio"] == pytest.approx(found[name]["b"] / found[name]["a"]), name


def expected_of(trace: Trace) -> dict[str, float]:
    """Figures of a run of one Submit as the panels and ``run --json`` have them, under diff's names."""
    acceptance, checkpoints = AcceptanceTable(), CheckpointTable()
    acceptance.update(trace.store)
    checkpoints.update(trace.store)
    total = acceptance.total()
    firsts = len(trace.results)  # the first token of each task is in no round
    rounds = trace.store.kind(Kind.ROUND)
    longest = [rounds["duration_ns"][rounds["round"] == number].max() for number in np.unique(rounds["round"])]
    save, restore = (checkpoints.timing(kind) for kind in (Kind.SAVE, Kind.RESTORE))
    assert save is not None and restore is not None
    return {
        "tokens_per_second": total.tokens_per_second * (total.n_tokens - firsts) / total.n_tokens,
        "acceptance": total.rate,
        "mean_accepted_length": total.mean_accepted_length,
        "round_us": float(np.median(longest)) / 1e3,
        "save_us": save.median_us,
        "restore_us": restore.median_us,
    }


def as_bench_does(trace: Trace) -> float:
    """Tokens per second as bench has them, of the results in a trace, less what it counts and rounds do not.

    That is the time from the first token of any slot to the start of the first round, in which others still prefill.
    """
    told = trace.results
    ends = [result["ttft_ms"] + result["generate_ms"] for result in told]
    starts = [trace.store.kind(kind)["t_start_ns"].min() for kind in (Kind.TOKEN, Kind.ROUND)]
    seconds = (max(ends) - min(result["ttft_ms"] for result in told)) / 1e3 - (starts[1] - starts[0]) / 1e9
    return sum(len(result["tokens"]) - 1 for result in told) / seconds
