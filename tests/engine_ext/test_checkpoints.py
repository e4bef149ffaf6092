"""Every way back gives back exactly the state that was saved, chooses itself by measurement, and wastes no decode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import ENGINE_TRACK, Kind, Mechanism, Phase
from draftscope.engine.library import core
from draftscope.engine.protocol import CheckpointMode, ContextSettings, ModelSettings, Prompt, Replay, SlotTask
from tests.engine_ext.harness import GREEDY, TEXTS, Bench, PromptLike, open_bench, run, token_prompts

HYBRIDS = ("demo_model", "random_qwen35", "random_qwen3next")
SAVING = (CheckpointMode.COW, CheckpointMode.DEVICE, CheckpointMode.HOST)
TOKENS = [(step * 37) % 190 + 5 for step in range(40)]


def prompts_for(family: str, n: int) -> list[PromptLike]:
    return list(TEXTS[:n]) if family == "demo_model" else token_prompts(n)


@pytest.fixture
def model(family: str, request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(family)
    return path


@pytest.mark.parametrize("n_slots", [1, 4])
@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, *SAVING])
@pytest.mark.parametrize("family", HYBRIDS)
def test_that_a_decode_after_a_restore_gives_the_logits_of_the_decode_before_it_bit_for_bit(
    family: str, mode: CheckpointMode, n_slots: int, model: Path
) -> None:
    with open_bench(model, ContextSettings(n_slots=n_slots, checkpoint=mode, n_threads=1)) as bench:
        for n_saved in (1, 17, 36):
            for slot in range(n_slots):
                before, after = bench.backend._engine.logits_after_restore(slot, TOKENS[: n_saved + 4], n_saved)
                assert np.array_equal(np.array(before), np.array(after)), (n_saved, slot)


@pytest.mark.parametrize("family", HYBRIDS)
def test_that_all_saving_ways_back_compute_the_same_probabilities_bit_for_bit(family: str, model: Path) -> None:
    # Riding replays keep decodes of one shape: what is measured may decide otherwise from run to run.
    settings = [ContextSettings(checkpoint=mode, replay=Replay.RIDE, n_threads=1) for mode in SAVING]
    runs = [run(model, prompts_for(family, 1), of_mode) for of_mode in settings]
    assert [done.report.way_back.granted for done in runs] == [mode.value for mode in SAVING]
    assert runs[0].probabilities(0) == runs[1].probabilities(0) == runs[2].probabilities(0)


@pytest.mark.parametrize("mode", SAVING)
@pytest.mark.parametrize("family", HYBRIDS)
def test_that_epochs_count_saves_and_a_restore_names_the_newest(family: str, mode: CheckpointMode, model: Path) -> None:
    records = run(model, prompts_for(family, 2), ContextSettings(checkpoint=mode, n_threads=1)).records
    newest = {0: (0, -1), 1: (0, -1)}  # epoch and position by slot
    for row in records[(records["kind"] == Kind.SAVE) | (records["kind"] == Kind.RESTORE)]:
        slot = int(row["slot"])
        if row["kind"] == Kind.SAVE:
            assert row["n"] == newest[slot][0] + 1
            newest[slot] = (int(row["n"]), int(row["position"]))
        else:
            assert (row["n"], row["position"]) == newest[slot]
        assert row["code"] == Mechanism[mode.name]
        assert row["size_bytes"] > 0


def test_that_a_checkpoint_that_is_still_good_is_not_saved_again(random_qwen35: Path) -> None:
    done = run(random_qwen35, token_prompts(1), ContextSettings(checkpoint=CheckpointMode.HOST, replay=Replay.RIDE))
    saves = done.records[done.records["kind"] == Kind.SAVE]
    assert len(saves) < done.counts.rounds
    assert len(set(saves["position"].tolist())) == len(saves)


def test_that_slots_without_a_draft_save_nothing(random_qwen35: Path) -> None:
    done = run(random_qwen35, token_prompts(2), ContextSettings(use_mtp=False, checkpoint=CheckpointMode.HOST))
    assert done.checkpoints.n_saves == 0


# ---- replays


@pytest.mark.parametrize("n_slots", [1, 4])
@pytest.mark.parametrize("replay", list(Replay))
@pytest.mark.parametrize("mode", SAVING)
def test_that_where_replays_are_decoded_does_not_change_the_text(
    mode: CheckpointMode, replay: Replay, n_slots: int, demo_model: Path
) -> None:
    plain = run(demo_model, TEXTS[:n_slots], ContextSettings(use_mtp=False, n_threads=1))
    done = run(demo_model, TEXTS[:n_slots], ContextSettings(checkpoint=mode, replay=replay, n_threads=1))
    assert done.tokens == plain.tokens
    assert done.counts.target == done.counts.rounds + done.counts.replay
    assert done.counts.draft == 3 * done.counts.rounds
    if replay is Replay.ALONE:
        assert (done.counts.rides, done.counts.replay > 0) == (0, True)
    if replay is Replay.RIDE:
        assert done.counts.rides > 0


@pytest.mark.parametrize("mode", [CheckpointMode.COW, CheckpointMode.HOST])
def test_that_graph_runs_are_foreseen_as_libllama_cuts_decodes(mode: CheckpointMode, random_qwen35: Path) -> None:
    done = run(random_qwen35, token_prompts(4), ContextSettings(checkpoint=mode, replay=Replay.RIDE, n_threads=1))
    spans = done.records[done.records["kind"] == Kind.SPAN]
    verified = spans[spans["code"] == Phase.VERIFY]
    n_cut = 0
    for decode in verified[verified["slot"] == ENGINE_TRACK]:
        rows = verified[(verified["slot"] != ENGINE_TRACK) & (verified["round"] == decode["round"])]
        brought = [(int(row["slot"]), int(row["n"])) for row in rows]
        assert core.count_graphs(brought, is_sequential=mode is not CheckpointMode.COW) == decode["m"], brought
        n_cut += int(decode["m"] > 1)
    assert n_cut > 0


def test_that_gaps_between_slots_are_foreseen_too() -> None:
    assert core.count_graphs([(0, 4), (1, 4), (2, 4)], is_sequential=True) == 1
    assert core.count_graphs([(0, 4), (2, 4), (3, 4)], is_sequential=True) == 2
    assert core.count_graphs([(0, 4), (2, 4), (3, 4)], is_sequential=False) == 1
    assert core.count_graphs([(0, 4), (1, 6), (2, 5)], is_sequential=False) == 3
    assert core.count_graphs([], is_sequential=True) == 0


def test_that_the_cost_of_a_decode_is_learned(demo_model: Path) -> None:
    with open_bench(demo_model, ContextSettings(n_slots=2, checkpoint=CheckpointMode.HOST, n_threads=1)) as bench:
        for slot in range(2):
            bench.submit(SlotTask(slot, Prompt(), GREEDY, 96, ignore_eos=True), TEXTS[slot])
        bench.finish()
        cost = bench.backend.decode_cost()
        spans = bench.ring.read()
    decodes = spans[(spans["kind"] == Kind.SPAN) & (spans["slot"] == ENGINE_TRACK) & (spans["code"] == Phase.VERIFY)]
    assert cost.n_measured > 20, "nothing but decodes of one size"
    assert cost.graph_us >= 0 and cost.token_us >= 0
    # A decode as it was on average costs something between the quickest and the slowest of them.
    expected_us = cost.graph_us * decodes["m"].mean() + cost.token_us * decodes["n"].mean()
    assert decodes["duration_ns"].min() / 1e3 <= expected_us <= decodes["duration_ns"].max() / 1e3


# ---- the choice


def test_that_auto_times_every_way_back_and_takes_rollback_where_it_is_granted(demo_model: Path) -> None:
    way = run(demo_model, TEXTS, ContextSettings(n_threads=1), max_tokens=8).report.way_back
    assert [row.mechanism for row in way.calibration] == ["rollback", "cow", "device", "host"]
    assert [row.is_chosen for row in way.calibration] == [True, False, False, False]
    assert all(row.is_available and row.n_timed > 0 for row in way.calibration)
    for row in way.calibration:
        assert row.round_us == pytest.approx(row.verify_us + 4 * (row.save_us + row.restore_us) + row.replay_us)
        assert row.restore_us > 0 and row.bytes_per_slot > 0
    assert (way.granted, way.n_rs_seq_granted) == ("rollback", 3)
    assert "measurement" in way.why


def test_that_a_mode_asked_for_by_name_is_not_measured(random_qwen35: Path) -> None:
    for mode in (CheckpointMode.ROLLBACK, *SAVING):
        way = run(random_qwen35, token_prompts(2), ContextSettings(checkpoint=mode), max_tokens=8).report.way_back
        assert (way.granted, way.calibration) == (mode.value, ())


def test_that_a_load_is_cancelled_while_ways_back_are_timed(random_qwen35: Path) -> None:
    bench, stages = Bench(), list[str]()

    def ask(_fraction: float, stage: str) -> bool:
        stages.append(stage)
        return stages.count("ways back") < 5

    with pytest.raises(EngineError) as cancelled:
        bench.backend.load(ModelSettings(str(random_qwen35)), ContextSettings(n_threads=1), ask)
    assert cancelled.value.code is ErrorCode.CANCELLED
    assert stages.count("ways back") == 5
    bench.load(random_qwen35, ContextSettings(n_slots=1, n_threads=1))
    bench.submit(SlotTask(0, Prompt(), GREEDY, 8, ignore_eos=True), token_prompts(1)[0])
    assert len(bench.finish()[0].tokens) == 8


def test_that_auto_minds_the_memory(random_qwen35: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    settings = ContextSettings(n_slots=4, n_threads=1)
    bench.load(random_qwen35, settings)
    monkeypatch.setattr(bench.backend, "_host_room", lambda _context: 4 * 30_000)  # one more state a slot, not three
    way = bench.backend.configure(settings).way_back
    assert not way.calibration[0].is_available
    assert "free" in way.calibration[0].why
    assert way.granted in ("cow", "device", "host")
    bench.backend.unload()


def test_that_no_context_is_made_for_states_that_do_not_fit(
    random_qwen35: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    settings = ContextSettings(n_slots=4, n_threads=1)
    bench.load(random_qwen35, settings)
    caplog.set_level("INFO", "draftscope.llama")
    for states_a_slot, has_steps in ((3, True), (2, False)):
        caplog.clear()
        room = 4 * states_a_slot * bench.backend._state_bytes
        monkeypatch.setattr(bench.backend, "_host_room", lambda _context, room=room: room)
        bench.backend.configure(settings)
        steps = {line.split("=")[1].strip() for line in caplog.text.splitlines() if "n_rs_seq  " in line}
        assert ("3" in steps) == has_steps, steps
    bench.backend.unload()


# ---- memory


@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, *SAVING])
@pytest.mark.parametrize("family", HYBRIDS)
def test_that_memory_is_what_was_predicted(family: str, mode: CheckpointMode, model: Path) -> None:
    with open_bench(model, ContextSettings(n_slots=3, checkpoint=mode, n_threads=1)) as bench:
        for slot, prompt in enumerate(prompts_for(family, 3)):
            bench.submit(SlotTask(slot, Prompt(), GREEDY, 32, ignore_eos=True), prompt)
        bench.finish()
        use = {kind.kind: kind for kind in bench.backend.memory_use()}
    kinds = ["weights", "kv", "recurrent", "checkpoints", "draft", "compute", "prompt_checkpoints", "prompt_cache"]
    assert list(use) == kinds
    for kind in ("kv", "recurrent", "draft"):
        assert use[kind].host_bytes == use[kind].predicted_bytes > 0, kind
    # A saved state has a few hundred bytes of headers.
    assert use["checkpoints"].host_bytes == pytest.approx(use["checkpoints"].predicted_bytes, rel=0.02)
    assert (use["checkpoints"].host_bytes > 0) == (mode is not CheckpointMode.ROLLBACK)
    assert use["compute"].host_bytes > 0
    assert all(kind.device_bytes == 0 for kind in use.values())


@pytest.mark.parametrize("family", ["dense_model", "random_glm4moe"])
def test_that_a_model_of_keys_alone_has_no_recurrent_memory(family: str, model: Path) -> None:
    with open_bench(model, ContextSettings(n_slots=3, n_threads=1)) as bench:
        use = {kind.kind: kind for kind in bench.backend.memory_use()}
    assert use["recurrent"].host_bytes == use["recurrent"].predicted_bytes == 0
    assert use["kv"].host_bytes == use["kv"].predicted_bytes > 0


@pytest.mark.parametrize("mode", SAVING)
def test_that_memory_does_not_grow_with_saves(mode: CheckpointMode, random_qwen35: Path) -> None:
    with open_bench(
        random_qwen35, ContextSettings(n_slots=2, checkpoint=mode, n_threads=1, prompt_cache_mib=0)
    ) as bench:
        seen = []
        for _ in range(3):
            for slot in range(2):
                bench.submit(SlotTask(slot, Prompt(), GREEDY, 64, ignore_eos=True), token_prompts(2)[slot])
            bench.finish()
            # Scratch memory grows until every shape of a decode was there once.
            seen.append([kind for kind in bench.backend.memory_use() if kind.kind != "compute"])
    assert seen[0] == seen[1] == seen[2]
