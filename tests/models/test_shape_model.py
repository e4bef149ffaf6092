"""The random model with the recurrent state of a real one: its size, and that it runs in every way back that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.engine.protocol import CheckpointMode, ContextSettings
from tests.engine_ext.harness import TEXTS, Run, run
from tests.models import make_shape_model
from tests.models.make_shape_model import ARCHITECTURES, SHAPES, state_bytes


@pytest.mark.parametrize("size", SHAPES)
def test_that_every_size_has_the_state_of_a_real_model(size: str) -> None:
    # 18 layers of 16 heads with 128 x 128 values, and 3 columns of the 6144 channels of each convolution.
    assert state_bytes(SHAPES[size]) == 18 * (16 * 128 * 128 + 3 * 6144) * 4 == 20_201_472


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_that_drafts_are_accepted_and_rejected_and_the_tokens_are_those_without(
    architecture: str, tmp_path: Path
) -> None:
    path = make_shape_model.make(tmp_path / "model.gguf", architecture, "small")

    def generate(*, use_mtp: bool = True, checkpoint: CheckpointMode = CheckpointMode.AUTO) -> Run:
        settings = ContextSettings(n_ctx=256, use_mtp=use_mtp, checkpoint=checkpoint, n_threads=1)
        return run(path, TEXTS[:2], settings, max_tokens=32)

    stepped, saved = generate(checkpoint=CheckpointMode.ROLLBACK), generate(checkpoint=CheckpointMode.HOST)
    plain = generate(use_mtp=False)
    assert (stepped.report.way_back.granted, saved.report.way_back.granted) == ("rollback", "host")
    assert stepped.tokens == saved.tokens == plain.tokens
    accepted = sum(result.draft_n_accepted for result in stepped.results)
    assert 0.2 < accepted / sum(result.draft_n for result in stepped.results) < 0.9
    n_headers = saved.report.way_back.bytes_per_slot - state_bytes(SHAPES["small"])
    assert 0 < n_headers < 1024
    assert saved.checkpoints.n_restores > 0
