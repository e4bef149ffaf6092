"""Damaged and hostile trace files: what can be read is read, what cannot is named, and nothing crashes or hangs."""

import os
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from draftscope.engine.events import Kind
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.tracefile import (
    TraceError,
    TraceWriter,
    database,
    memory_limit,
    read_facts,
    read_trace,
    recording,
)
from tests.trace.files import HEADER, RESULT, alter, write
from tests.trace.synthetic import make_many, make_records
from tests.trace.test_old_files import OLD


def refused(path: Path, *words: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    for word in words:
        assert word in message, message


def with_chunks(path: Path, n_chunks: int = 4) -> Path:
    """A file of chunks of 5,000 records."""
    with patch.object(recording, "LARGE_CHUNK", 5000):
        return write(path, make_many(5000 * n_chunks)[: 5000 * n_chunks], n_parts=n_chunks)


@pytest.mark.parametrize("kept", [0.02, 0.1])
def test_of_a_file_that_ends_before_its_records_do_nothing_is_invented(tmp_path, kept):
    path = write(tmp_path / "x.dscope", make_records(100))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    try:
        trace = read_trace(path)
    except TraceError as error:
        assert "damaged" in str(error) or "cut off" in str(error)
    else:
        assert trace.missing


def test_a_file_that_lacks_its_end_opens_as_far_as_it_goes(tmp_path):
    records, path = make_many(40_000), tmp_path / "x.dscope"
    with TraceWriter(path, HEADER, most_rows=0) as writer:
        for part in np.array_split(records, 8):
            writer.append(part)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    trace = read_trace(path)
    n = trace.store.n_records
    assert 0 < n < len(records)
    assert np.isin(trace.store.in_order()["sequence"], records["sequence"]).all()
    assert any("ecords" in sentence and "cannot be read" in sentence for sentence in trace.missing), trace.missing
    assert trace.header == HEADER
    assert path.read_bytes() == data[: len(data) // 2]


@pytest.mark.parametrize("page", [12, 20])
def test_a_damaged_page_costs_the_records_on_it_and_no_others(tmp_path, page):
    path = with_chunks(tmp_path / "x.dscope")
    data = bytearray(path.read_bytes())
    data[page * 8192 : (page + 1) * 8192] = os.urandom(8192)
    path.write_bytes(data)
    trace = read_trace(path)
    assert trace.store.n_records >= 15_000
    if trace.store.n_records < 20_000:
        assert any("cannot be read" in sentence for sentence in trace.missing)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("DROP TABLE pieces", "The table pieces is missing."),
        ("UPDATE run SET value = '{not json' WHERE key = 'program'", "The fact 'program' about the run cannot be read"),
        ("UPDATE results SET value = '[1]'", "The result 0 is no object."),
        ("UPDATE results SET value = '" + "[" * 100_000 + "'", "The result 0 cannot be read"),
        ("UPDATE texts SET place = '/nowhere/at/all' WHERE place = '/run/prompt'", "A text was left out"),
        ("UPDATE pieces SET piece = 7", "The bytes of tokens cannot be read: 7 of 7."),
        ("UPDATE log SET text = x'00' WHERE id = 0", "Of the log cannot be read: 1 of 2 lines."),
        ("UPDATE memory SET host_bytes = 'much'", "Of memory in use cannot be read: 2 of 2 samples."),
        ("UPDATE probes SET slot = 70000 WHERE id = 0", "Probe 0 cannot be read: slot is 70000."),
        ("UPDATE arrays SET kind = 'picture' WHERE id = 0", "Side array 0 cannot be read: its kind is 'picture'."),
        ("UPDATE arrays SET shape = '[3, 99999999999]' WHERE id = 0", "Side array 0 cannot be read"),
        ("UPDATE arrays SET array = x'00' WHERE id = 0", "Side array 0 cannot be read: a blob holds not"),
        ("UPDATE chunks SET records = x'00' WHERE first = 5000", "Records 5,000 to 9,999 cannot be read"),
        ("UPDATE chunks SET records = 'text' WHERE first = 5000", "Records 5,000 to 9,999 cannot be read"),
        ("UPDATE chunks SET tokens = zeroblob(9) WHERE first = 5000", "Records 5,000 to 9,999 cannot be read"),
        ("UPDATE chunks SET n = 4999 WHERE first = 5000", "Records 5,000 to 9,998 cannot be read"),
        ("UPDATE chunks SET n = 2000000000 WHERE first = 5000", "is no number of them"),
        ("UPDATE chunks SET n = 'many' WHERE first = 5000", "The records from 5,000 on cannot be read"),
        ("DELETE FROM chunks WHERE first = 5000", "Records 5,000 to 9,999 are missing."),
    ],
)
def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path, monkeypatch, statement, sentence):
    monkeypatch.setattr(memory_limit, "_installed_bytes", lambda: None)
    path = alter(with_chunks(tmp_path / "x.dscope"), statement)
    trace = read_trace(path)
    assert any(sentence in missing for missing in trace.missing), trace.missing
    assert trace.store.n_records == (15_000 if "chunks" in statement else 20_000)
    if "results" not in statement:
        assert trace.results == [RESULT]
    if "run" not in statement:
        assert trace.header == HEADER


