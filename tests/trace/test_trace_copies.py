"""Copies with and without text, recordings made whole again, and files removed."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from draftscope.engine.events import Kind
from draftscope.engine.probes import ArrayKind
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.tracefile import (
    TraceError,
    TraceWriter,
    copy_trace,
    database,
    facts,
    finish_recording,
    read_facts,
    read_trace,
    remove_trace,
)
from draftscope.trace.tracefile.reader import CUT_OFF
from tests.trace.files import HEADER, LOG, MEMORY, alter, make_arrays, write
from tests.trace.synthetic import make_many, make_records
from tests.trace.test_old_files import OLD


def test_everything_that_was_written_comes_back(tmp_path):
    trace = read_trace(write(tmp_path / "x.dscope"))
    assert (trace.header, trace.log, trace.memory) == (HEADER, LOG, MEMORY)
    assert trace.missing == []
    expected = {(array.t_start_ns, array.kind): array.values for array in make_arrays()}
    assert trace.store.probes["t_start_ns"].tolist() == [1000, 2000]
    assert trace.store.probes["restored_top"].tolist() == [101, 101]
    for (t_start_ns, kind), values in expected.items():
        if kind is not ArrayKind.RESULT:
            found = trace.store.array(t_start_ns, kind)
            assert found is not None
            assert (found.tobytes(), found.dtype, found.shape) == (values.tobytes(), values.dtype, values.shape)


def test_a_copy_is_the_same_and_one_without_text_tells_nothing_of_it(tmp_path):
    path = write(tmp_path / "x.dscope")
    copy_trace(path, tmp_path / "same.dscope")
    copy_trace(path, tmp_path / "bare.dscope", with_text=False)
    whole, same, bare = (read_trace(tmp_path / f"{name}.dscope") for name in ("x", "same", "bare"))
    assert same.store.in_order().tobytes() == whole.store.in_order().tobytes()
    assert (same.header, same.results, same.log) == (whole.header, whole.results, whole.log)
    assert b"secret" not in (tmp_path / "bare.dscope").read_bytes()
    assert (bare.log, len(bare.pieces), bare.memory) == ([], 0, whole.memory)
    assert set(bare.store.kind(Kind.TOKEN)["token"].tolist()) == {-1}
    assert bare.store.probes["restored_top"].tolist() == [-1, -1]
    assert {array.kind for array in bare.store.arrays()} == {ArrayKind.LAYERS}
    with closing(sqlite3.connect(tmp_path / "bare.dscope")) as tables:
        assert tables.execute("SELECT DISTINCT token, chosen FROM tokens").fetchall() == [(-1, -1)]


def test_a_copy_of_a_long_recording_has_the_tables_that_it_lacks(tmp_path):
    records = make_many(9000)
    with TraceWriter(tmp_path / "x.dscope", HEADER, most_rows=100) as writer:
        writer.append(records)
    copy_trace(tmp_path / "x.dscope", tmp_path / "y.dscope")
    with closing(sqlite3.connect(tmp_path / "y.dscope")) as tables:
        assert tables.execute("SELECT count(*) FROM rounds").fetchone()[0] == (records["kind"] == Kind.ROUND).sum()


def test_a_copy_that_is_cancelled_or_would_be_the_file_itself_is_not_made(tmp_path):
    path = write(tmp_path / "x.dscope")
    with pytest.raises(TraceCancelled):
        copy_trace(path, tmp_path / "y.dscope", cancelled=lambda: True)
    with pytest.raises(TraceError, match="is the trace itself"):
        copy_trace(path, path)
    (tmp_path / "letter.txt").write_text("Dear reader")
    with pytest.raises(TraceError, match="is no trace"):
        copy_trace(path, tmp_path / "letter.txt")
    (tmp_path / "letter.txt").unlink()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_an_older_copy_stays_until_the_new_one_is_whole(tmp_path):
    path, target = write(tmp_path / "x.dscope"), write(tmp_path / "y.dscope")
    before = target.read_bytes()
    with pytest.raises(TraceCancelled):
        copy_trace(path, target, cancelled=lambda: True)
    assert target.read_bytes() == before
    copy_trace(path, target, with_text=False)
    assert target.read_bytes() != before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.dscope", "y.dscope"]


def test_a_copy_of_an_old_file_is_of_the_present_format(tmp_path):
    copy_trace(OLD / "v1.dscope", tmp_path / "new.dscope")
    old, new = read_trace(OLD / "v1.dscope"), read_trace(tmp_path / "new.dscope")
    assert new.store.in_order().tobytes() == old.store.in_order().tobytes()
    assert (new.header, new.results) == (old.header, old.results)


def cut_off(path: Path, *, at_rest: bool = False, header: dict[str, Any] = HEADER) -> Path:
    """A file as a killed writer leaves it."""
    with TraceWriter(path.with_name("live.dscope"), header) as writer:
        writer.append(make_records(20))
        if at_rest:
            writer.rest()
        while not read_facts(writer.path).n_records:
            pass
        for suffix in ("", "-wal", "-lock"):
            source = writer.path.with_name(writer.path.name + suffix)
            path.with_name(path.name + suffix).write_bytes(source.read_bytes())
    writer.path.unlink()
    return path


def test_a_recording_that_was_cut_off_becomes_one_file_that_says_so(tmp_path):
    path = cut_off(tmp_path / "x.dscope")
    assert not read_facts(path).is_complete
    finish_recording(path)
    trace = read_trace(path)
    assert trace.store.n_records == len(make_records(20))
    assert trace.is_complete and trace.missing == [CUT_OFF]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    copy_trace(path, tmp_path / "copy.dscope")
    assert read_trace(tmp_path / "copy.dscope").missing == [CUT_OFF]


def test_a_recording_that_was_at_rest_has_lost_nothing(tmp_path):
    path = cut_off(tmp_path / "x.dscope", at_rest=True)
    finish_recording(path)
    assert read_trace(path).is_complete and read_trace(path).missing == []


def test_a_file_that_is_being_recorded_is_neither_finished_nor_removed(tmp_path):
    with TraceWriter(tmp_path / "x.dscope", HEADER) as writer:
        assert read_facts(writer.path).is_being_recorded
        for refuse in (finish_recording, remove_trace):
            with pytest.raises(TraceError, match="is being recorded"):
                refuse(writer.path)
    remove_trace(writer.path)
    remove_trace(writer.path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ["run", "chunks"])
def test_the_facts_of_a_file_with_a_view_that_computes_for_ever_come_at_once(tmp_path, table):
    columns = "'a' || n AS key, '1' AS value" if table == "run" else "n AS first, 1 AS n, 0 AS n_tokens"
    path = alter(
        write(tmp_path / "x.dscope"),
        f"DROP TABLE {table}",
        f"CREATE VIEW {table} AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
        f"SELECT {columns} FROM c",
    )
    found = read_facts(path)
    if table == "run":
        assert (found.problem, found.n_records) == ("", len(make_records(20)))
    else:
        assert "it has no table chunks" in found.problem


@pytest.mark.parametrize("limit_s", [-1.0, 0.0])
def test_a_file_that_takes_too_long_to_look_into_is_given_up_and_named(tmp_path, monkeypatch, limit_s):
    monkeypatch.setattr(facts, "LIMIT_S", limit_s)
    monkeypatch.setattr(database, "_STEPS", 10)
    for path in (write(tmp_path / "x.dscope"), OLD / "v1.dscope"):
        found = read_facts(path)
        assert str(path) in found.problem and "to look into" in found.problem
        assert found.size_bytes > 0 and found.n_records == 0


def test_the_facts_of_what_is_no_trace_are_a_problem_in_words(tmp_path):
    (tmp_path / "x.dscope").write_bytes(b"hello")
    assert "is no trace" in read_facts(tmp_path / "x.dscope").problem
    assert "no file" in read_facts(tmp_path / "y.dscope").problem or read_facts(tmp_path / "y.dscope").problem
