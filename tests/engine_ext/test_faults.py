"""What the library refuses costs time and leaves a record; it never changes the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.engine.events import FallbackReason, Kind, Mechanism
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SlotTask
from tests.engine_ext.harness import GREEDY, open_bench, run, token_prompts

N_SLOTS = 2


@pytest.mark.parametrize(
    ("mode", "fault", "reason", "asked"),
    [
        (CheckpointMode.HOST, "restore", FallbackReason.RESTORE_FAILED, Mechanism.HOST),
        (CheckpointMode.HOST, "save", FallbackReason.NO_MEMORY, Mechanism.HOST),
        (CheckpointMode.AUTO, "drop_tail", FallbackReason.REFUSED, Mechanism.ROLLBACK),
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
        for slot in range(N_SLOTS):
            bench.submit(SlotTask(slot, Prompt(), GREEDY, 60, ignore_eos=True), token_prompts(N_SLOTS)[slot])
        for _ in range(3):
            bench.backend.step()
        bench.backend._engine.inject_faults(**{fault: 3})
        results = bench.finish()
        fallbacks = bench.ring.read()
        assert bench.backend.checkpoint_counts().n_fallbacks == 3
    fallbacks = fallbacks[fallbacks["kind"] == Kind.FALLBACK]
    assert [result.tokens for result in results] == expected.tokens
    assert fallbacks["code"].tolist() == [reason] * 3
    assert fallbacks["n"].tolist() == [asked] * 3
    assert all(result.draft_n_accepted > 0 for result in results)
