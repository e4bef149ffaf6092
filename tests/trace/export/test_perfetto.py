"""The Perfetto export, read by the published protos: it says what the Chrome trace says, slice by slice."""

import itertools
import json
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftscope.engine.events import Kind, Mechanism, Operation, Phase, empty_records
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.export import perfetto as perfetto_module
from draftscope.trace.export.arguments import rounded
from draftscope.trace.export.interned import InternedTexts
from draftscope.trace.export.perfetto import export_perfetto
from draftscope.trace.trace import Trace
from tests.trace.export.made_probes import with_probes
from tests.trace.export.perfetto_reader import Slice, read_perfetto
from tests.trace.export.test_chrome import RECORD, checkpoint, exported, of_phase
from tests.trace.synthetic import PIECES, T_START_NS, SyntheticRun, make_many, make_records, make_trace, record


def perfetto(trace, path, **options):
    export_perfetto(trace, path, **options)
    return read_perfetto(path)


def chrome_slices(document, phase):
    """Slices ("X") or moments ("i") of a Chrome trace as the other reader gives them."""
    tracks = {e["tid"]: e["args"]["name"] for e in of_phase(document, "M") if e["name"] == "thread_name"}
    return [
        Slice(
            tracks[event["tid"]], event["name"], event["cat"], nanoseconds(event["ts"]),
            nanoseconds(event["dur"]) if phase == "X" else -1, plain(event["args"]),
        )
        for event in of_phase(document, phase)
    ]  # fmt: skip


def nanoseconds(us):
    exact = us * 1000
    assert exact == int(exact)
    return int(exact)


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def by_everything(slices):
    return sorted(slices, key=lambda one: (one.track, one.t_ns, -one.duration_ns, one.name, repr(one.arguments)))


def check_agreement(trace, folder, **options):
    """A Chrome and a Perfetto file of one trace say the same of every slice, moment, arrow and counter."""
    document = exported(trace, folder / "x.json", **options)
    found = perfetto(trace, folder / "x.pftrace", **options)
    assert by_everything(found.slices) == by_everything(chrome_slices(document, "X"))
    assert by_everything(found.moments) == by_everything(chrome_slices(document, "i"))
    tracks = {e["tid"]: e["args"]["name"] for e in of_phase(document, "M") if e["name"] == "thread_name"}
    for phase, arrows in (("s", found.arrow_starts), ("f", found.arrow_ends)):
        places = {e["id"] + 1: (tracks[e["tid"]], nanoseconds(e["ts"])) for e in of_phase(document, phase)}
        assert arrows == places
    counters = {}
    for event in of_phase(document, "C"):
        ((unit, value),) = event["args"].items()
        assert found.units[event["name"]] == unit
        counters.setdefault(event["name"], []).append((nanoseconds(event["ts"]), value))
    assert found.counters == counters
    return found


@pytest.mark.parametrize("with_text", [True, False])
def test_a_chrome_and_a_perfetto_file_agree_span_by_span(tmp_path, with_text):
    found = check_agreement(make_trace(make_many(30_000)), tmp_path, with_text=with_text)
    assert len(found.slices) > 10_000
    assert len(found.arrow_starts) > 500
    assert len(found.counters) == 4 * 3 + 1


def test_what_probes_measured_is_a_moment_on_the_track_of_its_slot(tmp_path):
    trace = with_probes(make_trace(make_records(5)))
    trace.store.append(record(Kind.ROW, t_start_ns=T_START_NS + 9, code=2, position=571, n=592, m=3, round=1))
    found = check_agreement(trace, tmp_path)
    probes = [one for one in found.moments if one.category == "probe"]
    assert [(one.track, one.t_ns, one.name) for one in probes] == [
        ("slot 0", 0, "probe: rejection"), ("slot 0", 2_000, "probe: rejection"), ("slot 1", 1_000, "probe: rejection"),
    ]  # fmt: skip
    assert [one.arguments["restored_max_abs"] for one in probes] == [0, 0.5, 0.25]
    assert "without_max_abs" not in probes[0].arguments
    assert (probes[0].arguments["level"], probes[0].arguments["state_status"]) == ("state", "equal")
    (row,) = (one for one in found.moments if one.category == "row")
    assert row.arguments == {"round": 1, "position": 571, "position_found": 592, "n_waiting": 3, "fault": "zero_row"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(RECORD, max_size=25), with_text=st.booleans())
