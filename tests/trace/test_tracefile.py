"""The native file: what goes in comes out, whatever happens on the way; what is no trace is refused in words."""

import math
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.events import COLUMNS, Kind, Origin, Records
from draftscope.trace.tracefile import Trace, TraceError, TraceWriter, read_trace, reader
from draftscope.trace.tracefile.schema import APPLICATION_ID, FORMAT_VERSION
from tests.trace.synthetic import PIECES, make_records, record

HEADER = {"program": "draftscope test", "settings": {"n_slots": 4, "stop": ["END"]}, "prompt": "a secret prompt"}
RESULT = {"slot": 2, "text": "a secret text", "tokens": [101], "stop": "max_tokens", "draft_n": 7}


def write(path: Path, records: Records, *, with_text: bool = True) -> Path:
    with TraceWriter(path, HEADER, with_text=with_text) as writer:
        for part in np.array_split(records, 7):
            writer.append(part)
        writer.add_pieces(PIECES)
        writer.add_results([RESULT])
    return path


def read_when_written(path: Path) -> Trace:
    """The trace once it has records."""
    deadline = time.monotonic() + 20
    while (trace := read_trace(path)).store.n_records == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    return trace


def alter(path: Path, statement: str) -> Path:
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()
    return path


def test_what_was_written_comes_back_bit_for_bit(tmp_path):
    records = make_records(60)
    trace = read_trace(write(tmp_path / "run.dscope", records))
    # NaN has many bit patterns; a file keeps one.
    expected = records.copy()
    expected["value"][np.isnan(expected["value"])] = math.nan
    assert trace.store.in_order().tobytes() == expected.tobytes()
    assert trace.header == HEADER
    assert trace.results == [RESULT]
    assert dict(trace.pieces.items()) == PIECES
    assert trace.is_complete


def test_a_closed_trace_is_one_file_and_a_name_with_odd_characters_is_no_trouble(tmp_path):
    path = write(tmp_path / "a b?c#d%20é.dscope", make_records(5))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes()[18:20] == b"\1\1"  # no write-ahead log: readers need no second file
    assert read_trace(str(path)).store.n_records > 0


def test_extreme_values_survive(tmp_path):
    extremes = record(Kind.SPAN)
    for column in COLUMNS[3:11]:
        extremes[column.name] = np.iinfo(column.dtype).max
    extremes["kind"], extremes["value"], extremes["size_bytes"] = Kind.SAVE, -1.5e300, 2**63 - 1
    trace = read_trace(write(tmp_path / "x.dscope", extremes))
    assert trace.store.in_order().tobytes() == extremes.tobytes()


def test_without_text_neither_texts_nor_token_ids_are_in_the_file(tmp_path):
    records = make_records(30)
    path = write(tmp_path / "x.dscope", records, with_text=False)
    data = path.read_bytes()
    assert b"secret" not in data
    assert b"END" not in data
    trace = read_trace(path)
    tokens = trace.store.kind(Kind.TOKEN)
    assert len(trace.pieces) == 0
    assert set(tokens["token"].tolist()) == {-1}
    assert set(tokens["m"][tokens["code"] == Origin.REJECTED].tolist()) == {-1}
    assert np.array_equal(tokens["n"], records["n"][records["kind"] == Kind.TOKEN])
    assert trace.results == [{"slot": 2, "stop": "max_tokens", "draft_n": 7}]
    assert trace.header["settings"] == {"n_slots": 4}


def test_figures_that_are_no_numbers_become_null(tmp_path):
    path = tmp_path / "x.dscope"
    with TraceWriter(path, {"rate": math.nan}) as writer:
        writer.add_results([{"slot": 0, "speed": math.inf}])
    trace = read_trace(path)
    assert trace.header == {"rate": None}
    assert trace.results == [{"slot": 0, "speed": None}]


def test_a_person_can_ask_the_file_by_meaning(tmp_path):
    records = make_records(20)
    database = sqlite3.connect(write(tmp_path / "x.dscope", records))
    total = database.execute("SELECT sum(draft_n_accepted), sum(draft_n), max(round) FROM rounds").fetchone()
    counts = [
        database.execute(f"SELECT count(*) FROM {view}").fetchone()[0]
        for view in ("spans", "rounds", "tokens", "saves", "restores", "fallbacks", "slot_states", "operations", "rows")
    ]
    database.close()
    rounds = records[records["kind"] == Kind.ROUND]
    assert total == (rounds["m"].sum(), rounds["n"].sum(), 19)
    assert counts == [int((records["kind"] == kind).sum()) for kind in Kind]


