"""``draftscope bench``: what is timed in which order, the arithmetic, what is not to be had, interruptions, output."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftscope.cli.failure import ExitCode
from draftscope.engine.protocol import ContextSettings, MemoryUse, Replay
from tests.cli.conftest import Command, Told
from tests.cli.scripted_bench import Name, ScriptedBench

Scripted = Callable[..., Told]


@pytest.fixture
def bench(command: Command, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Run ``bench`` on a scripted engine: ``bench(engine, "--slots", "1", ...)``."""

    def run(engine: ScriptedBench, *arguments: str) -> Told:
        monkeypatch.setattr("draftscope.cli.bench.make_client", lambda _backend, *, in_process: engine.client())
        return command("bench", "demo", *arguments)

    return run


def _variants(told: Told) -> dict[Name, dict[str, Any]]:
    return {(variant["n_slots"], variant["mode"] or "plain"): variant for variant in told.json["variants"]}


# ---- order


def test_every_repeat_runs_everything_once_and_begins_one_further_on(bench: Scripted) -> None:
    engine = ScriptedBench()
    bench(engine, "--slots", "1", "--prompt", "a", "--modes", "rollback,host", "--repeat", "3", "--json")
    names = [mode for _, mode in engine.order]
    assert [names[start : start + 3] for start in range(0, 12, 3)] == [
        ["plain", "rollback", "host"],
        ["rollback", "host", "plain"],
        ["host", "plain", "rollback"],
        ["plain", "rollback", "host"],
    ]


def test_what_is_compared_stays_together_and_slot_counts_take_turns(bench: Scripted) -> None:
    engine = ScriptedBench()
    bench(engine, "--slots", "1,2", "--prompt", "a", "--modes", "host", "--repeat", "1", "--json")
    assert engine.order == [
        *((1, "plain"), (1, "host"), (2, "plain"), (2, "host")),
        *((2, "host"), (2, "plain"), (1, "host"), (1, "plain")),
    ]


def test_the_contexts_are_made_anew_for_every_run_and_the_weights_are_loaded_once(bench: Scripted) -> None:
    engine = ScriptedBench()
    told = bench(
        engine, "--slots", "2", "--modes", "cow", "--draft-max", "2", "--replay", "alone", "--repeat", "2", "--json"
    )
    assert len(engine.contexts) == engine.n_run_in == 6
    speculating = [context for context in engine.contexts if context.use_mtp]
    assert all((c.n_draft_max, c.replay, c.n_slots) == (2, Replay.ALONE, 2) for c in speculating)
    assert [entry["repeat"] for entry in told.json["order"]] == [0, 0, 1, 1, 2, 2]


def test_a_run_takes_every_prompt_and_leaves_no_slot_out(bench: Scripted) -> None:
    engine = ScriptedBench()
    prompts = ("--prompt", "a", "--prompt", "b", "--prompt", "c")
    told = bench(engine, "--slots", "2", *prompts, "--modes", "host", "--no-baseline", "--repeat", "1", "--json")
    assert len(engine.order) == 4  # two Submits of two tasks, in the warm-up and in the repeat
    assert not any(task.reuse for task in engine.tasks)  # or the run after the one that runs in would read no prompt
    assert _variants(told)[2, "host"]["samples"][0]["n_tokens"] == 4 * 11


# ---- arithmetic


def _drifting(name: Name, run: int) -> float:
    """A machine that gets slower and slower, on which host is always half as fast as no MTP."""
    return (1000.0 / (1 + run)) * {"plain": 1.0, "host": 0.5}[name[1]]


def test_ratios_are_of_runs_side_by_side_and_the_warm_up_is_not_counted(bench: Scripted) -> None:
    engine = ScriptedBench(speed=_drifting)
    told = bench(engine, "--slots", "1", "--prompt", "a", "--modes", "host", "--repeat", "3", "--json")
    variants = _variants(told)
    plain = variants[1, "plain"]["tokens_per_second"]
    assert plain["n"] == 3
    assert (plain["best"], plain["median"], plain["low"]) == pytest.approx((500.0, 1000 / 3, 250.0))
    ratio = variants[1, "host"]["ratio"]
    assert (ratio["median"], ratio["low"], ratio["high"]) == pytest.approx((0.5, 0.5, 0.5))
    assert ratio["spread"] == "min_max"
    pairs = {(pair["of"], pair["to"]): pair["median"] for pair in told.json["ratios"]}
    assert pairs == {(0, 1): pytest.approx(2.0), (1, 0): pytest.approx(0.5)}


