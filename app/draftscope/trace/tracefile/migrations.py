"""Older formats brought to the present one, in memory: the file itself stays as it is."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import COLUMNS, Records, empty_records
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.json_text import take_text, to_json
from draftscope.trace.tracefile.chunk import chunk_row
from draftscope.trace.tracefile.codes import code_rows
from draftscope.trace.tracefile.planes import joined
from draftscope.trace.tracefile.real_tables import real_tables
from draftscope.trace.tracefile.schema import (
    ARRAYS,
    CHUNKS,
    CODES,
    FORMAT_VERSION,
    LOG,
    MEMORY,
    PROBES,
    RESULTS,
    RUN,
    TEXTS,
)

_BATCH = 4096
_PAGES = 4096
"""Pages that are copied between two looks at whether the user has cancelled."""

_OLD_TABLES = ("run", "records", "pieces", "results")
_OLD_VIEWS = ("spans", "rounds", "tokens", "saves", "restores", "fallbacks", "slot_states", "operations", "rows")


def migrated(
    source: sqlite3.Connection, cancelled: Callable[[], bool] | None = None, n_steps: int = 100_000
) -> sqlite3.Connection:
    """A copy in memory, of the present format; the caller closes it.

    Args:
        cancelled: asked every ``n_steps`` instructions of SQLite's machine, also after this.
    Raises:
        ValueError, TypeError, sqlite3.Error: the source is damaged.
        TraceCancelled: ``cancelled`` said so.
    """
    database = sqlite3.connect(":memory:", isolation_level=None)

    def look(*_: int) -> None:
        if cancelled is not None and cancelled():
            raise TraceCancelled

    try:
        source.backup(database, pages=_PAGES, progress=look)
        if cancelled is not None:
            database.set_progress_handler(cancelled, n_steps)
        database.execute("PRAGMA trusted_schema = OFF")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        for step in _STEPS[max(int(version), 1) - 1 :]:
            step(database)
    except BaseException:
        database.close()
        raise
    return database


def _from_1_to_2(database: sqlite3.Connection) -> None:
    """2 knows operations on slots, which 1 never recorded, and has a view on them."""
    database.execute("PRAGMA user_version = 2")


def _from_2_to_3(database: sqlite3.Connection) -> None:
    """3 has chunks in the place of a row a record, and texts in a table of their own."""
    _check_tables(database)
    for view in _OLD_VIEWS:
        database.execute(f"DROP VIEW IF EXISTS {view}")
    database.execute("ALTER TABLE results RENAME TO old_results")
    for table in (CHUNKS, TEXTS, RESULTS, LOG, MEMORY, PROBES, ARRAYS, CODES):
        database.execute(table.statement())
    database.executemany(CODES.insertion, code_rows())
    _move_run(database)
    for number, (value,) in enumerate(database.execute("SELECT value FROM old_results ORDER BY rowid").fetchall()):
        result = json.loads(value)
        if not isinstance(result, dict):
            raise TypeError("a result is no object")
        rest, texts = take_text(result, f"/results/{number}")
        database.execute(RESULTS.insertion, (number, result.get("slot"), to_json(rest)))
        _add_texts(database, texts)
    first = n_lost = 0
    for batch, n_bad in _old_records(database):
        if len(batch):
            database.execute(CHUNKS.insertion, chunk_row(first, batch, with_text=True))
        first += len(batch)
        n_lost += n_bad
    if n_lost:
        records = "1 record holds" if n_lost == 1 else f"{n_lost:,} records hold"
        lost = f"{records} something that is not possible: left out."
        database.execute(RUN.insertion, ("lost", to_json([lost])))
    database.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_from_1_to_2, _from_2_to_3)


def _check_tables(database: sqlite3.Connection) -> None:
    found = real_tables(database)
    if missing := [name for name in _OLD_TABLES if name not in found]:
        raise ValueError(f"it has no table {missing[0]}")


def _move_run(database: sqlite3.Connection) -> None:
    for key, value in database.execute("SELECT key, value FROM run").fetchall():
        rest, texts = take_text({key: json.loads(value)}, "/run")
        if key in rest:
            database.execute("UPDATE run SET value = ? WHERE key = ?", (to_json(rest[key]), key))
        else:
            database.execute("DELETE FROM run WHERE key = ?", (key,))
        _add_texts(database, texts)


def _add_texts(database: sqlite3.Connection, texts: dict[str, Any]) -> None:
    database.executemany(TEXTS.insertion, [(place, to_json(text)) for place, text in texts.items()])


def _old_records(database: sqlite3.Connection) -> Iterator[tuple[Records, int]]:
    """Batches of records, each with the number of those that had to be left out."""
    names = ", ".join(column.name for column in COLUMNS)
    cursor = database.execute(f"SELECT {names} FROM records ORDER BY rowid")
    while rows := cursor.fetchmany(_BATCH):
        try:
            yield _records_of(rows), 0
        except (ValueError, TypeError, OverflowError):
            good = []
            for row in rows:
                with contextlib.suppress(ValueError, TypeError, OverflowError):
                    good.append(_records_of([row]))
            yield joined(good) if good else empty_records(), len(rows) - len(good)


def _records_of(rows: list[tuple[Any, ...]]) -> Records:
    records = empty_records(len(rows))
    for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        records[column.name] = _column(column.name, column.dtype, values)
    return records


def _column(name: str, dtype: str, values: tuple[Any, ...]) -> NDArray[Any]:
    if "f" in dtype:
        return np.array(values, dtype=dtype)  # NULL becomes NaN
    exact = np.array(values)
    if exact.dtype.kind != "i":
        raise ValueError(f"column {name} holds something that is no integer")
    limits = np.iinfo(dtype)
    if exact.min() < limits.min or exact.max() > limits.max:
        raise ValueError(f"column {name} holds {exact.min()} to {exact.max()}, which is out of range")
    return exact
