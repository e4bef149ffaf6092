"""The Chrome trace export: valid JSON, times that never fall, slices that nest, and everything that was recorded."""

import gzip
import itertools
import json
import math
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftscope.engine.events import (
    Kind,
    Mechanism,
    Operation,
    Origin,
    Phase,
    Reuse,
    SlotState,
    empty_records,
)
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.export import chrome
from draftscope.trace.export.chrome import export_chrome
from draftscope.trace.trace import Trace
from tests.trace.synthetic import T_START_NS, SyntheticRun, make_many, make_records, make_store, make_trace, record


def exported(trace, path, **options):
    export_chrome(trace, path, **options)
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("ascii")
    return json.loads(text, parse_float=Decimal, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def of_phase(document, *phases):
    return [event for event in document["traceEvents"] if event["ph"] in phases]


def by_track(events):
    tracks = defaultdict(list)
    for event in events:
        tracks[event.get("tid"), event["name"] if event["ph"] == "C" else ""].append(event)
    return tracks


def check_order_and_nesting(document):
    """Times never fall on a track, and of two slices of a track one holds the other or they are apart."""
    for track in by_track(of_phase(document, "X", "i", "s", "f", "C")).values():
        times = [event["ts"] for event in track]
        assert times == sorted(times)
        assert min(times) >= 0
        open_ends = []
        for event in (event for event in track if event["ph"] == "X"):
            start, end = event["ts"], event["ts"] + event["dur"]
            assert event["dur"] >= 0
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def test_every_record_is_in_the_file_once(tmp_path):
    records = make_records(40)
    document = exported(make_trace(records), tmp_path / "x.json")
    check_order_and_nesting(document)
    slices = of_phase(document, "X")
    counts = {kind: int((records["kind"] == kind).sum()) for kind in Kind}
    # Saves and restores have a span beside their record, which is left out: the record says more.
    assert len(slices) == counts[Kind.ROUND] + counts[Kind.SPAN]
    assert sum(event["cat"] == "save" for event in slices) == counts[Kind.SAVE] > 0
    assert sum(event["cat"] == "restore" for event in slices) == counts[Kind.RESTORE] > 0
    tokens_of_rounds = sum(len(event["args"].get("tokens", ())) for event in slices)
    instants = of_phase(document, "i")
    first_tokens = [event for event in instants if event["cat"] == "token"]
    assert tokens_of_rounds + len(first_tokens) == counts[Kind.TOKEN]
    assert len(first_tokens) == 4
    assert len(instants) == 4 + counts[Kind.FALLBACK] + counts[Kind.SLOT] + counts[Kind.OPERATION]


def test_tracks_are_named_and_the_engine_comes_first(tmp_path):
    document = exported(make_trace(make_records(3, n_slots=2)), tmp_path / "x.json")
    names = {event["tid"]: event["args"]["name"] for event in of_phase(document, "M") if event["name"] == "thread_name"}
    ranks = {event["tid"]: event["args"] for event in of_phase(document, "M") if event["name"] == "thread_sort_index"}
    assert names == {0: "engine (decodes shared by all slots)", 1: "slot 0", 2: "slot 1"}
    assert ranks == {tid: {"sort_index": tid} for tid in (0, 1, 2)}
    assert [event["args"]["name"] for event in of_phase(document, "M") if event["name"] == "process_name"] == [
        "Draftscope"
    ]
    assert {event["name"] for event in of_phase(document, "X") if event["tid"] == 0} == {"prompt", "draft", "verify"}


def test_times_are_microseconds_from_the_first_record_exact_to_the_nanosecond(tmp_path):
    first = record(Kind.SPAN, t_start_ns=10**18 + 7, duration_ns=1, code=Phase.DRAFT)
    later = record(Kind.SPAN, t_start_ns=10**18 + 123_456_789_012_352, duration_ns=1_000_001, code=Phase.VERIFY)
    export_chrome(make_trace(np.concatenate([first, later])), tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text()
    assert '"ts":0.000,"cat":"span","dur":0.001' in text
    assert '"ts":123456789012.345,"cat":"span","dur":1000.001' in text


def test_a_round_encloses_its_phases_and_tells_its_tokens(tmp_path):
    run = SyntheticRun()
    document = exported(make_trace(run.make(5)), tmp_path / "x.json")
    track = [event for event in of_phase(document, "X") if event["tid"] == 2]
    rounds = [event for event in track if event["cat"] == "round"]
    assert [event["name"] for event in rounds] == [f"round {i}" for i in range(5)]
    for event, (n, m) in zip(rounds, run.counts[1], strict=True):
        args, end = event["args"], event["ts"] + event["dur"]
        inside = [other["name"] for other in track if event["ts"] <= other["ts"] < end and other is not event]
        assert inside == ["draft", "save", "verify", "accept", *(["restore"] if m < n else [])]
        assert (args["draft_n"], args["draft_n_accepted"], args["mechanism"]) == (n, m, "host")
        assert float(args["acceptance"]) == pytest.approx(m / n, rel=1e-5)
        origins = [token["origin"] for token in args["tokens"]]
        assert origins == ["accepted"] * m + ["rejected"] * (n - m) + ["sampled"]
        assert [token["draft_position"] for token in args["tokens"]] == [*range(1, n + 1), 0]


def test_tokens_have_their_text_and_what_was_chosen_instead(tmp_path):
    token = record(Kind.TOKEN, t_start_ns=5, code=Origin.REJECTED, token=101, n=1, m=100, value=0.1, round=0)
    around = record(Kind.ROUND, duration_ns=10, n=1, round=0)
    document = exported(make_trace(np.concatenate([token, around])), tmp_path / "x.json")
    assert of_phase(document, "X")[0]["args"]["tokens"] == [{
        "origin": "rejected", "position": 0, "draft_position": 1, "probability": Decimal("0.1"),
        "token": 101, "text": " cat", "chosen": 100, "chosen_text": " the",
    }]  # fmt: skip


def test_without_text_neither_texts_nor_token_ids_are_in_the_file(tmp_path):
    document = exported(make_trace(), tmp_path / "x.json", with_text=False)
    text = (tmp_path / "x.json").read_text()
    for secret in ("secret", " cat", '"token":', '"chosen', '"text"', "END"):
        assert secret not in text
    assert not document["metadata"]["has_text"]
    assert any(event["args"].get("tokens") for event in of_phase(document, "X"))


def test_the_metadata_tell_header_definitions_results_and_gaps(tmp_path):
    trace = make_trace(np.delete(make_records(10), 20))
    trace.header["rate"] = math.nan
    metadata = exported(trace, tmp_path / "x.json")["metadata"]
    assert metadata["header"] == trace.header | {"rate": None}
    assert metadata["results"] == trace.results
    assert metadata["definitions"]["acceptance"] == "accepted / drafted tokens"
    assert (metadata["n_missing_records"], metadata["n_records"]) == (1, trace.store.n_records)
    assert metadata["t_zero_ns"] == T_START_NS
    assert metadata["is_complete"]


def test_counters_tell_accepted_length_and_saved_bytes_of_every_slot(tmp_path):
    run = SyntheticRun(n_slots=2)
    document = exported(make_trace(run.make(6)), tmp_path / "x.json")
    counters = defaultdict(list)
    for event in of_phase(document, "C"):
        counters[event["name"]].append(event["args"])
    assert counters["slot 1: accepted length"] == [{"tokens": 1 + m} for _, m in run.counts[1]]
    assert counters["checkpoints in host memory"] == [{"bytes": 4096}] + [{"bytes": 4096 + 4097}] * 11
    assert len(counters) == 7


def checkpoint(kind, start, epoch, slot=0, mechanism=Mechanism.HOST):
    return record(kind, t_start_ns=start, duration_ns=5, n=epoch, slot=slot, code=mechanism)


def test_an_arrow_leads_from_a_save_to_every_restore_of_its_epoch_in_its_slot(tmp_path):
    records = np.concatenate([
        checkpoint(Kind.SAVE, 0, 1), checkpoint(Kind.SAVE, 10_000, 2), checkpoint(Kind.SAVE, 20_000, 1, slot=1),
        checkpoint(Kind.RESTORE, 30_000, 2), checkpoint(Kind.RESTORE, 40_000, 2),
        checkpoint(Kind.RESTORE, 50_000, 1, slot=1),
        checkpoint(Kind.RESTORE, 60_000, 3), checkpoint(Kind.RESTORE, 70_000, 0, mechanism=Mechanism.ROLLBACK),
        checkpoint(Kind.RESTORE, 80_000, 1, slot=1, mechanism=Mechanism.DEVICE),
    ])  # fmt: skip
    document = exported(make_trace(records), tmp_path / "x.json")
    starts = {event["id"]: (event["tid"], event["ts"]) for event in of_phase(document, "s")}
    ends = {event["id"]: (event["tid"], event["ts"]) for event in of_phase(document, "f")}
    assert len(starts) == len(of_phase(document, "s")) == 3
    assert sorted((starts[flow], ends[flow]) for flow in starts) == [
        ((1, 10), (1, 30)), ((1, 10), (1, 40)), ((2, 20), (2, 50))
    ]  # fmt: skip
    slices = {(event["tid"], event["ts"]): event["name"] for event in of_phase(document, "X")}
    assert {slices[place] for place in starts.values()} == {"save"}
    assert {slices[place] for place in ends.values()} == {"restore"}


def test_an_epoch_that_is_used_again_belongs_to_its_newest_save(tmp_path):
    records = np.concatenate([
        checkpoint(Kind.SAVE, 0, 1), checkpoint(Kind.RESTORE, 1_000, 1), checkpoint(Kind.SAVE, 2_000, 1),
        checkpoint(Kind.RESTORE, 3_000, 1),
    ])  # fmt: skip
    document = exported(make_trace(records), tmp_path / "x.json")
    assert [event["ts"] for event in of_phase(document, "s", "f")] == [0, 1, 2, 3]


def test_fallbacks_and_slot_states_are_moments_with_their_reasons(tmp_path):
    records = np.concatenate([
        record(Kind.FALLBACK, code=4, n=Mechanism.HOST, m=Mechanism.NONE, position=9),
        record(Kind.SLOT, t_start_ns=1, code=SlotState.DONE, n=2, m=5, position=30),
        record(Kind.SLOT, t_start_ns=2, code=77),
    ])  # fmt: skip
    events = of_phase(exported(make_trace(records), tmp_path / "x.json"), "i")
    assert [event["name"] for event in events] == ["fallback: no_memory", "done", "unknown 77"]
    assert events[0]["args"] == {"round": 0, "position": 9, "asked": "host", "used": "none"}
    assert events[1]["args"] == {"n_tokens": 30, "n_generated": 5, "stop_reason": "max_tokens"}


def test_an_operation_is_a_slice_where_it_took_time_and_a_moment_where_it_took_none(tmp_path):
    took = {"code": Operation.PROMPT_RESTORE, "position": 64, "n": 60, "m": Reuse.RESTORED, "size_bytes": 1 << 20}
    records = np.concatenate([
        record(Kind.OPERATION, duration_ns=2_000, round=-1, **took),
        record(Kind.OPERATION, t_start_ns=5_000, code=Operation.CLEAR, round=-1),
        record(Kind.OPERATION, t_start_ns=6_000, code=99, round=-1),
    ])  # fmt: skip
    document = exported(make_trace(records), tmp_path / "x.json")
    check_order_and_nesting(document)
    (restored,) = of_phase(document, "X")
    assert (restored["name"], restored["cat"], restored["dur"]) == ("operation: prompt_restore", "operation", 2)
    assert restored["args"] == {
        "round": -1, "n_tokens": 64, "n_kept": 60, "reuse": "restored", "size_bytes": 1 << 20,
    }  # fmt: skip
    names = [event["name"] for event in of_phase(document, "i")]
    assert names == ["operation: clear", "operation: unknown 99"]


def test_a_slice_that_outlasts_the_one_around_it_is_cut_and_keeps_its_length_in_words(tmp_path):
    outer = record(Kind.ROUND, duration_ns=10_000)
    inner = record(Kind.SPAN, t_start_ns=4_000, duration_ns=9_000, code=Phase.ACCEPT)
    document = exported(make_trace(np.concatenate([inner, outer])), tmp_path / "x.json")
    slices = {event["name"]: event for event in of_phase(document, "X")}
    assert (slices["accept"]["dur"], slices["accept"]["args"]["recorded_us"]) == (6, 9)
    assert "recorded_us" not in slices["round 0"]["args"]


def test_a_name_that_ends_in_gz_is_compressed_to_the_same_text_and_the_same_bytes_every_time(tmp_path):
    trace = make_trace()
    plain, packed = exported(trace, tmp_path / "x.json"), exported(trace, tmp_path / "x.json.gz")
    assert plain == packed
    export_chrome(trace, tmp_path / "y.json.gz")
    assert (tmp_path / "x.json.gz").read_bytes() == (tmp_path / "y.json.gz").read_bytes()
    assert (tmp_path / "x.json.gz").stat().st_size < (tmp_path / "x.json").stat().st_size / 5


def test_an_empty_trace_is_a_valid_file(tmp_path):
    fractions = []
    document = exported(Trace(), tmp_path / "x.json", progress=fractions.append)
    assert [event["ph"] for event in document["traceEvents"]] == ["M"]
    assert fractions[-1] == 1


def test_progress_rises_to_one(tmp_path):
    fractions = []
    export_chrome(make_trace(make_records(400)), tmp_path / "x.json", progress=fractions.append)
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < 0.3
    assert fractions[-1] == 1
    assert len(fractions) > 8


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_a_cancelled_export_leaves_nothing_and_an_older_file_as_it_was(tmp_path, name):
    asked = itertools.count()
    with pytest.raises(TraceCancelled):
        export_chrome(make_trace(make_records(400)), tmp_path / name, cancelled=lambda: next(asked) > 3)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).write_text("older")
    with pytest.raises(TraceCancelled):
        export_chrome(make_trace(), tmp_path / name, cancelled=lambda: True)
    assert (tmp_path / name).read_text() == "older"


def test_a_failed_export_leaves_nothing(tmp_path):
    trace = make_trace()
    trace.header["path"] = object()
    with pytest.raises(TypeError):
        export_chrome(trace, tmp_path / "x.json")
    with pytest.raises(FileNotFoundError):
        export_chrome(make_trace(), tmp_path / "missing" / "x.json")
    with pytest.raises(IsADirectoryError):
        export_chrome(make_trace(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_export_behind_a_link_replaces_what_the_link_leads_to(tmp_path):
    (tmp_path / "real.json").write_text("older")
    (tmp_path / "link.json").symlink_to("real.json")
    export_chrome(make_trace(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["traceEvents"]


def test_records_that_come_during_the_export_do_not_disturb_it(tmp_path):
    trace = make_trace(make_records(20))
    n_before = trace.store.n_records
    document = exported(trace, tmp_path / "x.json", progress=lambda _: trace.store.append(make_records(5, seed=2)))
    assert document["metadata"]["n_records"] == n_before < trace.store.n_records
    check_order_and_nesting(document)


def test_a_large_trace_never_makes_a_large_string(tmp_path, monkeypatch):
    sizes = []
    trace = make_trace(make_many(60_000))
    real = chrome._Document.chunks

    def measured(document):
        for chunk in real(document):
            sizes.append(len(chunk))
            yield chunk

    monkeypatch.setattr(chrome._Document, "chunks", measured)
    export_chrome(trace, tmp_path / "x.json")
    assert max(sizes) < 3_000_000 < sum(sizes)
    assert (tmp_path / "x.json").stat().st_size > 5_000_000


MOMENT = st.integers(0, 60)
RECORD = st.fixed_dictionaries({
    "kind": st.sampled_from([int(kind) for kind in Kind]),
    "t_start_ns": MOMENT | st.integers(-(2**60), 2**60),
    "duration_ns": MOMENT | st.just(0) | st.integers(-5, 2**60),
    "round": st.integers(-1, 3),
    "slot": st.integers(-1, 2) | st.integers(-(2**15), 2**15 - 1),
    "code": st.integers(0, 12) | st.integers(0, 255),
    "position": st.integers(-(2**31), 2**31 - 1),
    "token": st.sampled_from([-1, 100, 103, 104]) | st.integers(-(2**31), 2**31 - 1),
    "n": st.integers(-3, 4) | st.integers(-(2**31), 2**31 - 1),
    "m": st.integers(-3, 4) | st.integers(-(2**31), 2**31 - 1),
    "value": st.floats(),
    "size_bytes": st.integers(-(2**63), 2**63 - 1),
})  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(RECORD, max_size=25), with_text=st.booleans())
def test_any_records_make_valid_json_with_rising_times_and_strict_nesting(tmp_path, rows, with_text):
    records = empty_records(len(rows))
    for made, row in zip(records, rows, strict=True):
        for name, value in row.items():
            made[name] = value
    trace = make_trace(records)
    document = exported(trace, tmp_path / "x.json", with_text=with_text)
    check_order_and_nesting(document)
    assert len(of_phase(document, "s")) == len(of_phase(document, "f"))
    n_tokens = sum(len(event["args"].get("tokens", ())) for event in of_phase(document, "X"))
    n_tokens += sum(event["cat"] == "token" for event in of_phase(document, "i"))
    assert n_tokens == len(make_store(records).kind(Kind.TOKEN))
