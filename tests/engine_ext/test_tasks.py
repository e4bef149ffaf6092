"""Tasks of slots: how they end, what is refused, and that a slot starts afresh."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Kind
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    ModelSettings,
    Prompt,
    SamplingSettings,
    SlotTask,
)
from tests.engine_ext.harness import GREEDY, TEXTS, Bench, open_bench, run, token_prompts


def task(slot: int = 0, **changes: object) -> SlotTask:
    return SlotTask(
        **({"slot": slot, "prompt": Prompt(), "sampling": GREEDY, "max_tokens": 32, "ignore_eos": True} | changes)
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 4, 5, 17])
def test_that_a_task_ends_exactly_at_its_token_limit(demo_model: Path, max_tokens: int) -> None:
    done = run(demo_model, TEXTS, max_tokens=max_tokens)
    assert [len(result.tokens) for result in done.results] == [max_tokens] * 4
    assert {result.stop for result in done.results} == {"max_tokens"}


def test_that_a_stop_string_ends_the_text_before_itself(demo_model: Path) -> None:
    free = run(demo_model, TEXTS[1:2])
    stop = free.results[0].text[10:16]
    stopped = run(demo_model, TEXTS[1:2], stop=(stop,))
    assert stopped.results[0].stop == "stop_string"
    assert stopped.results[0].text == free.results[0].text.split(stop)[0]
    assert stopped.tokens[0] == free.tokens[0][: len(stopped.tokens[0])]


def test_that_generation_ends_at_the_end_of_generation_token_unless_told_to_ignore_it(demo_model: Path) -> None:
    chat = "<|im_start|>user\nWhat does the Python function close do?<|im_end|>\n<|im_start|>assistant\n"
    ended = run(demo_model, [chat], max_tokens=200, ignore_eos=False)
    assert ended.results[0].stop == "end_of_generation"
    ignored = run(demo_model, [chat], max_tokens=200, ignore_eos=True)
    assert ignored.results[0].stop == "max_tokens"


def test_that_a_slot_stops_when_its_context_is_full(demo_model: Path) -> None:
    done = run(demo_model, TEXTS, ContextSettings(n_ctx=64, n_threads=1), max_tokens=500)
    assert {result.stop for result in done.results} == {"context_full"}
    assert [result.n_prompt + len(result.tokens) for result in done.results] == [64] * 4


def test_that_a_long_prompt_is_prefilled_in_chunks_with_the_same_text(demo_model: Path) -> None:
    prompt = TEXTS[1] * 30
    whole = run(demo_model, [prompt, TEXTS[0]], ContextSettings(n_threads=1, n_batch=2048), max_tokens=24)
    chunks = run(demo_model, [prompt, TEXTS[0]], ContextSettings(n_threads=1, n_batch=32), max_tokens=24)
    assert chunks.tokens == whole.tokens
    assert chunks.counts.prompt > whole.counts.prompt
    assert chunks.drafts(0) == whole.drafts(0)


def test_that_a_second_request_drafts_like_the_first(demo_model: Path) -> None:
    # The pending hidden row of one request must not reach the next: whatever came between, a prompt drafts alike.
    with open_bench(demo_model, ContextSettings(n_slots=1, n_threads=1)) as bench:
        outcomes = []
        for prompt in (TEXTS[1], TEXTS[2], TEXTS[1]):
            bench.submit(task(), prompt)
            (result,) = bench.finish()
            records = bench.ring.read()
            assert records["round"].max() == result.n_rounds - 1  # numbered from 0 in each run
            drafted = records[(records["kind"] == Kind.TOKEN) & (records["n"] > 0)]
            outcomes.append((result.tokens, drafted["token"].tolist(), drafted["n"].tolist()))
        assert outcomes[0] == outcomes[2] != outcomes[1]


@pytest.mark.parametrize(
    ("changes", "prompt", "code"),
    [
        ({"slot": 7}, (5,), ErrorCode.BAD_SETTINGS),
        ({"slot": -1}, (5,), ErrorCode.BAD_SETTINGS),
        ({}, (), ErrorCode.BAD_PROMPT),
        ({}, (-1,), ErrorCode.BAD_PROMPT),
        ({}, (10**7,), ErrorCode.BAD_PROMPT),
        ({}, (5,) * 3000, ErrorCode.BAD_PROMPT),
        ({"max_tokens": 0}, (5,), ErrorCode.BAD_SETTINGS),
        ({"sampling": SamplingSettings(temperature=-1.0)}, (5,), ErrorCode.BAD_SETTINGS),
        ({"sampling": SamplingSettings(temperature=float("nan"))}, (5,), ErrorCode.BAD_SETTINGS),
        ({"sampling": SamplingSettings(repeat_penalty=0.0)}, (5,), ErrorCode.BAD_SETTINGS),
    ],
)
def test_that_a_bad_task_is_refused_with_a_sentence_and_nothing_starts(
    demo_model: Path, changes: dict[str, object], prompt: tuple[int, ...], code: ErrorCode
) -> None:
    with open_bench(demo_model, ContextSettings(n_slots=2, n_threads=1)) as bench:
        with pytest.raises(EngineError) as refused:
            bench.submit(task(**changes), prompt)
        assert refused.value.code is code
        assert refused.value.message.endswith(".")
        assert bench.backend.step() is False


@pytest.mark.parametrize(
    "context",
    [
        ContextSettings(n_slots=0),
        ContextSettings(n_slots=65),
        ContextSettings(n_ctx=1),
        ContextSettings(n_draft_max=17),
        ContextSettings(n_threads=257),
        ContextSettings(checkpoint=CheckpointMode.COW),
        ContextSettings(checkpoint=CheckpointMode.DEVICE),
    ],
)
def test_that_settings_out_of_range_are_refused_and_the_next_load_works(
    demo_model: Path, context: ContextSettings
) -> None:
    bench = Bench()
    with pytest.raises(EngineError) as refused:
        bench.load(demo_model, context)
    assert refused.value.code is ErrorCode.BAD_SETTINGS
    bench.load(demo_model, ContextSettings(n_slots=1, n_threads=1))
    bench.submit(task(), TEXTS[0])
    assert len(bench.finish()[0].tokens) == 32


def test_that_an_unknown_device_is_refused_with_the_names_of_those_there_are(demo_model: Path) -> None:
    bench = Bench()
    with pytest.raises(EngineError, match="no device named 'CUDA9'") as refused:
        bench.backend.load(ModelSettings(str(demo_model), devices=("CUDA9",)), ContextSettings(), lambda *_: True)
    assert "CPU" in refused.value.hint


def test_that_a_cancelled_load_leaves_nothing_loaded(demo_model: Path) -> None:
    bench = Bench()
    with pytest.raises(EngineError) as cancelled:
        bench.backend.load(ModelSettings(str(demo_model)), ContextSettings(), lambda fraction, _stage: fraction < 0.3)
    assert cancelled.value.code is ErrorCode.CANCELLED
    with pytest.raises(EngineError, match="No model is loaded"):
        bench.submit(task(), (5,))


def test_that_a_busy_slot_refuses_a_second_task(demo_model: Path) -> None:
    with open_bench(demo_model, ContextSettings(n_slots=1, n_threads=1)) as bench:
        bench.submit(task(), TEXTS[0])
        bench.backend.step()
        with pytest.raises(EngineError) as refused:
            bench.submit(task(), TEXTS[1])
        assert refused.value.code is ErrorCode.BUSY
        assert len(bench.finish()[0].tokens) == 32


@pytest.mark.parametrize("mode", [CheckpointMode.AUTO, CheckpointMode.HOST])
def test_that_cancels_at_random_moments_leave_every_slot_able_to_draft_and_be_right(
    demo_model: Path, mode: CheckpointMode
) -> None:
    chance = random.Random(7)
    expected = run(demo_model, TEXTS, ContextSettings(checkpoint=mode, n_threads=1), max_tokens=16)
    with open_bench(demo_model, ContextSettings(n_slots=4, checkpoint=mode, n_threads=1)) as bench:
        for _ in range(40):
            for slot in range(4):
                bench.submit(task(slot, max_tokens=1000), TEXTS[slot])
            delay = chance.random() * 0.02
            timer = threading.Timer(delay, bench.backend.cancel, [(chance.randrange(4),)])
            everyone = threading.Timer(delay + 0.01, bench.backend.cancel, [()])
            timer.start()
            everyone.start()
            cancelled = bench.finish()
            timer.join()
            everyone.join()
            assert {result.stop for result in cancelled} <= {"cancelled", "context_full"}
            bench.ring.read()
        for slot in range(4):
            bench.submit(task(slot, max_tokens=16), TEXTS[slot])
        again = bench.finish()
        assert [result.tokens for result in again] == expected.tokens
        assert [result.draft_n_accepted for result in again] == [result.draft_n_accepted for result in expected.results]


def test_that_slots_of_different_length_end_alone_and_the_others_go_on(random_qwen35: Path) -> None:
    lengths = (5, 40, 12, 80)
    with open_bench(random_qwen35, ContextSettings(n_slots=4, n_threads=1)) as bench:
        for slot, length in enumerate(lengths):
            bench.submit(task(slot, max_tokens=length), token_prompts(4)[slot])
        together = bench.finish()
    for slot, length in enumerate(lengths):
        alone = run(random_qwen35, [token_prompts(4)[slot]], max_tokens=length)
        assert together[slot].tokens == alone.tokens[0]


def test_that_a_full_ring_drops_and_counts_records_and_the_text_stays_right(demo_model: Path) -> None:
    expected = run(demo_model, TEXTS)
    bench = Bench(capacity=64)
    bench.load(demo_model, ContextSettings(n_slots=4, n_threads=1))
    for slot, text in enumerate(TEXTS):
        bench.submit(task(slot, max_tokens=64), text)
    results = bench.finish()
    assert [result.tokens for result in results] == expected.tokens
    assert bench.ring.n_dropped == len(expected.records) - 64
    assert len(bench.ring.read()) == 64
