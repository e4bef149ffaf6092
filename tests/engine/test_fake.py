"""The scripted engine looks like a real one: its records obey the contract of records in every mode."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from draftscope.engine import fake_text
from draftscope.engine.client import Client, make_client
from draftscope.engine.errors import ErrorCode
from draftscope.engine.events import ENGINE_TRACK, Kind, Mechanism, Origin, Phase, Records
from draftscope.engine.probes import ProbeLevel
from draftscope.engine.protocol import (
    Cancel,
    CatchUp,
    CheckpointMode,
    ContextSettings,
    Failed,
    Finished,
    Load,
    ModelSettings,
    SetProbe,
    Submit,
)
from tests.engine.talk import Talk, task

PROMPTS = ("class Stack:", "And it came to pass", "This module provides", "import sys")


@pytest.fixture
def talk() -> Iterator[Talk]:
    client: Client = make_client("fake:0", in_process=True)
    yield Talk(client)
    client.close()


def run_four(talk: Talk, path: str, **context: object) -> Finished:
    talk.load(path, n_slots=4, n_ctx=2048, **context)
    talk.listen()
    return talk.run(*(task(slot, text, 200, ignore_eos=True) for slot, text in enumerate(PROMPTS)))


def kind_of(records: Records, kind: Kind) -> Records:
    found: Records = records[records["kind"] == kind]
    return found


def spans_of(records: Records, phase: Phase, *, engine: bool) -> Records:
    spans = kind_of(records, Kind.SPAN)
    found: Records = spans[(spans["code"] == phase) & ((spans["slot"] == ENGINE_TRACK) == engine)]
    return found


def test_every_kind_of_record_and_every_phase_of_a_round_occurs(talk: Talk) -> None:
    talk.load("fake:hybrid")
    talk.ask(SetProbe(talk.client.next_id(), ProbeLevel.STATE))
    run_four(talk, "fake:hybrid", catch_up=CatchUp.ALONE)
    assert {Kind(kind) for kind in talk.records["kind"]} == set(Kind)
    phases = {Phase(code) for code in kind_of(talk.records, Kind.SPAN)["code"]}
    assert phases == set(Phase) - {Phase.IDLE, Phase.LOAD}


@pytest.mark.parametrize("path", ["m", "fake:hybrid", "fake:dense"])
def test_counts_agree_with_records(talk: Talk, path: str) -> None:
    finished = run_four(talk, path)
    decodes, records = finished.report.decodes, talk.records
    assert decodes.prompt == len(spans_of(records, Phase.PROMPT, engine=True))
    assert decodes.replay == len(spans_of(records, Phase.REPLAY, engine=True))
    assert decodes.target == len(spans_of(records, Phase.VERIFY, engine=True)) + decodes.replay
    assert decodes.draft == len(spans_of(records, Phase.DRAFT, engine=True))
    assert decodes.target_graph_runs >= decodes.target
    assert finished.report.n_saves == len(kind_of(records, Kind.SAVE))
    assert finished.report.n_restores == len(kind_of(records, Kind.RESTORE))
    for result in finished.results:
        rounds = kind_of(records, Kind.ROUND)
        mine = rounds[rounds["slot"] == result.slot]
        assert (len(mine), mine["n"].sum()) == (result.n_rounds, result.draft_n)
        assert mine["m"].sum() == result.draft_n_accepted == sum(result.accepted_at)
        assert len(result.tokens) == 1 + result.n_rounds + result.draft_n_accepted or result.stop == "max_tokens"


def test_every_slot_accepts_in_its_own_way(talk: Talk) -> None:
    rates = [result.draft_n_accepted / result.draft_n for result in run_four(talk, "m").results]
    assert len({round(rate, 2) for rate in rates}) == 4
    assert all(0.2 < rate < 0.98 for rate in rates)


def test_the_positions_of_tokens_go_up_by_one(talk: Talk) -> None:
    finished = run_four(talk, "fake:hybrid")
    tokens = kind_of(talk.records, Kind.TOKEN)
    for result in finished.results:
        said = tokens[(tokens["slot"] == result.slot) & (tokens["code"] != Origin.REJECTED)]
        assert said["position"].tolist() == list(range(result.n_prompt, result.n_prompt + len(result.tokens)))
    rejected = tokens[tokens["code"] == Origin.REJECTED]
    chosen = rejected[rejected["m"] >= 0]
    assert (chosen["token"] != chosen["m"]).all()
    assert ((tokens["value"] > 0) & (tokens["value"] < 1)).all()


def test_a_restore_goes_back_to_what_was_saved_and_replays_the_rest(talk: Talk) -> None:
    run_four(talk, "fake:hybrid")
    saves, restores = kind_of(talk.records, Kind.SAVE), kind_of(talk.records, Kind.RESTORE)
    saved = {(row["slot"], row["n"]): row["position"] for row in saves}
    for row in restores:
        assert saved[(row["slot"], row["n"])] == row["position"]
        assert row["m"] >= 0
        assert row["size_bytes"] > 0


def test_times_are_in_order_and_spans_of_a_slot_do_not_cross(talk: Talk) -> None:
    run_four(talk, "fake:hybrid")
    spans = kind_of(talk.records, Kind.SPAN)
    assert (spans["duration_ns"] > 0).all()
    for track in range(-1, 4):
        mine = spans[spans["slot"] == track]
        ends = mine["t_start_ns"] + mine["duration_ns"]
        assert (mine["t_start_ns"][1:] >= ends[:-1]).all()


@pytest.mark.parametrize(
    ("path", "checkpoint", "granted"),
    [
        ("m", CheckpointMode.AUTO, Mechanism.ROLLBACK),
        ("m", CheckpointMode.HOST, Mechanism.HOST),
        ("m", CheckpointMode.COW, Mechanism.COW),
        ("m", CheckpointMode.DEVICE, Mechanism.DEVICE),
        ("fake:hybrid", CheckpointMode.AUTO, Mechanism.COW),
        ("fake:hybrid", CheckpointMode.ROLLBACK, Mechanism.HOST),
        ("fake:plain", CheckpointMode.AUTO, Mechanism.KV_REMOVAL),
        ("fake:dense", CheckpointMode.AUTO, Mechanism.NONE),
    ],
)
def test_the_way_back_is_the_one_that_the_report_names(
    talk: Talk, path: str, checkpoint: CheckpointMode, granted: Mechanism
) -> None:
    report = talk.load(path, checkpoint=checkpoint)
    assert report.way_back.granted == granted.name.lower()
    talk.run(task(max_tokens=30))
    assert set(kind_of(talk.records, Kind.ROUND)["code"].tolist()) == {granted}


def test_a_model_without_mtp_says_why_nothing_is_drafted(talk: Talk) -> None:
    report = talk.load("fake:dense")
    assert not report.speculation.is_active
    assert report.speculation.reason
    assert talk.run(task()).results[0].draft_n == 0


def test_a_text_ends_by_itself_at_a_stop_string_or_at_the_end_of_the_context(talk: Talk) -> None:
    talk.load("m", n_ctx=64)
    assert talk.run(task(text="This module", max_tokens=1000)).results[0].stop == "context_full"
    stopped = talk.run(task(text="This module", max_tokens=50, stop=("one after",))).results[0]
    assert stopped.stop == "stop_string"
    assert stopped.text.endswith("its items ")
    talk.load("m", n_ctx=2048)
    ended = talk.run(task(text="This module", max_tokens=1000)).results[0]
    assert (ended.stop, ended.tokens[-1]) == ("end_of_generation", fake_text.EOS)


def test_a_seed_counts_only_when_sampling() -> None:
    prompt = fake_text.tokenize("nothing known", parse_special=True, add_special=True)
    texts = {fake_text.continuation(prompt, seed).tokens for seed in range(30)}
    assert len(texts) == len(fake_text.TEXTS)


@pytest.mark.parametrize("text", ["", "def f():\n    return 1", " the old mill", "日本語 ü\n\n  x", "a<|end|>b"])
def test_tokens_spell_the_text_that_they_were_made_from(text: str) -> None:
    for parse_special in (False, True):
        tokens = fake_text.tokenize(text, parse_special=parse_special, add_special=False)
        assert b"".join(map(fake_text.piece, tokens)).decode() == text
        assert all(0 <= token < fake_text.N_VOCAB for token in tokens)
    assert (fake_text.EOS in tokens) == ("<|end|>" in text)


@pytest.mark.parametrize(
    ("path", "code"), [("fake:fail-load", ErrorCode.BAD_FILE), ("fake:raise-in-load", ErrorCode.INTERNAL)]
)
def test_a_load_fails_on_command(talk: Talk, path: str, code: ErrorCode) -> None:
    closing = talk.ask(Load(talk.client.next_id(), ModelSettings(path), ContextSettings()))
    assert isinstance(closing, Failed)
    assert closing.error.code is code


def test_a_task_fails_on_command_and_the_others_go_on(talk: Talk) -> None:
    talk.load("m")
    failed, other = talk.run(task(0, "fake:fail"), task(1)).results
    assert (failed.stop, other.stop) == ("failed", "max_tokens")
    assert failed.error.endswith(".")


def test_a_step_breaks_on_command(talk: Talk) -> None:
    talk.load("m")
    closing = talk.ask(Submit(talk.client.next_id(), (task(text="fake:raise"),)))
    assert isinstance(closing, Failed)
    assert closing.error.code is ErrorCode.INTERNAL


def test_a_paced_engine_keeps_its_pace_and_a_cancel_does_not_wait_for_it() -> None:
    client = make_client("fake:20", in_process=True)
    talk = Talk(client)
    talk.load("m", n_draft_max=3)
    started_s = time.monotonic()
    n_rounds = talk.run(task(max_tokens=40)).results[0].n_rounds
    assert time.monotonic() - started_s > 0.6 * n_rounds / 20
    running = talk.start(task(max_tokens=400, ignore_eos=True))
    cancelled_s = time.monotonic()
    talk.ask(Cancel(client.next_id()))
    talk.closing_of(running)
    assert time.monotonic() - cancelled_s < 1.0
    assert np.abs(int(talk.records["t_start_ns"][-1]) - time.monotonic_ns()) < 2e9
    client.close()
