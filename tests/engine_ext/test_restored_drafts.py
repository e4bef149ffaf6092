"""What is drafted after a prompt checkpoint was restored: with its hidden rows what a fresh prefill drafts; else not.

libllama rounds otherwise in decodes of other shapes. Where a restore and a fresh prefill decode the same pieces, the
comparison is of bits, so that any difference at all is one of the hidden rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.events import Kind, Operation, Records
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, Replay, SlotResult, SlotTask
from tests.engine_ext.harness import GREEDY, Bench, open_bench

SPACING = 48
N_TAILS = 4
"""Restores that are compared; without hidden rows each of them must show it."""

MODES = (CheckpointMode.ROLLBACK, CheckpointMode.HOST)
MODELS = ("demo", "qwen35", "qwen3next")


@pytest.fixture
def path_of(demo_model: Path, made_model: Callable[[str], Path]) -> Callable[[str], Path]:
    """Path of a model of this file."""
    return lambda name: demo_model if name == "demo" else made_model(name)


def _settings(mode: CheckpointMode = CheckpointMode.ROLLBACK, **changes: object) -> ContextSettings:
    common = ContextSettings(
        n_slots=1,
        n_ctx=512,
        checkpoint=mode,
        n_threads=1,
        replay=Replay.RIDE,  # by measured costs, shapes of decodes would depend on times
        prompt_checkpoint_spacing=SPACING,
        prompt_cache_mib=0,
    )
    return dataclasses.replace(common, **changes)  # type: ignore[arg-type]


def _prompt(tail: int, n: int = 80) -> tuple[int, ...]:
    """The first ``SPACING`` tokens are those of every tail."""
    return tuple((i * 37 + (0 if i < SPACING else tail * 11)) % 190 + 5 for i in range(n))


@dataclasses.dataclass(frozen=True)
class _Done:
    result: SlotResult
    records: Records
    n_prompt_decodes: int

    def drafts(self, n_rounds: int | None = None) -> list[tuple[int, int, int, float]]:
        """(position, draft position, token, probability) of every drafted token, or those of the first rounds."""
        rows = self.records[(self.records["kind"] == Kind.TOKEN) & (self.records["n"] > 0)]
        if n_rounds is not None:
            rows = rows[rows["round"] < rows["round"][0] + n_rounds]
        return [(int(r["position"]), int(r["n"]), int(r["token"]), float(r["value"])) for r in rows]

    def operations(self, operation: Operation) -> Records:
        """The records of one kind of operation."""
        return self.records[(self.records["kind"] == Kind.OPERATION) & (self.records["code"] == operation)]


def _run(bench: Bench, prompt: tuple[int, ...], *, reuse: bool = True, max_tokens: int = 32) -> _Done:
    bench.ring.read()
    before = bench.backend.decode_counts().prompt
    bench.submit(SlotTask(0, Prompt(), GREEDY, max_tokens, (), True, reuse), prompt)
    (result,) = bench.finish()
    return _Done(result, bench.ring.read(), bench.backend.decode_counts().prompt - before)


def _after_edits(path: Path, settings: ContextSettings) -> list[_Done]:
    """Tail 0, and then one tail after the other in its place."""
    with open_bench(path, settings) as bench:
        _run(bench, _prompt(0))
        return [_run(bench, _prompt(tail)) for tail in range(1, 1 + N_TAILS)]


def _fresh(path: Path, settings: ContextSettings) -> list[_Done]:
    with open_bench(path, settings) as bench:
        return [_run(bench, _prompt(tail), reuse=False) for tail in range(1, 1 + N_TAILS)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", MODELS)
def test_that_with_hooks_a_restore_drafts_bit_for_bit_what_a_fresh_prefill_does(
    path_of: Callable[[str], Path], model: str, mode: CheckpointMode
) -> None:
    path = path_of(model)
    for restored, fresh in zip(_after_edits(path, _settings(mode)), _fresh(path, _settings(mode)), strict=True):
        assert (restored.result.reuse, restored.result.n_reused) == ("restored", SPACING)
        assert fresh.result.n_reused == 0
        assert restored.result.tokens == fresh.result.tokens
        assert restored.drafts() == fresh.drafts() != []


@pytest.mark.parametrize("model", MODELS)
def test_that_without_hooks_every_restore_drafts_otherwise(path_of: Callable[[str], Path], model: str) -> None:
    path = path_of(model)
    bare = _after_edits(path, _settings(use_hooks=False))
    for restored, fresh in zip(bare, _fresh(path, _settings()), strict=True):
        assert restored.result.reuse == "restored"
        assert restored.result.tokens == fresh.result.tokens
        assert restored.drafts() != fresh.drafts()


def _said(turn: int, n: int = 30) -> tuple[int, ...]:
    return tuple((i * 23 + turn * 61) % 190 + 5 for i in range(n))


def _talk(path: Path, settings: ContextSettings, *, is_edited: bool) -> tuple[_Done, int]:
    """The reply to the second turn, said at once or after two other turns; and where that turn begins."""
    with open_bench(path, settings) as bench:
        start = _said(0, 60)
        start += _run(bench, start).result.tokens
        if is_edited:
            held = start + _said(1)
            held += _run(bench, held).result.tokens + _said(2)
            _run(bench, held)
        return _run(bench, start + _said(3)), len(start)


@pytest.mark.parametrize("model", MODELS)
def test_that_an_edited_conversation_drafts_bit_for_bit_as_one_that_was_had_that_way(
    path_of: Callable[[str], Path], model: str
) -> None:
    settings = _settings(prompt_checkpoint_spacing=256)
    edited, n_before = _talk(path_of(model), settings, is_edited=True)
    straight, _ = _talk(path_of(model), settings, is_edited=False)
    assert (edited.result.reuse, straight.result.reuse) == ("restored", "kept")
    # All but the last token of a reply is in memory when the reply ends.
    assert edited.result.n_reused == straight.result.n_reused == n_before - 1
    assert edited.result.tokens == straight.result.tokens
    assert edited.result.accepted_at == straight.result.accepted_at
    assert edited.drafts() == straight.drafts() != []


@pytest.mark.parametrize("model", MODELS)
def test_that_without_hooks_an_edited_conversation_drafts_otherwise(path_of: Callable[[str], Path], model: str) -> None:
    settings = _settings(prompt_checkpoint_spacing=256)
    bare, _ = _talk(path_of(model), dataclasses.replace(settings, use_hooks=False), is_edited=True)
    straight, _ = _talk(path_of(model), settings, is_edited=False)
    assert bare.result.reuse == "restored"
    assert bare.result.tokens == straight.result.tokens
    assert bare.drafts() != straight.drafts()


def test_that_without_hooks_the_first_draft_of_a_prompt_that_comes_again_misses_its_row(demo_model: Path) -> None:
    for use_hooks in (True, False):
        with open_bench(demo_model, _settings(use_hooks=use_hooks)) as bench:
            first = _run(bench, _prompt(0))
            again = _run(bench, _prompt(0))
        assert again.result.tokens == first.result.tokens
        probabilities = [[draft[3] for draft in done.drafts(1)] for done in (first, again)]
        difference = float(np.abs(np.subtract(*probabilities)).max())
        assert difference == 0.0 if use_hooks else difference > 0.01


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", MODELS)
def test_that_a_prompt_that_comes_again_is_not_decoded_at_all(
    path_of: Callable[[str], Path], model: str, mode: CheckpointMode
) -> None:
    with open_bench(path_of(model), _settings(mode)) as bench:
        first, again = _run(bench, _prompt(0)), _run(bench, _prompt(0))
    assert (again.result.reuse, again.result.n_reused) == ("restored", len(_prompt(0)))
    assert (first.n_prompt_decodes, again.n_prompt_decodes) == (4, 0)  # two pieces, in both contexts
    assert again.result.tokens == first.result.tokens
    assert again.drafts() == first.drafts()


def test_that_the_same_prompt_samples_anew_from_kept_logits_with_another_seed(demo_model: Path) -> None:
    tokens = []
    with open_bench(demo_model, _settings()) as bench:
        for reuse in (True, False):
            for seed in range(6):
                sampling = dataclasses.replace(GREEDY, temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=seed)
                bench.submit(SlotTask(0, Prompt(), sampling, 1, (), True, reuse), _prompt(0))
                (result,) = bench.finish()
                tokens.append(result.tokens)
    assert tokens[:6] == tokens[6:]  # kept logits and decoded ones
    assert len(set(tokens)) > 2


def test_that_prompt_checkpoints_cut_no_decode_of_a_short_prompt(demo_model: Path) -> None:
    for mib in (0, 64):
        settings = _settings(prompt_checkpoints_mib=mib, prompt_checkpoint_spacing=256)
        with open_bench(demo_model, settings) as bench:
            done = _run(bench, _prompt(0))
        assert done.n_prompt_decodes == 2  # one in the target, one in the MTP context
        assert len(done.operations(Operation.PROMPT_SAVE)) == (1 if mib else 0)


def test_that_the_time_to_the_first_token_has_the_restore_in_it(demo_model: Path) -> None:
    with open_bench(demo_model, _settings()) as bench:
        _run(bench, _prompt(0))
        again = _run(bench, _prompt(0))
    taken_up = again.operations(Operation.SUBMIT)
    assert again.result.ttft_ms * 1e6 >= int(taken_up["duration_ns"][0]) > 0


def test_that_a_submit_says_how_much_the_slot_had_of_its_prompt(demo_model: Path) -> None:
    with open_bench(demo_model, _settings()) as bench:
        fresh, edited = _run(bench, _prompt(0), reuse=False), _run(bench, _prompt(1, n=70))
    assert np.isnan(fresh.operations(Operation.SUBMIT)["value"][0])
    assert edited.operations(Operation.SUBMIT)["value"][0] == SPACING
