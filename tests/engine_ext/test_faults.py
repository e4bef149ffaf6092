"""What the library refuses costs time and leaves a record; it never changes the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.engine.events import FallbackReason, Kind, Mechanism
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SlotTask
from tests.engine_ext.harness import GREEDY, Bench, open_bench, run, token_prompts

N_SLOTS = 2


@pytest.mark.parametrize(
    ("mode", "fault", "reason", "asked"),
    [
        (CheckpointMode.HOST, "restore", FallbackReason.RESTORE_FAILED, Mechanism.HOST),
        (CheckpointMode.HOST, "save", FallbackReason.NO_MEMORY, Mechanism.HOST),
        (CheckpointMode.COW, "restore", FallbackReason.RESTORE_FAILED, Mechanism.COW),
        (CheckpointMode.DEVICE, "restore", FallbackReason.RESTORE_FAILED, Mechanism.DEVICE),
        (CheckpointMode.DEVICE, "save", FallbackReason.NO_MEMORY, Mechanism.DEVICE),
    ],
)
@pytest.mark.parametrize("family", ["random_qwen35", "random_qwen3next"])
def test_that_a_refusal_is_recorded_and_the_text_stays_right(
    family: str,
    mode: CheckpointMode,
    fault: str,
    reason: FallbackReason,
    asked: Mechanism,
    request: pytest.FixtureRequest,
) -> None:
    model: Path = request.getfixturevalue(family)
    expected = run(model, token_prompts(N_SLOTS), ContextSettings(use_mtp=False, n_threads=1), max_tokens=60)
    with open_bench(model, ContextSettings(n_slots=N_SLOTS, checkpoint=mode, n_threads=1)) as bench:
        start(bench, 60)
        bench.backend._engine.inject_faults(**{fault: 3})
        results = bench.finish()
        fallbacks = bench.ring.read()
        assert bench.backend.checkpoint_counts().n_fallbacks == 3
    fallbacks = fallbacks[fallbacks["kind"] == Kind.FALLBACK]
    assert [result.tokens for result in results] == expected.tokens
    assert fallbacks["code"].tolist() == [reason] * 3
    assert fallbacks["n"].tolist() == [asked] * 3
    assert all(result.draft_n_accepted > 0 for result in results)


@pytest.mark.parametrize("family", ["random_qwen35", "random_qwen3next"])
def test_that_a_slot_whose_rollback_was_refused_goes_on_with_host_checkpoints(
    family: str, request: pytest.FixtureRequest
) -> None:
    model: Path = request.getfixturevalue(family)
    expected = run(model, token_prompts(N_SLOTS), ContextSettings(use_mtp=False, n_threads=1), max_tokens=60)
    with open_bench(model, ContextSettings(n_slots=N_SLOTS, checkpoint=CheckpointMode.ROLLBACK, n_threads=1)) as bench:
        start(bench, 60)
        bench.backend._engine.inject_faults(drop_tail=1)
        results = bench.finish()
        records = bench.ring.read()
        fallbacks = records[records["kind"] == Kind.FALLBACK]
        assert [result.tokens for result in results] == expected.tokens
        assert [(row["code"], row["n"], row["m"]) for row in fallbacks] == [
            (FallbackReason.REFUSED, Mechanism.ROLLBACK, Mechanism.HOST)
        ]
        slot = fallbacks["slot"][0]
        saved = records[records["kind"] == Kind.SAVE]
        assert set(saved["slot"].tolist()) == {slot}
        assert set(saved["code"].tolist()) == {Mechanism.HOST}
        # The next task steps back by itself again.
        bench.submit(SlotTask(int(slot), Prompt(), GREEDY, 60, ignore_eos=True), token_prompts(N_SLOTS)[slot])
        assert bench.finish()[0].tokens == expected.tokens[slot]
        assert (bench.ring.read()["kind"] != Kind.SAVE).all()


@pytest.mark.parametrize("family", ["random_qwen35", "random_qwen3next"])
def test_that_device_memory_refused_in_the_middle_of_a_run_ends_it_on_the_host_with_one_record_a_slot(
    family: str, request: pytest.FixtureRequest
) -> None:
    model: Path = request.getfixturevalue(family)
    settings = ContextSettings(n_slots=N_SLOTS, checkpoint=CheckpointMode.DEVICE, n_threads=1)
    expected = run(model, token_prompts(N_SLOTS), ContextSettings(use_mtp=False, n_threads=1), max_tokens=60)
    with open_bench(model, settings) as bench:
        bench.submit(SlotTask(0, Prompt(), GREEDY, 60, ignore_eos=True), token_prompts(N_SLOTS)[0])
        for _ in range(3):
            bench.backend.step()
        bench.backend._engine.inject_faults(device_room=100)
        bench.submit(SlotTask(1, Prompt(), GREEDY, 60, ignore_eos=True), token_prompts(N_SLOTS)[1])
        results = bench.finish()
        records = bench.ring.read()
        assert bench.backend.checkpoint_counts().n_fallbacks == 1
    fallbacks = records[records["kind"] == Kind.FALLBACK]
    assert [result.tokens for result in results] == expected.tokens
    assert [(row["slot"], row["code"], row["n"], row["m"]) for row in fallbacks] == [
        (1, FallbackReason.NO_MEMORY, Mechanism.DEVICE, Mechanism.HOST)
    ]
    saved = records[records["kind"] == Kind.SAVE]
    assert set(saved[saved["slot"] == 0]["code"].tolist()) == {Mechanism.DEVICE}  # its device memory is held already
    assert set(saved[saved["slot"] == 1]["code"].tolist()) == {Mechanism.HOST}


def test_that_every_slot_is_told_once_when_no_device_memory_is_left_at_all(random_qwen35: Path) -> None:
    expected = run(random_qwen35, token_prompts(4), ContextSettings(use_mtp=False, n_threads=1), max_tokens=60)
    settings = ContextSettings(n_slots=4, checkpoint=CheckpointMode.DEVICE, n_threads=1)
    with open_bench(random_qwen35, settings) as bench:
        bench.backend._engine.inject_faults(device_room=1000)
        for slot in range(4):
            bench.submit(SlotTask(slot, Prompt(), GREEDY, 60, ignore_eos=True), token_prompts(4)[slot])
        results = bench.finish()
        records = bench.ring.read()
    fallbacks = records[records["kind"] == Kind.FALLBACK]
    assert [result.tokens for result in results] == expected.tokens
    assert sorted(fallbacks["slot"].tolist()) == [0, 1, 2, 3]
    assert set(records[records["kind"] == Kind.SAVE]["code"].tolist()) == {Mechanism.HOST}


def start(bench: Bench, max_tokens: int) -> None:
    """One task a slot, and three steps of them."""
    for slot in range(N_SLOTS):
        bench.submit(SlotTask(slot, Prompt(), GREEDY, max_tokens, ignore_eos=True), token_prompts(N_SLOTS)[slot])
    for _ in range(3):
        bench.backend.step()