def test_files_of_any_records_agree(tmp_path, rows, with_text):
    records = empty_records(len(rows))
    for made, row in zip(records, rows, strict=True):
        for name, value in row.items():
            made[name] = value
    check_agreement(make_trace(records), tmp_path, with_text=with_text)


def test_tracks_belong_to_one_process_and_the_engine_comes_first(tmp_path):
    found = perfetto(make_trace(make_records(3, n_slots=2)), tmp_path / "x.pftrace")
    slots = [name for name in found.tracks if name not in found.units]
    assert slots == ["Draftscope", "engine (decodes shared by all slots)", "slot 0", "slot 1"]
    assert set(found.parents.values()) == {"Draftscope"}
    assert sorted(found.ranks, key=found.ranks.__getitem__)[:2] == slots[1:3]


def test_slices_that_touch_do_not_enclose_each_other(tmp_path):
    records = np.concatenate([
        record(Kind.SPAN, t_start_ns=0, duration_ns=10, code=Phase.DRAFT),
        record(Kind.SPAN, t_start_ns=10, duration_ns=0, code=Phase.SAVE),
        record(Kind.SPAN, t_start_ns=10, duration_ns=5, code=Phase.VERIFY),
        record(Kind.ROUND, t_start_ns=0, duration_ns=15, n=1),
    ])  # fmt: skip
    found = perfetto(make_trace(records), tmp_path / "x.pftrace")
    # In the order in which a reader closes them, which is right only if begins and ends are.
    assert [(one.name, one.t_ns, one.duration_ns) for one in found.slices] == [
        ("draft", 0, 10), ("save", 10, 0), ("verify", 10, 5), ("round 0", 0, 15)
    ]  # fmt: skip


def test_a_save_that_is_restored_twice_has_two_arrows(tmp_path):
    records = np.concatenate([
        checkpoint(Kind.SAVE, 0, 1), checkpoint(Kind.RESTORE, 1_000, 1), checkpoint(Kind.RESTORE, 2_000, 1),
    ])  # fmt: skip
    found = perfetto(make_trace(records), tmp_path / "x.pftrace")
    assert found.arrow_starts == {1: ("slot 0", 0), 2: ("slot 0", 0)}
    assert found.arrow_ends == {1: ("slot 0", 1_000), 2: ("slot 0", 2_000)}


def test_the_first_moment_tells_header_definitions_and_results(tmp_path):
    trace = make_trace(np.delete(make_records(10), 20))
    trace.header |= {"rate": 0.5, "big": 2**70, "nothing": None, "is_new": True}
    about = perfetto(trace, tmp_path / "x.pftrace").about
    assert about["header"] == trace.header | {"big": str(2**70), "nothing": "null"}
    assert about["results"] == trace.results
    assert about["definitions"]["acceptance"] == "accepted / drafted tokens"
    assert (about["n_missing_records"], about["n_records"]) == (1, trace.store.n_records)


def test_without_text_no_bytes_of_it_are_in_the_file(tmp_path):
    path = tmp_path / "x.pftrace"
    found = perfetto(make_trace(), path, with_text=False)
    for secret in (b"secret", b" cat", b"chosen", b"END"):
        assert secret not in path.read_bytes()
    arguments = [argument for one in found.slices for token in one.arguments.get("tokens", ()) for argument in token]
    assert set(arguments) == {"origin", "position", "draft_position", "probability"}


def test_texts_that_are_no_utf8_become_replacement_characters(tmp_path):
    found = perfetto(make_trace(), tmp_path / "x.pftrace")
    texts = {token["text"] for one in found.slices for token in one.arguments.get("tokens", ())}
    assert texts == {" the", " cat", " sat", "\N{REPLACEMENT CHARACTER}", ".", "\n"}
    assert any(b"\xe2" in piece for piece in PIECES.values())