def test_speed_counts_all_slots_and_leaves_first_tokens_to_the_prompts(bench: Scripted) -> None:
    told = bench(
        ScriptedBench(speed=lambda _n, _r: 400.0), "--slots", "4", "--modes", "host", "--repeat", "1", "--json"
    )
    assert _variants(told)[4, "host"]["tokens_per_second"]["median"] == pytest.approx(400.0)


def test_counts_are_a_round_and_times_are_medians_of_all_events(bench: Scripted) -> None:
    told = bench(ScriptedBench(), "--slots", "1", "--prompt", "a", "--modes", "host", "--repeat", "2", "--json")
    host = _variants(told)[1, "host"]
    assert host["acceptance"] == pytest.approx(0.5)
    assert host["mean_accepted_length"] == pytest.approx(1 + 3 / 4)
    assert host["decodes"]["rounds"] == 8
    assert host["decodes"]["target_per_round"] == pytest.approx(5 / 4)
    assert host["decodes"]["draft_per_round"] == pytest.approx(3.0)
    assert host["decodes"]["graph_runs_per_round"] == pytest.approx(18 / 4)
    assert (host["save_us"]["n"], host["save_us"]["median"]) == (4, pytest.approx(20.0))
    assert host["restore_us"] == {"n": 2, "median": 5.0, "p99": 5.0}


def test_what_runs_new_contexts_in_is_not_counted(bench: Scripted) -> None:
    engine = ScriptedBench(speed=lambda _n, _r: 200.0)  # running in takes 200 times as long
    told = bench(engine, "--slots", "1", "--prompt", "a", "--modes", "host", "--repeat", "1", "--json")
    host = _variants(told)[1, "host"]
    assert engine.n_run_in == 4
    assert host["tokens_per_second"]["median"] == pytest.approx(200.0)
    assert (host["save_us"]["n"], host["decodes"]["rounds"]) == (2, 4)


def test_the_first_different_token_is_told_with_slot_and_index(bench: Scripted) -> None:
    engine = ScriptedBench(other_tokens=((2, "cow"),))
    arguments = ("--slots", "2", "--prompt", "a", "--modes", "cow,host", "--repeat", "1")
    variants = _variants(bench(engine, *arguments, "--json"))
    assert variants[2, "host"]["tokens"] == {"are_equal": True, "n_runs_equal": 1, "first_differences": []}
    assert variants[2, "cow"]["tokens"]["first_differences"] == [
        {
            **{"slot": 1, "prompt": 0, "place": "prompt 1", "index": 4, "token": 99, "reference_token": 4},
            **{"probability": 0.25, "reference_probability": 0.25},
        }
    ]
    text = bench(ScriptedBench(other_tokens=((2, "cow"),)), *arguments).out
    assert "slot 1, prompt 1: differs from token 5 on: token 99 with p 0.250, there token 4 with p 0.250" in text


def test_without_a_baseline_the_first_that_is_timed_is_the_reference(bench: Scripted) -> None:
    engine = ScriptedBench(granted={"cow": ("host", "No room.")}, speed=lambda name, _r: len(name[1]) * 10.0)
    told = bench(engine, "--slots", "1", "--no-baseline", "--modes", "cow,device,host", "--repeat", "1", "--json")
    variants = _variants(told)
    assert variants[1, "host"]["reference"] == variants[1, "device"]["id"]
    assert variants[1, "host"]["ratio"]["median"] == pytest.approx(4 / 6)


# ---- what is not to be had


def test_modes_that_are_not_to_be_had_are_listed_with_the_reason(bench: Scripted) -> None:
    engine = ScriptedBench(granted={"cow": ("host", "There are no spare sequences.")}, refused={"device": "No room."})
    arguments = ("--slots", "1", "--prompt", "a", "--modes", "rollback,cow,device", "--repeat", "2")
    told = bench(engine, *arguments, "--json")
    assert told.exit_code == ExitCode.DONE
    variants = _variants(told)
    assert not variants[1, "cow"]["is_available"]
    assert variants[1, "cow"]["why_not"] == "There are no spare sequences. (in use instead: host)"
    assert variants[1, "device"]["why_not"] == "No room."
    assert [name for name in engine.order if name[1] in ("cow", "device")] == []
    text = bench(ScriptedBench(refused={"device": "No room."}), *arguments).out
    assert "not timed: device, draft 3: No room." in text


