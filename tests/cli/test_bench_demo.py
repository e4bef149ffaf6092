"""``draftscope bench demo`` on the real engine: every way back, its counts, its memory, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from draftscope.cli.failure import ExitCode


@pytest.fixture(scope="module")
def demo_bench() -> dict[str, Any]:
    """One short bench of the demo, on 1 and 2 slots, in a process of its own."""
    arguments = ("demo", "--slots", "1,2", "--repeat", "1", "--max-tokens", "24", "--json")
    command = [sys.executable, "-m", "draftscope.cli.main", "bench", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == ExitCode.DONE, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def test_the_demo_has_every_way_back_and_the_same_tokens_with_it(demo_bench: dict[str, Any]) -> None:
    timed = [variant for variant in demo_bench["variants"] if variant["is_available"]]
    assert [variant["mode"] for variant in timed] == [None, "auto", "rollback", "cow", "device", "host"] * 2
    for variant in timed:
        assert variant["tokens_per_second"]["median"] > 0
        # Slots that share a cache are computed in batches of another shape, and near-ties may fall the other way.
        is_sharing = "cow" in variant["granted"] and variant["n_slots"] > 1
        differences = variant["tokens"]["first_differences"]
        assert variant["tokens"]["are_equal"] == (not differences)
        assert is_sharing or not differences, differences


def test_the_demo_bench_counts_decodes_and_checkpoints(demo_bench: dict[str, Any]) -> None:
    for variant in demo_bench["variants"]:
        decodes = variant["decodes"]
        if variant["mode"] is None:
            assert (variant["draft_n"], decodes["target_per_round"], decodes["draft_per_round"]) == (0, 1.0, 0.0)
            continue
        assert variant["acceptance"] > 0
        assert decodes["draft_per_round"] == 3.0
        if variant["mode"] == "rollback":
            assert decodes["target_per_round"] == 1.0
        elif variant["mode"] != "auto":
            assert decodes["target"] == decodes["rounds"] + decodes["replay"]
            assert variant["save_us"]["n"] == variant["n_saves"] > 0
            assert variant["restore_us"]["n"] == variant["n_restores"] > 0


def test_the_demos_memory_is_as_predicted_but_for_the_heads_of_saved_states(demo_bench: dict[str, Any]) -> None:
    settings = {setting["way_back"]: setting for setting in demo_bench["memory"]}
    assert set(settings) == {"none", "rollback", "cow", "device", "host"}
    state = 430_080
    for way, setting in settings.items():
        assert setting["n_slots"] == [1, 2]
        rows = {row["kind"]: row for row in setting["kinds"]}
        for kind in ("kv", "recurrent", "checkpoints", "draft"):
            for n_slots, difference in zip(
                (1, 2), rows[kind]["difference_bytes"] if kind in rows else (), strict=False
            ):
                assert 0 <= difference < 1024 * n_slots
                assert kind == "checkpoints" or difference == 0
        n_states = 4 if way == "rollback" else 1
        assert rows["recurrent"]["measured_bytes"] == [n_states * state, 2 * n_states * state]
        assert ("checkpoints" in rows) == (way in ("cow", "device", "host"))


def test_a_bench_in_a_process_of_its_own_ends_at_ctrl_c_with_what_there_is() -> None:
    arguments = ("demo", "--slots", "1", "--prompt", "a", "--modes", "host", "--repeat", "9999", "--max-tokens", "8")
    command = [sys.executable, "-m", "draftscope.cli.main", "bench", *arguments, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = [process.stderr.readline() for _ in range(3)]  # the last one comes after the warm-up
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert told[2].endswith("for what is left: 19998 runs.\n")
    output = json.loads(out)
    assert output["is_interrupted"]
    assert all(variant["n_samples"] < 9999 for variant in output["variants"])
    assert len(output["order"]) == 2 + sum(variant["n_samples"] for variant in output["variants"])