def test_a_running_recording_can_be_read_within_a_second_by_another_connection(tmp_path):
    writer = TraceWriter(tmp_path / "x.dscope", HEADER)
    writer.append(make_records(3))
    trace = read_when_written(tmp_path / "x.dscope")
    writer.close()
    assert trace.store.n_records == len(make_records(3))
    assert not trace.is_complete
    assert read_trace(tmp_path / "x.dscope").is_complete


WRITE_AND_WAIT = """
    import sys, time
    from draftscope.trace.tracefile import TraceWriter, read_trace
    from tests.trace.synthetic import PIECES, make_records
    writer = TraceWriter(sys.argv[1], {"program": "victim"})
    writer.append(make_records(200))
    writer.add_pieces(PIECES)
    while not len(read_trace(sys.argv[1]).pieces):
        time.sleep(0.02)
    print("written", flush=True)
    while True:
        writer.append(make_records(1))
        time.sleep(0.001)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_the_file_of_a_killed_writer_opens_and_says_that_it_was_cut_off(tmp_path):
    path = tmp_path / "x.dscope"
    code = textwrap.dedent(WRITE_AND_WAIT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert (tmp_path / "x.dscope-wal").exists()
    trace = read_trace(path)
    assert trace.store.in_order()[: len(make_records(200))].tobytes() == make_records(200).tobytes()
    assert (trace.header, dict(trace.pieces.items()), trace.is_complete) == ({"program": "victim"}, PIECES, False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.dscope"]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_the_file_of_a_killed_writer_alone_still_has_its_header(tmp_path):
    writer = TraceWriter(tmp_path / "x.dscope", HEADER)
    (tmp_path / "alone.dscope").write_bytes((tmp_path / "x.dscope").read_bytes())
    writer.close()
    trace = read_trace(tmp_path / "alone.dscope")
    assert (trace.header, trace.store.n_records, trace.is_complete) == (HEADER, 0, False)


def test_an_older_trace_is_replaced_and_any_other_file_is_not(tmp_path):
    path = write(tmp_path / "x.dscope", make_records(50))
    (tmp_path / "x.dscope-wal").write_bytes(b"left over")
    TraceWriter(path, {"new": True}).close()
    assert (read_trace(path).header, read_trace(path).store.n_records) == ({"new": True}, 0)
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF" * 100)
    with pytest.raises(TraceError, match="exists and is no trace"):
        TraceWriter(model, {})
    assert model.read_bytes() == b"GGUF" * 100


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"missing/x\.dscope cannot be written"):
        TraceWriter(tmp_path / "missing" / "x.dscope", {})
    with pytest.raises(TraceError, match="is no trace"):
        TraceWriter(tmp_path, {})


def test_a_closed_writer_takes_nothing_more_and_closing_twice_is_harmless(tmp_path):
    writer = TraceWriter(tmp_path / "x.dscope", {})
    writer.close()
    writer.close()
    with pytest.raises(TraceError, match="is closed"):
        writer.append(make_records(1))


def test_a_write_that_fails_is_told_and_what_was_committed_stays(tmp_path):
    path = tmp_path / "x.dscope"
    writer = TraceWriter(path, HEADER)
    impossible = record(Kind.SPAN, sequence=2**64 - 1)
    writer.append(record(Kind.SPAN))
    read_when_written(path)
    writer.append(impossible)
    with pytest.raises(TraceError, match="could not be written"):
        writer.close()
    assert read_trace(path).store.n_records == 1
    assert not read_trace(path).is_complete


def refused(path: Path, *words: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    for word in words:
        assert word in message, message


def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path):
    refused(tmp_path / "nowhere.dscope", "no file")
    refused(tmp_path, "cannot be read")
    for name, content, word in [
        ("empty", b"", "is empty"),
        ("text", b"hello, this is no database at all" * 10, "no trace"),
        ("short", b"SQLite format 3\0" + b"\0" * 20, "cut off"),
        ("two bytes", b"SQ", "cut off"),
        ("gguf", b"GGUF\3\0\0\0", "no trace"),
    ]:
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, word)
    other = alter(tmp_path / "other.db", "CREATE TABLE run (key, value)")
    refused(other, "SQLite database, but no trace")


def test_a_trace_of_the_version_before_opens(tmp_path):
    path = alter(write(tmp_path / "x.dscope", make_records(2)), "DROP VIEW operations")
    path = alter(path, "PRAGMA user_version = 1")
    assert read_trace(path).store.n_records == len(make_records(2))


def test_a_trace_of_a_newer_version_is_refused_with_what_to_do(tmp_path):
    path = alter(write(tmp_path / "x.dscope", make_records(2)), f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    refused(path, "newer Draftscope", f"format {FORMAT_VERSION + 1}", "Update Draftscope")


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.9, 0.999])
def test_a_truncated_trace_is_refused(tmp_path, kept):
    path = write(tmp_path / "x.dscope", make_records(100))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    refused(path, "cut off")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE pieces",
        "UPDATE run SET value = '{not json'",
        "UPDATE results SET value = '[1]'",
        "UPDATE pieces SET piece = 7",
        "UPDATE records SET kind = 99 WHERE rowid = 5",
        "UPDATE records SET slot = 70000 WHERE rowid = 5",
        "UPDATE records SET n = 'many' WHERE rowid = 5",
        "UPDATE records SET position = NULL WHERE rowid = 5",
        "UPDATE records SET position = 0.5 WHERE rowid = 5",
        "UPDATE records SET value = 'fast' WHERE rowid = 5",
        "UPDATE records SET duration_ns = -1 WHERE rowid = 5",
        "UPDATE records SET t_start_ns = 9223372036854775807 WHERE rowid = 5",
        "UPDATE records SET m = n + 1 WHERE kind = 2",
        "UPDATE records SET n = 2000000000 WHERE kind = 2",
        "ALTER TABLE records DROP COLUMN size_bytes",
    ],
)
def test_a_trace_with_impossible_contents_is_refused_as_damaged(tmp_path, statement):
    path = write(tmp_path / "x.dscope", make_records(10))
    if "DROP COLUMN" in statement:
        for view in ("saves", "restores", "operations"):
            alter(path, f"DROP VIEW {view}")
    refused(alter(path, statement), "damaged")


def test_a_view_in_place_of_a_table_is_refused(tmp_path):
    path = write(tmp_path / "x.dscope", make_records(3))
    alter(path, "DROP TABLE pieces")
    alter(
        path,
        "CREATE VIEW pieces AS WITH RECURSIVE n(token) AS (SELECT 1 UNION ALL SELECT token + 1 FROM n) "
        "SELECT token, x'00' AS piece FROM n",
    )
    refused(path, "no table pieces")


def test_flipped_bytes_are_refused_or_read_but_never_crash(tmp_path):
    data = bytearray(write(tmp_path / "x.dscope", make_records(20)).read_bytes())
    random = np.random.default_rng(1)
    n_refused = 0
    for i in range(60):
        damaged = bytearray(data)
        for place in random.integers(100, len(data), 40):
            damaged[place] ^= int(random.integers(1, 256))
        path = tmp_path / f"{i}.dscope"
        path.write_bytes(damaged)
        try:
            read_trace(path)
        except TraceError:
            n_refused += 1
    assert n_refused > 0


def test_a_trace_that_may_not_be_written_opens_and_stays_as_it_was(tmp_path, monkeypatch):
    path = write(tmp_path / "x.dscope", make_records(3))
    data = path.read_bytes()
    path.chmod(0o400)
    monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK)  # root may write everywhere
    assert read_trace(path).store.n_records == len(make_records(3))
    assert path.read_bytes() == data
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_trace_that_another_program_has_locked_is_told_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_WAIT_S", 0.05)
    path = write(tmp_path / "x.dscope", make_records(3))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    refused(path, "in use")
    other.close()
    assert read_trace(path).is_complete


def test_a_cut_off_trace_that_cannot_be_put_back_here_says_what_to_copy(tmp_path, monkeypatch):
    path = write(tmp_path / "x.dscope", make_records(3))
    monkeypatch.setattr(reader, "_connect", lambda _: sqlite3.connect("file:/nowhere/x?mode=ro", uri=True))
    refused(path, "cut off", "Copy both files", "x.dscope-wal")


def test_the_file_names_itself_to_other_programs(tmp_path):
    head = write(tmp_path / "x.dscope", make_records(1)).read_bytes()[:100]
    assert int.from_bytes(head[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(head[60:64], "big") == FORMAT_VERSION