def test_where_replays_go_is_timed_only_where_there_are_any(bench: Scripted) -> None:
    told = bench(
        ScriptedBench(), "--slots", "1", "--modes", "rollback,host", "--replay", "ride,alone", "--repeat", "1", "--json"
    )
    timed = [(v["mode"], v["replay"]) for v in told.json["variants"] if v["is_available"] and v["mode"]]
    assert timed == [("rollback", "ride"), ("host", "ride"), ("host", "alone")]
    why = next(v["why_not"] for v in told.json["variants"] if not v["is_available"])
    assert why == "With rollback nothing is decoded again, so this is rollback, draft 3, replay ride."


def test_draft_lengths_that_are_granted_alike_are_timed_once(bench: Scripted) -> None:
    engine = ScriptedBench(n_draft_granted=1)
    told = bench(engine, "--slots", "1", "--modes", "host", "--draft-max", "1,3", "--repeat", "1", "--json")
    assert [v["is_available"] for v in told.json["variants"]] == [True, True, False]
    assert "timed already" in told.json["variants"][2]["why_not"]


def test_a_slot_that_fails_ends_its_variant_and_the_others_go_on(bench: Scripted) -> None:
    engine = ScriptedBench(fails=((1, "cow"),))
    told = bench(engine, "--slots", "1", "--prompt", "a", "--modes", "cow,host", "--repeat", "2", "--json")
    assert told.exit_code == ExitCode.RUN_FAILED
    variants = _variants(told)
    assert variants[1, "host"]["n_samples"] == 2
    assert variants[1, "cow"]["n_samples"] == 0
    assert variants[1, "cow"]["why_not"] == "slot 0 failed: The decode failed."
    assert "cow, draft 3, slots: 1: slot 0 failed" in told.err


# ---- interruptions


def _interrupt_at(n: int) -> Callable[[int], None]:
    return lambda before: signal.raise_signal(signal.SIGINT) if before == n else None


def test_ctrl_c_gives_what_there_is_and_does_not_count_the_run_that_it_ended(bench: Scripted) -> None:
    engine = ScriptedBench(interrupt=_interrupt_at(5))
    told = bench(engine, "--slots", "1", "--prompt", "a", "--modes", "rollback,host", "--repeat", "3", "--json")
    assert told.exit_code == ExitCode.INTERRUPTED
    assert told.json["is_interrupted"]
    assert len(engine.order) == 6
    assert {name[1]: v["n_samples"] for name, v in _variants(told).items()} == {"plain": 0, "rollback": 1, "host": 1}
    text = bench(ScriptedBench(interrupt=_interrupt_at(5)), "--slots", "1", "--prompt", "a", "--repeat", "3")
    assert "interrupted: these are the figures until then" in text.out


def test_what_was_counted_before_the_engine_failed_is_told(bench: Scripted) -> None:
    engine = ScriptedBench(dies_at=4)
    told = bench(engine, "--slots", "1", "--prompt", "a", "--modes", "host", "--repeat", "3", "--json")
    assert told.exit_code == ExitCode.ENGINE_DIED
    assert [v["n_samples"] for v in told.json["variants"]] == [1, 1]
    assert told.json["error"]["code"] == "engine_died"
    assert told.err.splitlines()[-2].startswith("draftscope: The engine process ended by signal 9")


def test_ratios_leave_out_repeats_that_only_one_of_the_two_was_run_in(bench: Scripted) -> None:
    engine = ScriptedBench(speed=_drifting, interrupt=_interrupt_at(3))
    told = bench(engine, "--slots", "1", "--prompt", "a", "--modes", "host", "--repeat", "3", "--json")
    assert [v["n_samples"] for v in told.json["variants"]] == [0, 1]
    assert told.json["ratios"] == []


# ---- memory


def _memory(context: ContextSettings) -> tuple[MemoryUse, ...]:
    """A saved state in host memory that is 8 bytes longer than predicted, and keys and values on a device."""
    n = context.n_slots
    saved = MemoryUse("checkpoints", host_bytes=n * 1008, device_bytes=0, predicted_bytes=n * 1000)
    kv = MemoryUse("kv", host_bytes=0, device_bytes=n * 4096, predicted_bytes=n * 4096)
    return kv, saved, MemoryUse("compute", host_bytes=500, device_bytes=0)


