"""Chained heads and assistants: their drafts are those of an independent reference, and no text depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import ENGINE_TRACK, Kind, Phase
from draftscope.engine.library import core
from draftscope.engine.protocol import CatchUp, CheckpointMode, ContextSettings, ModelSettings, Prompt, SlotTask
from draftscope.engine.ring import Ring, ring_bytes
from tests.engine_ext.bare_llama import Context, Row, load
from tests.engine_ext.harness import GREEDY, Bench, Run, run, token_prompts
from tests.engine_ext.test_library import run_on_stock_package

PATHS = {
    "step35": (3, "chained_heads"),
    "mimo2": (2, "chained_heads"),
    "hy_v3": (2, "chained_heads"),
    "gemma4": (5, "assistant"),
}
"""Name of the model -> the longest draft that is tested, and the family."""
WITHOUT_MTP = ContextSettings(use_mtp=False, n_threads=1)


@dataclass(frozen=True)
class Pair:
    """A model and, where it has one, its assistant."""

    path: Path
    draft_path: Path | None
    n_most: int
    family: str

    def run(self, n_slots: int, **changes: object) -> Run:
        """Prompts of different lengths in that many slots, 96 tokens each."""
        return self.run_prompts(token_prompts(n_slots), **changes)

    def run_prompts(self, prompts: list[str | tuple[int, ...]], **changes: object) -> Run:
        """The same with given prompts."""
        given = {"n_threads": 1, "n_draft_max": self.n_most} | changes
        settings = ContextSettings(**given)  # type: ignore[arg-type]
        return run(self.path, prompts, settings, max_tokens=96, **self.files)

    @property
    def files(self) -> dict[str, object]:
        """Fields of ``ModelSettings`` beside the path."""
        return {"draft_path": str(self.draft_path)} if self.draft_path else {}


@pytest.fixture(params=PATHS)
def pair(request: pytest.FixtureRequest, made_model: Callable[[str], Path]) -> Pair:
    """Each family that drafts otherwise than with a single head."""
    name = request.param
    return Pair(made_model(name), made_model("gemma4-assistant") if name == "gemma4" else None, *PATHS[name])


@pytest.mark.parametrize("n_slots", [1, 4])
def test_that_the_tokens_are_those_without_mtp_whatever_the_draft_length(pair: Pair, n_slots: int) -> None:
    plain = run(pair.path, token_prompts(n_slots), WITHOUT_MTP, max_tokens=96)
    for n_draft_max in range(1, pair.n_most + 1):
        drafted = pair.run(n_slots, n_draft_max=n_draft_max)
        assert drafted.tokens == plain.tokens
        assert drafted.report.speculation.family == pair.family
        assert drafted.report.way_back.granted == "kv_removal"
        assert drafted.checkpoints.n_fallbacks == 0


def test_that_acceptance_is_far_above_chance_at_every_draft_position_of_the_chain(pair: Pair) -> None:
    done = pair.run(4)
    for position in range(min(3, pair.n_most)):
        accepted = sum(result.accepted_at[position] for result in done.results)
        drafted = sum(result.drafted_at[position] for result in done.results)
        assert accepted / drafted > 0.2, position  # of 288 tokens one is right by chance in 0.3 %


def test_that_the_same_prompt_gives_the_same_drafts_in_every_slot(pair: Pair) -> None:
    done = pair.run_prompts([token_prompts(2)[1]] * 4)
    assert len(set(done.tokens)) == 1
    assert done.drafts(0) == done.drafts(1) == done.drafts(2) == done.drafts(3)
    assert len(done.drafts(0)) > 60


def test_that_a_slot_drafts_alike_alone_and_among_others(pair: Pair) -> None:
    among = pair.run(4)
    for slot, prompt in enumerate(token_prompts(4)):
        alone = pair.run_prompts([prompt])
        n = len(alone.drafts(0))
        assert alone.drafts(0) == among.drafts(slot)[:n]


def test_that_riding_catch_up_rows_reach_every_head_like_those_in_decodes_of_their_own(pair: Pair) -> None:
    riding, alone = pair.run(4), pair.run(4, catch_up=CatchUp.ALONE)
    assert [riding.drafts(slot) for slot in range(4)] == [alone.drafts(slot) for slot in range(4)]
    n_heads = pair.n_most if pair.family == "chained_heads" else 0
    assert riding.counts.catch_up == 0
    assert (alone.counts.catch_up > 0) == (n_heads > 0)
    assert alone.counts.catch_up % max(1, n_heads) == 0


def test_that_a_long_prompt_in_chunks_reaches_every_head(pair: Pair) -> None:
    prompt = tuple((step * 37) % 190 + 5 for step in range(150))
    whole = pair.run_prompts([prompt, prompt[:20]], n_batch=512)
    chunks = pair.run_prompts([prompt, prompt[:20]], n_batch=32)
    assert chunks.tokens == whole.tokens
    for slot in (0, 1):  # the end of a task cuts drafts by what other slots have left to do
        n = min(len(chunks.drafts(slot)), len(whole.drafts(slot))) - pair.n_most
        assert chunks.drafts(slot)[:n] == whole.drafts(slot)[:n]
        assert n > 60
    assert chunks.counts.prompt > whole.counts.prompt


# ---- drafts of libllama alone


def drafts_by_round(done: Run) -> Iterator[tuple[int, list[int]]]:
    """(tokens that the slot had, draft) of each round of slot 0."""
    draft: list[int] = []
    first = 0
    for position, n, token in done.drafts(0):
        if n == 1:
            if draft:
                yield first, draft
            first, draft = position, []
        draft.append(token)
    yield first, draft


def best(context: Context) -> int:
    return int(np.argmax(context.logits()))


@pytest.mark.parametrize("name", ["step35", "mimo2", "hy_v3"])
def test_that_chained_heads_draft_what_a_context_for_each_head_drafts(
    name: str, made_model: Callable[[str], Path]
) -> None:
    n_heads, prompt = PATHS[name][0], token_prompts(2)[1]
    assert isinstance(prompt, tuple)
    done = Pair(made_model(name), None, *PATHS[name]).run_prompts([prompt])
    model = load(made_model(name))
    assert model is not None
    target = Context(model)
    target.keep_hidden_rows(masked=False)
    heads = [Context(model, target=target) for _ in range(n_heads)]
    for number, head in enumerate(heads):
        head.keep_hidden_rows(masked=False)
        head.choose_head(number)
    tokens, hidden, n_fed = [*prompt, *done.tokens[0]], [], 0
    n_drafts = 0
    for n_tokens, draft in drafts_by_round(done):
        while len(hidden) < n_tokens:
            target.decode([Row(0, tokens[len(hidden)], len(hidden))])
            hidden.append(target.hidden(0))
        hidden_of = [np.zeros_like(hidden[0]), *hidden]  # no token comes before the first
        rows = [Row(0, tokens[p], p, hidden=hidden_of[p]) for p in range(n_tokens)]
        own: list[np.ndarray] = []
        for step, head in enumerate(heads[: len(draft)]):
            head.remove_from(0, n_fed)
            chain = [Row(0, draft[i], n_tokens + i, hidden=own[i]) for i in range(step)]
            head.decode([*rows[n_fed:], *chain])
            assert best(head) == draft[step], (n_tokens, step)
            own.append(head.hidden(n_tokens - n_fed + step - 1))
            n_drafts += 1
        for head in heads:  # so that every head keeps the true tokens, also one that an ending round has left out
            head.remove_from(0, n_fed)
            head.decode(rows[n_fed:])
        n_fed = n_tokens
    assert n_drafts > 80
    for context in (*heads, target):
        context.free()


def test_that_an_assistant_drafts_what_one_beside_an_undisturbed_target_drafts(
    random_gemma4: tuple[Path, Path],
) -> None:
    prompt = token_prompts(2)[1]
    assert isinstance(prompt, tuple)
    done = Pair(*random_gemma4, *PATHS["gemma4"]).run_prompts([prompt])
    model, of_assistant = (load(path) for path in random_gemma4)
    assert model is not None and of_assistant is not None
    target = Context(model)
    target.keep_hidden_rows(masked=False)
    assistant = Context(of_assistant, target=target)
    assistant.keep_hidden_rows(masked=True)
    tokens, n_decoded, n_drafts = [*prompt, *done.tokens[0]], 0, 0
    row = np.zeros(0, dtype=np.float32)
    for n_tokens, draft in drafts_by_round(done):
        while n_decoded < n_tokens - 1:
            target.decode([Row(0, tokens[n_decoded], n_decoded)])
            row = target.hidden(0)
            n_decoded += 1
        given, own = tokens[n_tokens - 1], row
        for step, token in enumerate(draft):
            assistant.decode([Row(0, given, n_tokens - 1, hidden=own)])
            assert best(assistant) == token, (n_tokens, step)
            given, own = token, assistant.hidden(0)
            n_drafts += 1
    assert n_drafts > 80
    assistant.free()
    target.free()


# ---- what it costs, and what is told


@pytest.mark.parametrize("n_slots", [1, 4])
def test_that_a_round_takes_one_target_decode_and_one_mtp_decode_for_each_drafted_token(
    pair: Pair, n_slots: int
) -> None:
    counts = pair.run(n_slots).counts
    assert (counts.target, counts.draft) == (counts.rounds, pair.n_most * counts.rounds)
    assert (counts.replay, counts.catch_up) == (0, 0)
    if n_slots == 1 or pair.family == "assistant":  # else slots bring different numbers of catch-up rows
        assert counts.draft_graph_runs == counts.draft


def test_that_prompts_are_fed_once_to_each_driven_head_and_never_to_an_assistant(pair: Pair) -> None:
    prompts = [tuple(range(5, 25))]
    for n_draft_max in (1, pair.n_most):
        done = pair.run_prompts(prompts, n_draft_max=n_draft_max)
        n_heads = n_draft_max if pair.family == "chained_heads" else 0
        assert (done.counts.prompt, done.counts.prompt_graph_runs) == (1 + n_heads, 1 + n_heads)


def test_that_counts_of_the_engine_equal_the_records(pair: Pair) -> None:
    done = pair.run(4)
    spans = done.records[(done.records["kind"] == Kind.SPAN) & (done.records["slot"] == ENGINE_TRACK)]
    for phase, calls, runs in (
        (Phase.DRAFT, done.counts.draft, done.counts.draft_graph_runs),
        (Phase.PROMPT, done.counts.prompt, done.counts.prompt_graph_runs),
    ):
        of_phase = spans[spans["code"] == phase]
        assert (len(of_phase), int(of_phase["m"].sum())) == (calls, runs), phase


def test_that_a_chain_drafts_at_most_one_token_for_each_head_and_says_so(random_step35: Path) -> None:
    done = run(random_step35, token_prompts(1), ContextSettings(n_draft_max=8, n_threads=1))
    speculation = done.report.speculation
    assert (speculation.is_active, speculation.n_draft_max, speculation.n_layer_nextn) == (True, 3, 3)
    assert speculation.reason == (
        "This model chains 3 MTP heads, one for each draft step: 3 tokens are drafted a round, not 8."
    )
    assert len(done.results[0].drafted_at) == 3
    within = run(random_step35, token_prompts(1), ContextSettings(n_draft_max=2, n_threads=1))
    assert (within.report.speculation.n_draft_max, within.report.speculation.reason) == (2, "")


def test_that_memory_is_measured_as_predicted(pair: Pair) -> None:
    memory = {use.kind: use for use in pair.run(4).report.memory}
    assert memory["draft"].host_bytes == memory["draft"].predicted_bytes
    assert (memory["draft"].host_bytes > 0) == (pair.family == "chained_heads")
    assert memory["kv"].host_bytes == memory["kv"].predicted_bytes
    sizes = pair.path.stat().st_size + (pair.draft_path.stat().st_size if pair.draft_path else 0)
    assert memory["weights"].predicted_bytes == sizes
    assert 0.8 * sizes < memory["weights"].host_bytes < sizes
    undrafted = {use.kind: use for use in pair.run(4, n_draft_max=0).report.memory}
    assert undrafted["weights"].predicted_bytes == pair.path.stat().st_size
    assert 0.8 < undrafted["weights"].host_bytes / undrafted["weights"].predicted_bytes < 1


def test_that_a_model_without_its_assistant_runs_and_says_how_to_give_it(random_gemma4: tuple[Path, Path]) -> None:
    done = run(random_gemma4[0], token_prompts(1))
    assert not done.report.speculation.is_active
    assert "--draft-model" in done.report.speculation.reason
    assert "open dialog" in done.report.speculation.reason
    assert len(done.tokens[0]) == 64


# ---- life of slots and contexts


def task(slot: int, max_tokens: int = 96) -> SlotTask:
    return SlotTask(slot, Prompt(), GREEDY, max_tokens, ignore_eos=True)


def test_that_a_cancelled_slot_starts_afresh_beside_one_that_goes_on(pair: Pair) -> None:
    prompts = token_prompts(2)
    bench = Bench()
    bench.load(pair.path, ContextSettings(n_slots=2, n_draft_max=pair.n_most, n_threads=1), **pair.files)
    for slot in (0, 1):
        bench.submit(task(slot), prompts[slot])
    for _ in range(6):
        assert bench.backend.step()
    bench.backend.cancel((0,))
    bench.backend.step()
    assert [result.stop for result in bench.backend.take_results()] == ["cancelled"]
    bench.submit(task(0), prompts[0])
    results = bench.finish()
    bench.backend.unload()
    assert [result.tokens for result in results] == pair.run(2).tokens
    assert results[0].draft_n_accepted > 0


def test_that_a_refused_removal_prefills_the_slot_again_with_the_same_text(pair: Pair) -> None:
    bench = Bench()
    bench.load(pair.path, ContextSettings(n_slots=1, n_draft_max=pair.n_most, n_threads=1), **pair.files)
    bench.submit(task(0), token_prompts(1)[0])
    bench.backend.step()
    bench.backend._engine.inject_faults(drop_tail=1)
    results = bench.finish()
    assert bench.backend.checkpoint_counts().n_fallbacks == 1
    bench.backend.unload()
    assert results[0].tokens == pair.run(1).tokens[0]


def test_that_new_contexts_draft_as_the_first_ones(pair: Pair) -> None:
    bench = Bench()
    settings = ContextSettings(n_slots=2, n_draft_max=pair.n_most, n_threads=1)
    bench.load(pair.path, ContextSettings(n_slots=4, use_mtp=False, n_threads=1), **pair.files)
    texts = []
    for changed in (settings, ContextSettings(n_slots=2, n_draft_max=0, n_threads=1), settings):
        report = bench.backend.configure(changed)
        assert report.speculation.is_active == (changed.n_draft_max > 0)
        for slot, prompt in enumerate(token_prompts(2)):
            bench.submit(task(slot), prompt)
        texts.append([result.tokens for result in bench.finish()])
    bench.backend.unload()
    assert texts[0] == texts[1] == texts[2] == pair.run(2).tokens


def test_that_the_stock_package_drives_every_family_with_the_same_text(pair: Pair) -> None:
    there = run_on_stock_package(pair.path, pair.draft_path)
    here = pair.run(4, n_draft_max=3)
    report = there["report"]
    assert isinstance(report, dict)
    assert not report["is_patched"]
    assert report["speculation"]["family"] == pair.family
    assert [tuple(tokens) for tokens in there["tokens"]] == here.tokens  # type: ignore[attr-defined]
    assert there["accepted"] == sum(result.draft_n_accepted for result in here.results)


# ---- pairs that do not belong together

_NOT_A_PAIR = {
    "assistant-of-other-width": "reads hidden rows of 48 numbers, and this model's have 64",
    "assistant-of-fewer-tokens": "has a vocabulary of 280 tokens, and this model has 288",
    "assistant-of-other-tokens": "the same numbers stand for other tokens",
    "assistant-of-more-keys": "as 2 heads of 32, and this model keeps 1 head of 32",
    "assistant-of-other-window": "a sliding window of 32 tokens, and this model one of 64",
    "assistant-without-projection": "nextn.pre_projection",
    "assistant-with-a-trunk": "1 layers that are no MTP layers",
    "assistant-without-window": "no layer with a sliding window",
    "qwen35": "is no assistant",
    "mtp-layers-only": "is no assistant",
    "truncated": "needs at least",
    "vocabulary-only": "is no assistant",
}


@pytest.mark.parametrize("name", _NOT_A_PAIR)
def test_that_a_pair_that_does_not_belong_together_is_refused(name: str, made_model: Callable[[str], Path]) -> None:
    with pytest.raises(EngineError) as caught:
        run(made_model("gemma4"), token_prompts(1), draft_path=str(made_model(name)))
    assert caught.value.code in (ErrorCode.UNSUPPORTED_MODEL, ErrorCode.BAD_FILE)
    assert _NOT_A_PAIR[name] in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("qwen35", "does not draft with an assistant"),
        ("dense", "does not draft with an assistant"),
        ("gemma-that-ends-in-a-window", "has none in the layer where they are looked for"),
    ],
)
def test_that_a_target_that_the_assistant_is_not_made_for_is_refused(
    target: str, reason: str, made_model: Callable[[str], Path]
) -> None:
    for settings in (ContextSettings(n_threads=1), WITHOUT_MTP):
        with pytest.raises(EngineError, match=reason):
            run(made_model(target), token_prompts(1), settings, draft_path=str(made_model("gemma4-assistant")))


def test_that_a_missing_draft_file_is_told_by_its_name(random_gemma4: tuple[Path, Path]) -> None:
    bench = Bench()
    with pytest.raises(EngineError, match="nowhere") as caught:
        bench.load(random_gemma4[0], ContextSettings(n_threads=1), draft_path="/nowhere.gguf")
    assert caught.value.code is ErrorCode.BAD_FILE
    assert bench.load(random_gemma4[0], ContextSettings(n_threads=1)).n_slots == 4
    bench.backend.unload()


@pytest.mark.parametrize("name", ["assistant-of-other-width", "assistant-of-fewer-tokens", "dense"])
def test_that_the_core_itself_refuses_what_libllama_would_end_the_process_on(
    name: str, made_model: Callable[[str], Path]
) -> None:
    memory = bytearray(ring_bytes(1 << 10))
    Ring.create(memoryview(memory), 1 << 10)
    engine = core.Engine(memoryview(memory))
    where = {"n_gpu_layers": -1, "devices": [], "use_mmap": True, "rpc_endpoints": [], "progress": lambda _: True}
    engine.load(str(made_model("gemma4")), mtp_obstacle="", **where)
    with pytest.raises(EngineError) as caught:
        engine.load_assistant(str(made_model(name)), **where)
    assert caught.value.code is ErrorCode.UNSUPPORTED_MODEL
    engine.load_assistant(str(made_model("gemma4-assistant")), **where)
    engine.unload()


def test_that_loading_an_assistant_can_be_cancelled(random_gemma4: tuple[Path, Path]) -> None:
    bench, stages = Bench(), []

    def stop(_fraction: float, stage: str) -> bool:
        stages.append(stage)
        return stage != "draft weights"

    model = ModelSettings(str(random_gemma4[0]), draft_path=str(random_gemma4[1]))
    with pytest.raises(EngineError) as caught:
        bench.backend.load(model, ContextSettings(n_threads=1), stop)
    assert caught.value.code is ErrorCode.CANCELLED
    assert "weights" in stages


def test_that_checkpoint_modes_that_were_asked_for_change_nothing(pair: Pair) -> None:
    asked = [pair.run(2, checkpoint=mode) for mode in CheckpointMode]
    assert {done.report.way_back.granted for done in asked} == {"kv_removal"}
    assert all(done.tokens == asked[0].tokens for done in asked)
