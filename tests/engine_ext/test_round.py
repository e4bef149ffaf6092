"""The round on real models: the text never depends on how it was drafted or rolled back, and no decode is wasted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.events import ENGINE_TRACK, Kind, Origin, Phase
from draftscope.engine.protocol import CatchUp, CheckpointMode, ContextSettings, SamplingSettings
from tests.engine_ext.harness import TEXTS, run, token_prompts

MODES = tuple(CheckpointMode)
FAMILIES = ("random_qwen35", "random_qwen35moe", "random_qwen3next", "random_glm4moe", "random_step35")
WITHOUT_MTP = ContextSettings(use_mtp=False, n_threads=1)


def settings(**changes: object) -> ContextSettings:
    # By name: what auto measures may depend on what else the machine does.
    return ContextSettings(**({"n_threads": 1, "checkpoint": CheckpointMode.ROLLBACK} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("n_slots", [1, 4])
@pytest.mark.parametrize("mode", MODES)
def test_that_the_demo_writes_the_same_tokens_with_and_without_mtp(
    demo_model: Path, n_slots: int, mode: CheckpointMode
) -> None:
    plain = run(demo_model, TEXTS[:n_slots], WITHOUT_MTP)
    drafted = run(demo_model, TEXTS[:n_slots], settings(checkpoint=mode))
    assert drafted.tokens == plain.tokens
    assert all(result.draft_n > 0 for result in drafted.results)


@pytest.mark.parametrize("n_slots", [1, 4])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_that_every_family_writes_the_same_tokens_with_and_without_mtp(
    family: str, mode: CheckpointMode, n_slots: int, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(family)
    plain = run(model, token_prompts(n_slots), WITHOUT_MTP, max_tokens=96)
    drafted = run(model, token_prompts(n_slots), settings(checkpoint=mode), max_tokens=96)
    assert drafted.tokens == plain.tokens
    assert sum(result.draft_n_accepted for result in drafted.results) > 0
    assert drafted.checkpoints.n_fallbacks == 0


@pytest.mark.parametrize("n_draft_max", [1, 2, 3, 5, 8])
def test_that_the_draft_length_does_not_change_the_text(demo_model: Path, n_draft_max: int) -> None:
    plain = run(demo_model, TEXTS, WITHOUT_MTP)
    drafted = run(demo_model, TEXTS, settings(n_draft_max=n_draft_max))
    assert drafted.tokens == plain.tokens


def test_that_sampling_with_a_seed_gives_the_same_text_with_and_without_mtp(demo_model: Path) -> None:
    sampling = SamplingSettings(temperature=0.7, repeat_penalty=1.1, seed=42)
    plain = run(demo_model, TEXTS, WITHOUT_MTP, sampling=sampling)
    drafted = run(demo_model, TEXTS, settings(), sampling=sampling)
    assert drafted.tokens == plain.tokens
    other = run(demo_model, TEXTS, settings(), sampling=SamplingSettings(temperature=0.7, repeat_penalty=1.1, seed=43))
    assert other.tokens != drafted.tokens


@pytest.mark.parametrize("n_slots", [1, 4])
def test_that_a_round_with_native_rollback_takes_one_target_decode_and_k_mtp_decodes(
    demo_model: Path, n_slots: int
) -> None:
    done = run(demo_model, TEXTS[:n_slots], settings(n_draft_max=3))
    assert done.report.way_back.granted == "rollback"
    assert (done.counts.target, done.counts.draft) == (done.counts.rounds, 3 * done.counts.rounds)
    assert (done.counts.replay, done.counts.catch_up) == (0, 0)


def test_that_host_checkpoints_add_only_replays_to_the_target_decodes(random_qwen3next: Path) -> None:
    done = run(random_qwen3next, token_prompts(4), settings(checkpoint=CheckpointMode.HOST), max_tokens=96)
    assert done.report.way_back.granted == "host"
    assert done.counts.target == done.counts.rounds + done.counts.replay
    assert 0 < done.counts.replay < done.counts.rounds
    assert done.counts.draft == 3 * done.counts.rounds


@pytest.mark.parametrize("n_slots", [1, 4])
@pytest.mark.parametrize("family", ["demo_model", "random_qwen35", "random_qwen3next", "random_glm4moe"])
def test_that_riding_catch_up_rows_are_accepted_like_those_in_a_decode_of_their_own(
    family: str, n_slots: int, request: pytest.FixtureRequest
) -> None:
    # Wherever the MTP graph takes its hidden tensor, before or after it selects output rows: the right row comes back.
    model = request.getfixturevalue(family)
    prompts = TEXTS[:n_slots] if family == "demo_model" else token_prompts(n_slots)
    riding = run(model, prompts, settings(), max_tokens=96)
    alone = run(model, prompts, settings(catch_up=CatchUp.ALONE), max_tokens=96)
    assert [result.accepted_at for result in riding.results] == [result.accepted_at for result in alone.results]
    assert [riding.drafts(slot) for slot in range(n_slots)] == [alone.drafts(slot) for slot in range(n_slots)]
    assert (alone.counts.catch_up > 0, riding.counts.catch_up) == (True, 0)


def test_that_the_same_prompt_gives_the_same_tokens_and_drafts_in_every_slot(demo_model: Path) -> None:
    done = run(demo_model, [TEXTS[1]] * 4, settings())
    assert len(set(done.tokens)) == 1
    assert done.drafts(0) == done.drafts(1) == done.drafts(2) == done.drafts(3)
    assert len(done.drafts(0)) > 20


def test_that_a_slot_drafts_alike_alone_and_among_others(demo_model: Path) -> None:
    among = run(demo_model, TEXTS, settings())
    for slot, text in enumerate(TEXTS):
        alone = run(demo_model, [text], settings())
        assert alone.tokens[0] == among.tokens[slot]
        # The last round verifies only what a task has room for, or that of another slot: the last token is the target's
        # own choice alone then, and may be an accepted one among others.
        n = len(alone.drafts(0))
        assert alone.drafts(0) == among.drafts(slot)[:n] and len(among.drafts(slot)) <= n + 1
        # Bit for bit: the probability of each token is made from all logits of its row.
        assert alone.probabilities(0)[:-1] == among.probabilities(slot)[:-1]


def test_that_counts_of_the_engine_equal_the_records(demo_model: Path) -> None:
    done = run(demo_model, TEXTS, settings())
    spans = done.records[(done.records["kind"] == Kind.SPAN) & (done.records["slot"] == ENGINE_TRACK)]
    for phase, calls, runs in (
        (Phase.VERIFY, done.counts.target, done.counts.target_graph_runs),
        (Phase.DRAFT, done.counts.draft, done.counts.draft_graph_runs),
        (Phase.PROMPT, done.counts.prompt, done.counts.prompt_graph_runs),
    ):
        of_phase = spans[spans["code"] == phase]
        assert (len(of_phase), int(of_phase["m"].sum())) == (calls, runs), phase
    tokens = done.records[done.records["kind"] == Kind.TOKEN]
    for result in done.results:
        mine = tokens[tokens["slot"] == result.slot]
        kept = mine[mine["code"] != Origin.REJECTED]
        assert tuple(kept["token"].tolist()) == result.tokens
        assert int((mine["code"] == Origin.ACCEPTED).sum()) == result.draft_n_accepted
        rounds = done.records[(done.records["kind"] == Kind.ROUND) & (done.records["slot"] == result.slot)]
        assert (len(rounds), int(rounds["n"].sum()), int(rounds["m"].sum())) == (
            result.n_rounds,
            result.draft_n,
            result.draft_n_accepted,
        )


def test_that_records_are_in_order_and_probabilities_are_probabilities(demo_model: Path) -> None:
    records = run(demo_model, TEXTS, settings()).records
    assert np.array_equal(records["sequence"], np.arange(len(records)))
    assert (records["duration_ns"] >= 0).all()
    probabilities = records[records["kind"] == Kind.TOKEN]["value"]
    assert ((probabilities > 0) & (probabilities <= 1)).all()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_that_alternating_batch_shapes_give_the_logits_of_a_fresh_context(demo_model: Path, n_threads: int) -> None:
    from tests.engine_ext.harness import open_bench

    with open_bench(demo_model, ContextSettings(n_slots=4, n_threads=n_threads)) as bench:
        tokens = list(bench.backend.tokenize(TEXTS[1] * 3, parse_special=True, add_special=True))[:24]
        fresh = np.array(bench.backend._engine.logits_of(0, tokens, [24]))
        shapes = ([1] * 24, [4] * 6, [23, 1], [1, 23], [5, 7, 12], [3, 1, 3, 1, 16])
        for turn, chunks in enumerate(shapes * 2):
            again = np.array(bench.backend._engine.logits_of(turn % 4, tokens, chunks))
            assert np.array_equal(again, fresh), chunks