def test_positions_of_target_and_draft_and_bytes_by_place_are_counters(tmp_path):
    records = np.concatenate([
        record(Kind.SPAN, t_start_ns=0, duration_ns=10, code=Phase.PROMPT, position=0, n=20),
        record(Kind.SPAN, t_start_ns=20, duration_ns=5, code=Phase.DRAFT, position=21, n=3),
        record(Kind.SAVE, t_start_ns=30, duration_ns=1, code=Mechanism.COW, position=20, size_bytes=64),
        record(Kind.SAVE, t_start_ns=32, duration_ns=1, code=Mechanism.HOST, position=20, size_bytes=100),
        record(Kind.SPAN, t_start_ns=40, duration_ns=10, code=Phase.VERIFY, position=20, n=4),
        record(Kind.RESTORE, t_start_ns=50, duration_ns=2, code=Mechanism.HOST, position=20, size_bytes=100),
        record(Kind.SAVE, t_start_ns=60, duration_ns=1, code=Mechanism.HOST, position=20, size_bytes=120),
        record(Kind.SAVE, t_start_ns=62, duration_ns=1, code=Mechanism.HOST, position=20, size_bytes=7, slot=1),
    ])  # fmt: skip
    found = check_agreement(make_trace(records), tmp_path)
    assert found.counters == {
        "slot 0: target position": [(0, 0), (10, 20), (40, 20), (50, 24), (52, 20)],
        "slot 0: draft position": [(20, 21), (25, 24)],
        "checkpoints in host memory": [(33, 100), (61, 120), (63, 127)],
        "checkpoints in device memory": [(31, 64)],
    }


def test_what_was_accepted_is_an_argument_of_the_acceptance_span(tmp_path):
    run = SyntheticRun(n_slots=1)
    found = perfetto(make_trace(run.make(5)), tmp_path / "x.pftrace")
    accepts = [one.arguments for one in found.slices if one.name == "accept"]
    assert [(one["draft_n"], one["draft_n_accepted"]) for one in accepts] == run.counts[0]


def test_an_operation_has_its_words(tmp_path):
    records = record(Kind.OPERATION, duration_ns=5, code=Operation.PROMPT_SAVE, position=9, size_bytes=77, round=-1)
    (saved,) = perfetto(make_trace(records), tmp_path / "x.pftrace").slices
    assert (saved.name, saved.arguments["size_bytes"], saved.arguments["reuse"]) == (
        "operation: prompt_save", 77, "none",
    )  # fmt: skip


def test_an_empty_trace_is_a_valid_file(tmp_path):
    fractions = []
    found = perfetto(Trace(), tmp_path / "x.pftrace", progress=fractions.append)
    assert (found.tracks, found.slices) == (["Draftscope"], [])
    assert fractions[-1] == 1


def test_progress_rises_to_one_and_a_cancelled_export_leaves_an_older_file_as_it_was(tmp_path):
    path, fractions = tmp_path / "x.pftrace", []
    export_perfetto(make_trace(make_many(60_000)), path, progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    assert len(fractions) > 8
    path.write_text("older")
    asked = itertools.count()
    with pytest.raises(TraceCancelled):
        export_perfetto(make_trace(make_many(60_000)), path, cancelled=lambda: next(asked) > 3)
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_the_work_of_python_does_not_grow_with_the_records(tmp_path, monkeypatch):
    texts, chunks = [], []
    number, chunk = InternedTexts.number, perfetto_module._Packets.chunks
    monkeypatch.setattr(InternedTexts, "number", lambda self, *args: (texts.append(1), number(self, *args))[1])
    monkeypatch.setattr(
        perfetto_module._Packets, "chunks", lambda self: (chunks.append(len(c)) or c for c in chunk(self))
    )
    trace = make_trace(make_many(100_000))
    export_perfetto(trace, tmp_path / "x.pftrace")
    n_rounds = len(trace.store.kind(Kind.ROUND))
    assert len(texts) < 1.2 * n_rounds + 2_000
    assert max(chunks) < 2_000_000 < sum(chunks)


@given(st.floats(1e-16, 1e16) | st.floats(-1e6, 1e6))
def test_figures_are_rounded_to_the_number_with_the_shortest_text(value):
    (made,) = rounded(np.array([value])).tolist()
    assert math.isclose(made, value, rel_tol=1e-5, abs_tol=1e-20)
    assert len(json.dumps(made).lstrip("-").partition("e")[0].replace(".", "").strip("0")) <= 6
