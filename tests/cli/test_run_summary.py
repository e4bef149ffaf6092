"""The object of ``run --json``: counts, figures derived from them, nulls where there is no figure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from draftscope.cli.generation import Outcome
from draftscope.cli.plan import Plan
from draftscope.cli.prompts import RunPrompt
from draftscope.cli.run_summary import RunSummary, decodes_in
from draftscope.cli.run_table import as_text
from draftscope.engine.events import (
    ENGINE_TRACK,
    FallbackReason,
    Kind,
    Mechanism,
    Operation,
    Phase,
    Records,
    empty_records,
)
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    DecodeCounts,
    MemoryUse,
    ModelReport,
    ModelSettings,
    Prompt,
    RunReport,
    Speculation,
    WayBack,
)
from draftscope.trace.store import TraceStore
from tests.cli.scripted_client import result

PLAN = Plan(ModelSettings("m.gguf"), ContextSettings(n_slots=2), (RunPrompt(Prompt(text="x")),), (), ignore_eos=False)
MODEL = ModelReport(
    path="m.gguf",
    description="tiny",
    architecture="qwen35",
    size_bytes=1,
    n_params=1,
    n_layer=1,
    n_embd=1,
    n_vocab=10,
    n_ctx_train=10,
    has_tokenizer=True,
    has_chat_template=False,
    is_recurrent=True,
    n_slots_asked=2,
    n_slots=2,
    n_ctx=10,
    n_threads=1,
    devices=("CPU",),
    speculation=Speculation(True, 1, 3),
    way_back=WayBack(CheckpointMode.AUTO, "host", 3, 0, "no rollback", 64),
    engine="x",
    is_patched=True,
    load_ms=1.0,
)
REPORT = RunReport(
    DecodeCounts(rounds=4, target=6, draft=12, replay=2), n_saves=3, n_restores=2, n_fallbacks=1, wall_ms=100.0
)


def _record(kind: Kind, code: int, slot: int, **fields: int) -> Records:
    record = empty_records(1)
    record["kind"], record["code"], record["slot"] = kind, code, slot
    for name, value in fields.items():
        record[name] = value
    return record


def _store(*records: Records) -> TraceStore:
    store = TraceStore()
    for number, record in enumerate(records):
        record["sequence"] = number
        store.append(record)
    return store


def _summary(
    outcome: Outcome | None = None, store: TraceStore | None = None, model: ModelReport = MODEL, n_dropped: int = 0
) -> dict[str, Any]:
    outcome = outcome or Outcome([(0, result(0)), (0, result(1))], [REPORT])
    summary = RunSummary(PLAN, model, outcome, store or _store(), n_dropped).as_json()
    json.dumps(summary, allow_nan=False)
    return summary


def test_tasks_come_as_they_were_dealt_and_not_as_they_ended() -> None:
    ended = [(1, result(1)), (3, result(1)), (0, result(0)), (2, result(0))]
    assert [slot["prompt"] for slot in _summary(Outcome(ended, [REPORT]))["slots"]] == [0, 1, 2, 3]
    repeated = [(0, result(1)), (0, result(0))]
    assert [slot["slot"] for slot in _summary(Outcome(repeated, [REPORT]))["slots"]] == [0, 1]


def test_a_slot_has_counts_and_the_figures_that_follow() -> None:
    slot = _summary()["slots"][1]
    assert (slot["slot"], slot["prompt"], slot["text"], slot["tokens"]) == (1, 0, "ab", [1, 2, 3, 4, 5])
    assert (slot["n_tokens"], slot["n_rounds"], slot["draft_n"], slot["draft_n_accepted"]) == (5, 2, 6, 2)
    assert slot["accepted_per_position"] == [1, 1, 0]
    assert slot["drafted_per_position"] == [2, 2, 2]
    assert slot["acceptance"] == pytest.approx(2 / 6)
    assert slot["acceptance_per_position"] == [0.5, 0.5, 0.0]
    assert slot["mean_accepted_length"] == 2.0
    assert slot["tokens_per_second"] == pytest.approx(4 / 0.04)


def test_what_was_not_drafted_has_no_acceptance() -> None:
    plain = replace(result(0), n_rounds=4, draft_n=0, draft_n_accepted=0, accepted_at=(), drafted_at=())
    plain = replace(plain, generate_ms=0.0)
    summary = _summary(Outcome([(0, plain)], [REPORT]))
    assert summary["slots"][0]["acceptance"] is None
    assert summary["slots"][0]["tokens_per_second"] is None
    assert summary["totals"]["acceptance"] is None


def test_decodes_of_one_submit_are_the_engines() -> None:
    decodes = _summary()["decodes"]
    assert (decodes["rounds"], decodes["target"], decodes["draft"], decodes["replay"]) == (4, 6, 12, 2)
    assert (decodes["target_per_round"], decodes["draft_per_round"]) == (1.5, 3.0)
    assert decodes["counted_by"] == "engine"


def test_decodes_of_several_submits_are_counted_in_the_records() -> None:
    store = _store(
        _record(Kind.SPAN, Phase.PROMPT, ENGINE_TRACK, round=-1, m=1),
        _record(Kind.SPAN, Phase.DRAFT, ENGINE_TRACK, round=0, m=1),
        _record(Kind.SPAN, Phase.VERIFY, ENGINE_TRACK, round=0, m=2),
        _record(Kind.SPAN, Phase.VERIFY, 0, round=0, m=9),
        _record(Kind.SPAN, Phase.REPLAY, ENGINE_TRACK, round=1, m=1),
        _record(Kind.SPAN, Phase.CATCH_UP, ENGINE_TRACK, round=1, m=1),
        _record(Kind.SPAN, Phase.VERIFY, ENGINE_TRACK, round=1, m=1),
    )
    expected = DecodeCounts(
        rounds=2,
        target=3,
        draft=1,
        replay=1,
        rides=1,
        catch_up=1,
        target_graph_runs=4,
        draft_graph_runs=2,
        prompt=1,
        prompt_graph_runs=1,
    )
    assert decodes_in(store) == expected
    decodes = _summary(Outcome([(0, result(0)), (1, result(0))], [REPORT, REPORT]), store)["decodes"]
    assert decodes["counted_by"] == "records"
    assert decodes["target_per_round"] == 1.5


def test_checkpoint_times_come_from_the_records() -> None:
    saves = [_record(Kind.SAVE, Mechanism.HOST, 0, duration_ns=ns) for ns in (1000, 2000, 9000)]
    checkpoints = _summary(store=_store(*saves))["checkpoints"]
    assert checkpoints["mode"] == "host"
    assert checkpoints["asked"] == "auto"
    assert (checkpoints["n_saves"], checkpoints["n_restores"]) == (3, 2)
    assert checkpoints["save_us"]["median"] == 2.0
    assert checkpoints["save_us"]["p99"] == pytest.approx(8.86)
    assert checkpoints["restore_us"] is None
    assert checkpoints["bytes_per_slot"] == 64


def test_fallbacks_are_told_in_words() -> None:
    record = _record(
        Kind.FALLBACK, FallbackReason.NO_MEMORY, 1, round=3, position=20, n=Mechanism.HOST, m=Mechanism.NONE
    )
    sentence = (
        "Slot 1, round 3: there was no room in host memory for a checkpoint, so nothing was drafted in this round."
    )
    summary = _summary(store=_store(record))
    assert summary["fallbacks"] == [
        {
            "round": 3,
            "slot": 1,
            "position": 20,
            "reason": "no_memory",
            "asked": "host",
            "used": "none",
            "sentence": sentence,
        }
    ]
    assert f"fallbacks   {sentence}" in as_text(summary)


def test_of_many_fallbacks_the_table_tells_the_first_and_counts_the_rest() -> None:
    record = _record(Kind.FALLBACK, FallbackReason.NO_MEMORY, 1, n=Mechanism.DEVICE, m=Mechanism.HOST)
    text = as_text(_summary(store=_store(*(record.copy() for _ in range(14)))))
    assert text.count("so host memory is used.") == 10
    assert "and 4 more, which --json lists" in text


def test_times_are_told_by_mechanism_and_slot_too() -> None:
    records = [
        _record(Kind.SAVE, Mechanism.COW, slot, duration_ns=ns) for slot, ns in ((0, 1000), (1, 3000), (1, 5000))
    ]
    records.append(_record(Kind.RESTORE, Mechanism.HOST, 1, duration_ns=7000))
    assert _summary(store=_store(*records))["checkpoints"]["timings"] == [
        {"kind": "save", "mechanism": "cow", "slot": 0, "n": 1, "median": 1.0, "p99": 1.0},
        {"kind": "save", "mechanism": "cow", "slot": 1, "n": 2, "median": 4.0, "p99": pytest.approx(4.98)},
        {"kind": "restore", "mechanism": "host", "slot": 1, "n": 1, "median": 7.0, "p99": 7.0},
    ]


def test_what_decodes_pay_after_a_restore_is_null_until_it_can_be_told() -> None:
    records, now = [], 0
    for round_id in range(13):
        is_after = round_id < 6
        if is_after:
            records.append(_record(Kind.RESTORE, Mechanism.COW, 0, t_start_ns=now, round=round_id - 1))
        duration_ns = 9_000 if is_after else 4_000
        columns = {"t_start_ns": now + 1, "duration_ns": duration_ns, "round": round_id, "m": 1}
        records.append(_record(Kind.SPAN, Phase.VERIFY, ENGINE_TRACK, **columns))
        now += 100_000
    summary = _summary(store=_store(*records))
    expected = {"paid": 5.0, "after": 9.0, "other": 4.0, "n_after": 6, "n_other": 6}
    assert summary["checkpoints"]["after_restore_us"] == expected
    assert "after a restore take 5.00 µs longer a round" in as_text(summary)
    assert _summary(store=_store(*records[:6]))["checkpoints"]["after_restore_us"] is None


def test_totals_sum_the_tasks() -> None:
    totals = _summary()["totals"]
    assert (totals["n_tokens"], totals["draft_n"], totals["draft_n_accepted"]) == (10, 12, 4)
    assert totals["mean_accepted_length"] == 2.0
    assert totals["tokens_per_second"] == pytest.approx(100.0)


def test_the_table_says_what_a_person_needs() -> None:
    text = as_text(_summary(n_dropped=7))
    assert "33 %" in text
    assert "way back    host: 3 saves, 2 restores, 0 fallbacks" in text
    assert "1.50 of the target, 3.00 of the MTP context" in text
    assert "7 trace records" in text


def test_the_table_says_why_a_prompt_that_was_there_in_part_was_read_as_a_whole() -> None:
    tasks = [(0, replace(result(0), reuse="no_checkpoint")), (1, replace(result(1), reuse="nothing_common"))]
    text = as_text(_summary(Outcome(tasks, [REPORT])))
    assert "prompt 1    nothing of the prompt reused: the model's memory cannot drop its newest tokens" in text
    assert text.count("nothing of the prompt reused") == 1


def test_the_table_says_why_nothing_was_drafted() -> None:
    model = replace(MODEL, speculation=Speculation(False, 0, 0, "This file has no MTP layers."))
    assert "no drafts   This file has no MTP layers." in as_text(_summary(model=model))


def test_an_interrupted_run_without_results_still_has_a_table() -> None:
    text = as_text(_summary(Outcome(is_interrupted=True)))
    assert "interrupted" in text


def test_that_memory_is_that_of_the_runs_end() -> None:
    at_load, at_end = (MemoryUse("checkpoints", n_bytes, 0, 2000) for n_bytes in (0, 2016))
    outcome = Outcome(reports=[replace(REPORT, memory=(at_end,))])
    summary = _summary(outcome, model=replace(MODEL, memory=(at_load,)))
    assert summary["memory"] == [
        {"kind": "checkpoints", "host_bytes": 2016, "device_bytes": 0, "predicted_bytes": 2000}
    ]


def test_why_each_task_ended_and_how_often_slots_forgot_is_said() -> None:
    full = replace(result(0), stop="context_full")
    shifts = [_record(Kind.OPERATION, Operation.SHIFT, slot) for slot in (0, 1)]
    summary = _summary(
        Outcome([(0, full), (0, result(1))], [REPORT]), _store(*shifts, _record(Kind.OPERATION, Operation.CLEAR, 0))
    )
    header, first, *_ = as_text(summary).split("\n")
    assert header.endswith("  end")
    assert first.endswith("  context full")
    assert summary["totals"]["n_shifts"] == 2
    assert "full slots  forgot the older half of what they held, 2 times" in as_text(summary)
    assert "forgot" not in as_text(_summary())