def test_memory_is_measured_beside_the_prediction_and_grows_with_the_slots(bench: Scripted) -> None:
    arguments = ("--slots", "1,2,4", "--prompt", "a", "--modes", "host", "--no-baseline", "--repeat", "1")
    (memory,) = bench(ScriptedBench(memory=_memory), *arguments, "--json").json["memory"]
    assert memory["n_slots"] == [1, 2, 4]
    assert [row["kind"] for row in memory["kinds"]] == ["kv", "checkpoints", "compute"]
    kv, checkpoints, compute = memory["kinds"]
    assert (kv["device_bytes"], kv["host_bytes"], kv["difference_bytes"]) == ([4096, 8192, 16384], [0] * 3, [0] * 3)
    assert checkpoints["difference_bytes"] == [8, 16, 32]
    assert checkpoints["per_further_slot_bytes"] == pytest.approx(1008)
    assert compute["predicted_bytes"] == [None] * 3
    assert memory["slots_together"]["measured_bytes"] == [5104, 10208, 20416]
    text = bench(ScriptedBench(memory=_memory), *arguments).out
    lines = {" ".join(line.split()) for line in text.splitlines()}
    assert "host, draft 3 kv (on devices) 4.00 KiB 8.00 KiB 16.0 KiB 4.00 KiB" in lines
    assert "checkpoints 1008 B (+8.00 B) 1.97 KiB (+16.0 B) 3.94 KiB (+32.0 B) 1008 B" in lines
    assert "of it on devices 4.00 KiB 8.00 KiB 16.0 KiB" in lines
    assert "predicted 4.98 KiB 9.95 KiB 19.9 KiB" in lines


def test_without_measured_memory_the_prediction_of_info_is_told(bench: Scripted) -> None:
    arguments = ("--slots", "2", "--prompt", "a", "--modes", "rollback,host", "--repeat", "1")
    told = bench(ScriptedBench(), *arguments, "--json")
    predicted = {
        (setting["way_back"], row["kind"]): row["predicted_bytes"]
        for setting in told.json["memory"]
        for row in setting["kinds"]
    }
    state = 430_080
    assert predicted["rollback", "recurrent"] == [2 * 4 * state]
    assert (predicted["host", "recurrent"], predicted["host", "checkpoints"]) == ([2 * state], [2 * state])
    assert all(row["measured_bytes"] == [None] for setting in told.json["memory"] for row in setting["kinds"])
    assert "predicted; this engine does not say" in bench(ScriptedBench(), *arguments).out


# ---- options


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--modes", "fast"), "none of auto, rollback, cow, device, host"),
        (("--replay", "never"), "none of measured, ride, alone"),
        (("--slots", "1,0"), "whole number from 1"),
        (("--draft-max", "0"), "whole number from 1"),
        (("--prompt", "a", "--prompts", "f.jsonl"), "exclude each other"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_loaded(
    bench: Scripted, arguments: tuple[str, ...], sentence: str
) -> None:
    told = bench(ScriptedBench(), *arguments)
    assert told.exit_code == ExitCode.WRONG_USE
    assert sentence in told.err


def test_the_estimate_is_told_before_the_repeats(bench: Scripted) -> None:
    told = bench(ScriptedBench(), "--slots", "1", "--modes", "rollback", "--repeat", "2")
    notes = told.err.splitlines()
    assert notes[0] == "draftscope: 6 runs: 2 settings, 2 times each after a warm-up."
    assert notes[1].startswith("draftscope: About ")
    assert notes[1].endswith(" for what is left: 5 runs.")
    assert notes[2].endswith(" for what is left: 4 runs.")


def test_a_model_that_cannot_be_loaded_is_told_as_by_run(command: Command, tmp_path: Path) -> None:
    told = command("bench", tmp_path / "none.gguf", "--json", "--in-process")
    assert told.exit_code == ExitCode.BAD_INPUT
    assert told.json["error"]["code"] == "bad_file"


# ---- other engines


def test_a_model_without_mtp_layers_is_timed_without_and_the_reason_is_told(fake_command: Command) -> None:
    arguments = ("--slots", "2", "--modes", "auto,host", "--max-tokens", "8", "--repeat", "1")
    told = fake_command("bench", "fake:dense", *arguments, "--json")
    assert told.exit_code == ExitCode.DONE
    assert [variant["is_available"] for variant in told.json["variants"]] == [True, False, False]
    assert "no MTP layers" in told.json["variants"][1]["why_not"]
    assert "not timed: auto, draft 3; host, draft 3: This model file has no MTP" in (
        fake_command("bench", "fake:dense", *arguments).out
    )


def test_an_engine_that_dies_before_anything_is_counted_is_told(fake_command: Command) -> None:
    told = fake_command("bench", "fake:model", "--slots", "1", "--prompt", "fake:die", "--json")
    assert told.exit_code == ExitCode.ENGINE_DIED
    assert told.json["error"]["code"] == "engine_died"
