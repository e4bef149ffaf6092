"""Tasks of slots: how they end, what is refused, and that a slot starts afresh."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Kind
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    ModelSettings,
    Prompt,
    Replay,
    SamplingSettings,
    SlotTask,
)
from tests.engine_ext.harness import GREEDY, TEXTS, Bench, open_bench, run, token_prompts

WITHOUT_MTP = ContextSettings(use_mtp=False, n_threads=1)
BY_NAME = ContextSettings(checkpoint=CheckpointMode.ROLLBACK, n_threads=1)


def task(slot: int = 0, **changes: object) -> SlotTask:
    return SlotTask(
        **({"slot": slot, "prompt": Prompt(), "sampling": GREEDY, "max_tokens": 32, "ignore_eos": True} | changes)
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 4, 5, 17])
def test_that_a_task_ends_exactly_at_its_token_limit(demo_model: Path, max_tokens: int) -> None:
    done = run(demo_model, TEXTS, max_tokens=max_tokens)
    assert [len(result.tokens) for result in done.results] == [max_tokens] * 4
    assert {result.stop for result in done.results} == {"max_tokens"}


@pytest.mark.parametrize("temperature", [1e-45, 1e-38, 1e-20, 1e-9, 1e-6])
def test_that_a_temperature_near_zero_is_greedy(demo_model: Path, temperature: float) -> None:
    greedy = run(demo_model, TEXTS)
    cold = run(demo_model, TEXTS, sampling=SamplingSettings(temperature=temperature, top_k=0, top_p=1.0, min_p=0.0))
    assert cold.tokens == greedy.tokens


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
    whole = run(demo_model, [prompt, TEXTS[0]], replace(BY_NAME, n_batch=2048), max_tokens=24)
    chunks = run(demo_model, [prompt, TEXTS[0]], replace(BY_NAME, n_batch=32), max_tokens=24)
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


def test_that_what_progress_raises_comes_out_of_the_load_as_it_is(demo_model: Path) -> None:
    def fail(_fraction: float, _stage: str) -> bool:
        raise BrokenPipeError("nobody listens any more")

    bench = Bench()
    with pytest.raises(BrokenPipeError, match="nobody listens"):
        bench.backend.load(ModelSettings(str(demo_model)), ContextSettings(), fail)
    bench.load(demo_model, ContextSettings(n_slots=1, n_threads=1))
    bench.submit(task(), TEXTS[0])
    assert len(bench.finish()[0].tokens) == 32


def test_that_a_load_that_failed_is_no_longer_what_the_engine_is_at(demo_model: Path) -> None:
    bench = Bench()
    with pytest.raises(EngineError):
        bench.backend.load(ModelSettings(str(demo_model), devices=("CUDA9",)), ContextSettings(), lambda *_: True)
    assert bench.ring.operation_words() == ""


def test_that_a_cancel_of_nothing_does_not_quiet_the_log_of_the_next_load(
    demo_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.backend.cancel(())
    with caplog.at_level("DEBUG", logger="draftscope.llama"):
        bench.load(demo_model, ContextSettings(n_slots=1, n_threads=1))
    assert {record.levelname for record in caplog.records if record.name == "draftscope.llama"} > {"INFO"}


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
    settings = ContextSettings(n_slots=4, checkpoint=mode, replay=Replay.RIDE, n_threads=1)  # not by measured costs
    expected = run(demo_model, TEXTS, settings, max_tokens=16)
    with open_bench(demo_model, settings) as bench:
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


@pytest.mark.parametrize("mode", [CheckpointMode.AUTO, CheckpointMode.HOST])
@pytest.mark.parametrize("family", ["random_qwen35", "random_qwen3next", "random_glm4moe"])
def test_that_slots_that_come_and_go_at_any_time_write_what_they_write_alone(
    family: str, mode: CheckpointMode, request: pytest.FixtureRequest
) -> None:
    # With gaps among the active slots libllama cuts the verification and moves states between the pieces: one that was
    # moved must not go back to what another slot left in its place.
    model: Path = request.getfixturevalue(family)
    n_slots, n_tasks, chance = 16, 64, random.Random(5)
    tasks = [task(number % n_slots, max_tokens=30) for number in range(n_tasks)]
    prompts = [tuple(chance.randrange(5, 190) for _ in range(chance.randrange(1, 15))) for _ in tasks]
    alone = [run(model, [prompt], WITHOUT_MTP, max_tokens=30).tokens[0] for prompt in prompts]
    with open_bench(model, ContextSettings(n_slots=n_slots, n_ctx=64, checkpoint=mode, n_threads=1)) as bench:
        waiting, at_work, written = list(range(n_tasks)), dict[int, int](), dict[int, tuple[int, ...]]()
        while waiting or at_work:
            for number in waiting[:]:
                if tasks[number].slot not in at_work and chance.random() < 0.3:
                    bench.submit(tasks[number], prompts[number])
                    at_work[tasks[number].slot] = number
                    waiting.remove(number)
            bench.backend.step()
            for result in bench.backend.take_results():
                written[at_work.pop(result.slot)] = result.tokens
        counts = bench.backend.decode_counts()
    assert [written[number] for number in range(n_tasks)] == alone
    assert counts.target_graph_runs >= counts.target >= counts.rounds


def test_that_a_full_ring_drops_and_counts_records_and_the_text_stays_right(demo_model: Path) -> None:
    expected = run(demo_model, TEXTS)
    bench = Bench(capacity=64)
    bench.load(demo_model, ContextSettings(n_slots=4, checkpoint=CheckpointMode.ROLLBACK, n_threads=1))
    for slot, text in enumerate(TEXTS):
        bench.submit(task(slot, max_tokens=64), text)
    results = bench.finish()
    assert [result.tokens for result in results] == expected.tokens
    assert bench.ring.n_dropped == len(expected.records) - 64
    assert len(bench.ring.read()) == 64