def test_records_that_no_engine_writes_are_left_out_and_counted(tmp_path):
    records = make_records(10)
    kinds, rounds = records["kind"], np.flatnonzero(records["kind"] == Kind.ROUND)
    kinds[5] = 99
    records["duration_ns"][6] = -1
    records["t_start_ns"][7] = 2**63 - 1
    records["m"][rounds[0]] = records["n"][rounds[0]] + 1
    records["n"][rounds[1]] = 2_000_000_000
    trace = read_trace(write(tmp_path / "x.dscope", records))
    assert trace.store.n_records == len(records) - 5
    assert trace.missing == [f"Of the records 0 to {len(records) - 1} left out as not possible: 5."]


def test_a_small_file_cannot_fill_the_memory(tmp_path, monkeypatch):
    path = with_chunks(tmp_path / "bomb.dscope", 1)
    with closing(sqlite3.connect(path)) as bomb:
        bomb.execute("UPDATE chunks SET n = 65536, records = ?", (zlib.compress(bytes(1 << 28), 9),))
        bomb.commit()
    assert any("holds not the 4194304 bytes" in sentence for sentence in read_trace(path).missing)
    monkeypatch.setattr(memory_limit, "_installed_bytes", lambda: 1_000_000)
    refused(with_chunks(tmp_path / "many.dscope"), "does not fit into the memory")


@pytest.mark.parametrize("table", ["chunks", "pieces", "run"])
def test_a_view_that_computes_for_ever_is_not_asked(tmp_path, table):
    columns = {"pieces": "token, x'00' AS piece", "run": "'a' AS key, token AS value"}.get(table, "token AS first")
    path = alter(
        write(tmp_path / "x.dscope"),
        f"DROP TABLE {table}",
        f"CREATE VIEW {table} AS WITH RECURSIVE n(token) AS (SELECT 1 UNION ALL SELECT token + 1 FROM n) "
        f"SELECT {columns} FROM n",
    )
    if table == "chunks":
        refused(path, "no table chunks")
    else:
        assert f"The table {table} is missing." in read_trace(path).missing


@pytest.mark.parametrize("stored", ["VIRTUAL", "STORED"])
@pytest.mark.parametrize("table", ["run", "chunks"])
def test_a_table_that_computes_its_columns_is_not_asked(tmp_path, table, stored):
    key, value = ("key", "value") if table == "run" else ("first", "records")
    path = alter(
        write(tmp_path / "x.dscope"),
        f"DROP TABLE {table}",
        f"CREATE TABLE {table} ({key} PRIMARY KEY, {value} GENERATED ALWAYS AS (printf('%.*c', 9, {key})) {stored})",
        f"INSERT INTO {table} ({key}) VALUES (1)",
    )
    if table == "chunks":
        refused(path, "no table chunks")
        assert "no table chunks" in read_facts(path).problem
    else:
        assert "The table run is missing." in read_trace(path).missing
        assert read_facts(path).problem == ""


@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW records AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
        "CREATE TABLE records (kind, n AS (printf('%.*c', 9, kind)))",
    ],
)
def test_an_old_file_whose_records_are_computed_is_refused(tmp_path, made):
    path = tmp_path / "v1.dscope"
    path.write_bytes((OLD / "v1.dscope").read_bytes())
    with closing(sqlite3.connect(path)) as old:
        views = [name for (name,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
    refused(alter(path, *(f"DROP VIEW {name}" for name in views), "DROP TABLE records", made), "no table records")


def test_flipped_bytes_are_refused_or_read_but_never_crash(tmp_path):
    data = bytearray(with_chunks(tmp_path / "x.dscope", 2).read_bytes())
    random = np.random.default_rng(1)
    outcomes = {"refused": 0, "less": 0, "all": 0}
    for i in range(80):
        damaged = bytearray(data)
        for place in random.integers(100, len(data), 1 + i % 40):
            damaged[place] ^= int(random.integers(1, 256))
        path = tmp_path / "damaged.dscope"
        path.write_bytes(damaged)
        try:
            trace = read_trace(path)
        except TraceError:
            outcomes["refused"] += 1
        else:
            is_less = trace.store.n_records < 10_000
            assert trace.missing or not is_less
            outcomes["less" if is_less else "all"] += 1
    assert all(outcomes.values()), outcomes


def test_the_user_ends_the_reading_of_a_file_at_any_time(tmp_path):
    path = with_chunks(tmp_path / "x.dscope")
    fractions: list[float] = []
    with pytest.raises(TraceCancelled):
        read_trace(path, fractions.append, lambda: len(fractions) == 2)
    assert fractions == [0.25, 0.5]
    assert read_trace(path, fractions.append).store.n_records == 20_000
    assert fractions[-1] == 1.0


def test_a_query_that_takes_long_ends_when_the_user_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_STEPS", 10)
    with pytest.raises(TraceCancelled):
        read_trace(with_chunks(tmp_path / "x.dscope"), cancelled=lambda: True)


def test_a_cut_off_trace_in_a_folder_where_nothing_may_be_made_opens_all_the_same(tmp_path, monkeypatch):
    path = write(tmp_path / "x.dscope")
    alter(path, "PRAGMA journal_mode = WAL")
    real, seen = database._try, []

    def no_files_here(place: Path, **options: bool) -> sqlite3.Connection:
        seen.append(place)
        if place == path:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return real(place, **options)

    monkeypatch.setattr(database, "_try", no_files_here)
    assert read_trace(path).store.n_records == len(make_records(20))
    assert len(seen) == 2 and not seen[1].exists()
