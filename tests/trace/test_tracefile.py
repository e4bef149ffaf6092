"""The native file: what goes in comes out, whatever happens on the way; what is no trace is refused in words."""

import contextlib
import math
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.events import COLUMNS, Kind, Origin, Records
from draftscope.trace.tracefile import (
    Trace,
    TraceError,
    TraceWriter,
    database,
    is_being_recorded,
    read_trace,
    recording,
)
from draftscope.trace.tracefile.reader import CUT_OFF
from draftscope.trace.tracefile.schema import APPLICATION_ID, FORMAT_VERSION
from draftscope.trace.tracefile.tables import KIND_TABLES
from tests.trace.synthetic import PIECES, make_many, make_records, record
from tests.trace.test_trace_copies import cut_off

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
    counts = {
        name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        for name in (*(table.name for table in KIND_TABLES), "checkpoints", "slots")
    }
    origins = dict(database.execute("SELECT origin, count(*) FROM tokens GROUP BY origin"))
    mechanism = database.execute("SELECT DISTINCT mechanism FROM checkpoints").fetchall()
    database.close()
    of_kind = {kind: int((records["kind"] == kind).sum()) for kind in Kind}
    rounds, tokens = records[records["kind"] == Kind.ROUND], records[records["kind"] == Kind.TOKEN]
    assert total == (rounds["m"].sum(), rounds["n"].sum(), 19)
    assert counts["decodes"] + counts["spans"] == of_kind[Kind.SPAN] and counts["decodes"] > 0
    assert counts["checkpoints"] == of_kind[Kind.SAVE] + of_kind[Kind.RESTORE]
    assert counts["slots"] == 4
    for name, kind in [("rounds", Kind.ROUND), ("fallbacks", Kind.FALLBACK), ("slot_states", Kind.SLOT)]:
        assert counts[name] == of_kind[kind]
    assert origins == {origin.name.lower(): int((tokens["code"] == origin).sum()) for origin in Origin}
    assert mechanism == [("host",)]


def test_a_recording_that_nobody_asked_for_gets_tables_only_when_it_is_small(tmp_path):
    records = make_records(20)
    for most_rows, has_tables in ((len(records), True), (len(records) - 1, False)):
        path = tmp_path / f"{most_rows}.dscope"
        with TraceWriter(path, HEADER, most_rows=most_rows) as writer:
            writer.append(records)
        with closing(sqlite3.connect(path)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
            assert ("rounds" in names) is has_tables
            assert database.execute("SELECT value FROM run WHERE key = 'has_tables'").fetchone() == (
                "true" if has_tables else "false",
            )
        assert read_trace(path).store.n_records == len(records)


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
    left = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir() if not entry.name.endswith("-shm")}
    assert set(left) == {"x.dscope", "x.dscope-wal", "x.dscope-lock"}
    assert not is_being_recorded(path)
    trace = read_trace(path)
    assert trace.store.in_order()[: len(make_records(200))].tobytes() == make_records(200).tobytes()
    assert (trace.header, dict(trace.pieces.items()), trace.is_complete) == ({"program": "victim"}, PIECES, False)
    assert trace.missing == [CUT_OFF]
    # Nothing is put back, or taken away, behind the back of who reads.
    assert {name: (tmp_path / name).read_bytes() for name in left} == left


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


def test_a_write_that_fails_is_told_and_what_was_committed_stays(tmp_path, monkeypatch):
    path = tmp_path / "x.dscope"
    writer = TraceWriter(path, HEADER)
    writer.append(record(Kind.SPAN))
    read_when_written(path)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("the disk is on fire")

    monkeypatch.setattr(recording.Recording, "add_records", fail)
    writer.append(record(Kind.SPAN))
    with pytest.raises(TraceError, match="could not be written: the disk is on fire"):
        writer.close()
    writer.close()
    assert read_trace(path).store.n_records == 1
    assert not read_trace(path).is_complete


@pytest.mark.parametrize("has_rest", [False, True])
def test_an_old_trace_stays_where_a_new_one_cannot_begin(tmp_path, monkeypatch, has_rest):
    path = write(tmp_path / "x.dscope", make_records(5))
    if has_rest:
        cut_off(path)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir() if not entry.name.endswith("-lock")}

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    for owner, name in ((recording, "statements"), (Path, "replace")):
        with monkeypatch.context() as patch:
            real = Path.replace

            def replace(self: Path, target: Path, real: object = real) -> Path:
                return real(self, target) if self.name.endswith(("-wal", "-old")) else fail()

            patch.setattr(owner, name, fail if name == "statements" else replace)
            with pytest.raises(TraceError, match="the disk is gone"):
                TraceWriter(path, {})
        assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before
    assert read_trace(path).header == HEADER
    with TraceWriter(path, {"program": "new"}) as writer:
        writer.append(make_records(2))
    assert read_trace(path).header == {"program": "new"}
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_what_a_recording_that_ended_early_left_in_two_files_is_told_to_belong_together(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "_CLOSE_WAIT_MS", 1)
    path = tmp_path / "x.dscope"
    writer = TraceWriter(path, HEADER)
    writer.append(make_records(3))
    n = read_when_written(path).store.n_records
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM run").fetchone()

        def fail(*_: object) -> None:
            raise OSError("the disk is gone")

        monkeypatch.setattr(recording.Recording, "add_records", fail)
        writer.append(record(Kind.SPAN))
        with pytest.raises(TraceError) as caught:
            writer.close()
    kept = f"What came before is kept: {n} records, in x.dscope and x.dscope-wal, which belong together."
    assert str(caught.value).endswith(kept)
    assert n == len(make_records(3))


