"""The comparison with llama-server, without one: its command, its answers, the arithmetic, and the table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from draftscope.engine.native import NativeBackend
from draftscope.engine.protocol import (
    ContextSettings,
    DecodeCounts,
    ModelReport,
    ModelSettings,
    RunReport,
    SamplingSettings,
    SlotResult,
)
from draftscope.engine.ring import Ring, ring_bytes
from engine_ext.llama import build_wheel
from tests.peers import own_engine, server_build, server_process
from tests.peers.llama_server import Comparison, as_json, as_text
from tests.peers.samples import Sample, Series, SlotTimes, n_equal_texts, speed, wall_speed

METRICS = """\
# HELP llamacpp:n_decode_total Total number of llama_decode() calls, excluding speculative decoding
# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total 1250
llamacpp:tokens_predicted_seconds_total 3.25
llamacpp:spec_decode_num_drafts_total 0
llamacpp:prompt_tokens_total 1.23457e+06
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 7
"""


def answer(index: int, n_tokens: int, prompt_ms: float, predicted_ms: float, **timings: int) -> dict[str, Any]:
    """A completion as llama-server sends it, cut to what is read."""
    return {
        "index": index,
        "tokens": list(range(n_tokens)),
        "timings": {"prompt_ms": prompt_ms, "predicted_ms": predicted_ms, "predicted_n": n_tokens, **timings},
    }


def sample(n_tokens: int = 11, generate_ms: float = 100.0) -> Sample:
    slot = SlotTimes(tuple(range(n_tokens)), 5.0, generate_ms, 12, 6)
    return Sample((slot,), wall_ms=generate_ms + 10, n_rounds=4, n_target=5, n_draft=12)


@pytest.fixture(scope="module")
def report(demo_model: Path) -> ModelReport:
    """What the engine says of the bundled model in one slot."""
    memory = bytearray(ring_bytes(1 << 10))
    Ring.create(memoryview(memory), 1 << 10)
    backend = NativeBackend(memoryview(memory))
    loaded = backend.load(ModelSettings(str(demo_model)), ContextSettings(n_slots=1, n_threads=1), lambda *_: True)
    backend.unload()
    return loaded


def test_that_generation_lasts_from_the_first_token_of_any_slot_to_the_last_of_any() -> None:
    early = SlotTimes((1,) * 101, first_ms=10.0, generate_ms=400.0, draft_n=0, draft_n_accepted=0)
    late = SlotTimes((1,) * 51, first_ms=60.0, generate_ms=450.0, draft_n=0, draft_n_accepted=0)
    both = Sample((early, late), wall_ms=1000.0)
    assert both.generate_ms == 500.0
    assert both.n_generated == 150  # the first token of each is its prompt's
    assert speed(both) == 300.0
    assert wall_speed(both) == 152.0


def test_that_what_an_engine_does_not_tell_is_no_figure() -> None:
    silent = dataclasses.replace(sample(), n_rounds=None, n_draft=None)
    assert (silent.target_per_round, silent.draft_per_round) == (None, None)
    assert (sample().target_per_round, sample().draft_per_round) == (1.25, 3.0)
    nothing_drafted = Sample((SlotTimes((1, 2), 1.0, 1.0, 0, 0),), wall_ms=2.0)
    assert nothing_drafted.acceptance is None
    assert sample().acceptance == 0.5


def test_that_best_is_the_fastest_and_median_the_middle_one() -> None:
    series = Series("x", (sample(generate_ms=100.0), sample(generate_ms=50.0), sample(generate_ms=200.0)))
    assert (series.best(speed), series.median(speed)) == (200.0, 100.0)


def test_that_texts_are_compared_token_by_token_in_each_slot() -> None:
    one, other = sample(), sample(n_tokens=10)
    assert n_equal_texts(one, one) == 1
    assert n_equal_texts(one, other) == 0


def test_that_answers_are_put_in_the_order_of_the_prompts() -> None:
    single, second = answer(0, 3, 1.0, 2.0), answer(1, 4, 1.0, 2.0)
    assert server_process.answers_in_order(single) == [single]
    assert server_process.answers_in_order([second, single]) == [single, second]


def test_that_the_servers_timings_become_a_sample() -> None:
    answers = [answer(0, 9, 12.5, 80.0, draft_n=9, draft_n_accepted=5), answer(1, 9, 13.0, 90.0)]
    made = server_process.sample_of(answers, wall_ms=120.0, n_rounds=None, n_target=7)
    assert made.slots[0] == SlotTimes(tuple(range(9)), 12.5, 80.0, 9, 5)
    assert (made.slots[1].draft_n, made.slots[1].draft_n_accepted) == (0, 0)  # left out where nothing was drafted
    assert made.generate_ms == pytest.approx(90.5)
    assert (made.n_target, made.target_per_round, made.draft_per_round) == (7, None, None)


def test_that_counters_are_read_and_anything_else_is_left_out() -> None:
    counters = server_process.read_counters(METRICS)
    assert counters == {"n_decode_total": 1250, "spec_decode_num_drafts_total": 0}
    assert server_process.read_counters("") == {}


def test_that_decodes_of_the_prompts_are_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_process.LlamaServer(port=0)
    counts = iter([10, 12, 12, 40])  # around a request for one token, and around a run

    def ask(method: str, path: str, body: dict[str, Any] | None = None) -> str:
        if path == "/metrics":
            return f"llamacpp:n_decode_total {next(counts)}\nllamacpp:spec_decode_num_drafts_total 0\n"
        return '{"index": 0, "tokens": [1, 2], "timings": {"prompt_ms": 1, "predicted_ms": 2}}'

    monkeypatch.setattr(server, "_ask", ask)
    server.warm_up([[1]], {"n_predict": 2})
    assert server.run([[1]], {"n_predict": 2}).n_target == 26


def test_that_our_results_become_a_sample() -> None:
    result = SlotResult(0, "", (1, 2, 3), 5, 1, 3, 2, (), (), 4.0, 4.0, 8.0, "max_tokens")
    run = RunReport(DecodeCounts(rounds=1, target=2, draft=3, catch_up=1), 0, 0, 0, 13.0)
    made = own_engine.sample_of([result], run, wall_ms=14.0)
    assert made == Sample((SlotTimes((1, 2, 3), 4.0, 8.0, 3, 2),), 14.0, n_rounds=1, n_target=2, n_draft=4)


def test_that_greedy_needs_one_sampler_and_other_temperatures_take_our_chain() -> None:
    greedy = server_process.request_body(SamplingSettings(temperature=0.0), 64)
    assert (greedy["samplers"], greedy["top_k"], greedy["n_predict"]) == (["top_k"], 1, 64)
    warm = server_process.request_body(SamplingSettings(temperature=0.5, top_k=30), 64)
    assert warm["samplers"] == ["top_k", "top_p", "min_p", "temperature"]
    assert (warm["temperature"], warm["top_k"]) == (0.5, 30)


def test_that_the_context_of_the_server_is_that_of_all_slots() -> None:
    settings = server_process.ServerSettings(Path("m.gguf"), n_slots=4, n_ctx=512, n_threads=1, n_draft_max=3)
    command = settings.command(Path("llama-server"), 8080)
    assert command[command.index("-c") + 1] == "2048"
    assert command[command.index("--spec-draft-n-max") + 1] == "3"
    plain = dataclasses.replace(settings, n_draft_max=0).command(Path("llama-server"), 8080)
    assert not any("spec" in word for word in plain)


def test_a_server_that_does_not_start_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    broken = tmp_path / "llama-server"
    broken.write_text("#!/bin/sh\necho no such model\nexit 3\n")
    broken.chmod(0o755)
    settings = server_process.ServerSettings(Path("m.gguf"), n_slots=1, n_ctx=512, n_threads=1, n_draft_max=3)
    with (
        pytest.raises(server_process.ServerError, match=r"(?s)ended with status 3.*no such model"),
        server_process.serving(broken, settings, tmp_path / "log"),
    ):
        pass


def test_that_a_server_in_the_cache_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))

    def refuse(step: str, _command: list[str], **_options: object) -> None:
        pytest.fail(f"ran a command: {step}")

    monkeypatch.setattr(server_build, "run", refuse)
    server = tmp_path / "peers" / server_build.server_key() / "llama-server"
    server.parent.mkdir(parents=True)
    server.touch()
    assert server_build.build_server() == server


def test_that_what_is_built_and_how_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = server_build.server_key()
    monkeypatch.setattr(build_wheel, "SDIST_SHA256", "another")
    other_source = server_build.server_key()
    monkeypatch.setattr(server_build, "_FLAGS", ("-DOTHER=ON",))
    assert len({key, other_source, server_build.server_key()}) == 3


def test_that_the_table_has_both_engines_and_dashes_for_what_is_not_told(report: ModelReport) -> None:
    theirs = dataclasses.replace(sample(generate_ms=200.0), n_rounds=None, n_draft=None)
    result = Comparison(1, [report], [theirs], [sample(generate_ms=100.0)])
    heading, _header, server, ours, ratios = as_text(result).splitlines()
    assert report.way_back.granted in heading  # `auto` may take another way on a busy machine
    assert "same tokens in 1 of 1" in heading
    assert server.split() == ["llama-server", "50.0", "50.0", "52.4", "52.4", "0.500", "5", "-", "-"]
    assert ours.split() == ["draftscope", "100.0", "100.0", "100.0", "100.0", "0.500", "5", "1.25", "3.00"]
    assert ratios == "ours / theirs: best 2.000, median 2.000, pairs 2.000"
    assert as_json(result)["ratio"] == {"best": 2.0, "median": 2.0, "pairs": 2.0}


def test_that_pairs_outlive_a_machine_that_slows_down(report: ModelReport) -> None:
    theirs = [sample(generate_ms=ms) for ms in (100.0, 200.0, 400.0, 400.0)]
    ours = [sample(generate_ms=ms) for ms in (80.0, 160.0, 320.0, 3200.0)]
    ratios = Comparison(1, [report], theirs, ours).ratios()
    assert ratios["pairs"] == pytest.approx(1.25)
    assert ratios["best"] == pytest.approx(1.25)
    assert ratios["median"] == pytest.approx(1.25, rel=0.05)