FILL_THE_DISK = """
    import resource, sys
    from draftscope.trace.tracefile import TraceError, TraceWriter
    from tests.trace.synthetic import make_many
    writer = TraceWriter(sys.argv[1], {"program": "victim"})
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    records = make_many(200_000)
    try:
        for start in range(0, len(records), 5000):
            writer.append(records[start : start + 5000])
            if start % 50_000 == 0:
                import time; time.sleep(0.1)
        writer.close()
    except TraceError as error:
        print(error, flush=True)
    print("the run goes on", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
def test_a_disk_that_takes_no_more_ends_the_recording_in_a_sentence_and_what_came_before_opens(tmp_path):
    path = tmp_path / "x.dscope"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = textwrap.dedent(FILL_THE_DISK)
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, env=environment, text=True, check=True, timeout=60
    )
    sentence, end = done.stdout.splitlines()
    assert sentence.startswith(f"Recording into {path} ended, since the disk takes no more")
    assert end == "the run goes on"
    trace = read_trace(path)
    assert f"What came before is kept: {trace.store.n_records:,} records" in sentence
    assert sentence.endswith("x.dscope-wal, which belong together.") == path.with_name("x.dscope-wal").exists()
    assert 0 < trace.store.n_records < 200_000
    assert not trace.is_complete


def test_a_recording_asks_for_more_room_and_ends_where_it_gets_none(tmp_path):
    asked: list[tuple[Path, int]] = []

    def share(path: Path, n_bytes: int) -> int:
        asked.append((path, n_bytes))
        return (20_000, 40_000)[min(len(asked) - 1, 1)]

    path, records = tmp_path / "x.dscope", make_many(40_000)
    writer = TraceWriter(path, HEADER, share=share)
    with contextlib.suppress(TraceError):
        for start in range(0, len(records), 1000):
            writer.append(records[start : start + 1000])
            time.sleep(0.1)
    with pytest.raises(TraceError, match="recordings take up all the disk space that they may"):
        writer.close()
    assert asked[0] == (path, 0) and len(asked) == 3
    assert all(asked_for == path for asked_for, _ in asked) and asked[1][1] < asked[2][1]
    assert 0 < read_trace(path).store.n_records < len(records)


def test_a_recording_that_gets_no_room_is_not_begun(tmp_path):
    def refuse(*_: object) -> int:
        raise TraceError("There is no room.")

    with pytest.raises(TraceError, match="no room"):
        TraceWriter(tmp_path / "x.dscope", HEADER, share=refuse)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_being_recorded_is_not_taken_by_another(tmp_path):
    with TraceWriter(tmp_path / "x.dscope", HEADER) as writer:
        assert is_being_recorded(tmp_path / "x.dscope")
        with pytest.raises(TraceError, match="is being recorded"):
            TraceWriter(tmp_path / "x.dscope", {})
        writer.append(make_records(2))
    assert not is_being_recorded(tmp_path / "x.dscope")
    assert read_trace(tmp_path / "x.dscope").store.n_records == len(make_records(2))


def test_nobody_waits_for_a_file_that_cannot_be_made(tmp_path):
    writer = TraceWriter(tmp_path / "missing" / "x.dscope", {}, waits=False)
    deadline = time.monotonic() + 10
    while writer.error is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "cannot be written" in str(writer.error)
    with pytest.raises(TraceError, match="cannot be written"):
        writer.append(make_records(1))
    with pytest.raises(TraceError, match="cannot be written"):
        writer.close()


def test_a_recording_at_rest_is_whole_until_more_comes(tmp_path):
    path = tmp_path / "x.dscope"
    with TraceWriter(path, HEADER) as writer:
        for is_complete in (True, False):
            writer.append(make_records(2))
            if is_complete:
                writer.rest()
            deadline = time.monotonic() + 10
            while read_trace(path).is_complete is not is_complete and time.monotonic() < deadline:
                time.sleep(0.01)
            assert read_trace(path).is_complete is is_complete
            assert read_trace(path).missing == []


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


def test_a_trace_of_a_newer_version_is_refused_with_what_to_do(tmp_path):
    path = alter(write(tmp_path / "x.dscope", make_records(2)), f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    refused(path, "newer Draftscope", f"format {FORMAT_VERSION + 1}", "Update Draftscope")


def test_a_trace_that_may_not_be_written_opens_and_stays_as_it_was(tmp_path):
    path = write(tmp_path / "x.dscope", make_records(3))
    data = path.read_bytes()
    path.chmod(0o400)
    assert read_trace(path).store.n_records == len(make_records(3))
    assert path.read_bytes() == data
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_trace_that_another_program_has_locked_is_told_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_WAIT_S", 0.05)
    path = write(tmp_path / "x.dscope", make_records(3))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    refused(path, "in use")
    other.close()
    assert read_trace(path).is_complete


def test_the_file_names_itself_to_other_programs(tmp_path):
    head = write(tmp_path / "x.dscope", make_records(1)).read_bytes()[:100]
    assert int.from_bytes(head[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(head[60:64], "big") == FORMAT_VERSION
