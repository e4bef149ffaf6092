"""Reading a trace file, wherever it comes from: everything in it is checked before it is believed."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import COLUMNS, Kind, Records, empty_records
from draftscope.trace.errors import TraceError
from draftscope.trace.pieces import PieceTable
from draftscope.trace.store import TraceStore
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile.schema import APPLICATION_ID, COLUMN_NAMES, FORMAT_VERSION, OWN_KEYS, TABLES

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_CHUNK = 20_000
_MOST_DRAFTED = 65_535
_LATEST_NS = 2**61
_WAIT_S = 2.0


def is_trace_file(path: Path) -> bool:
    """True for a file that calls itself a trace; says nothing about the rest of it. Never raises."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return head.startswith(_MAGIC) and _number(head, 68) == APPLICATION_ID


def read_trace(path: Path | str) -> Trace:
    """Read a trace file, also one whose recording was cut off, and one that is being recorded.

    Raises:
        TraceError: there is no such file, it cannot be read, is no trace, is damaged, or a newer version wrote it.
    """
    path = Path(path)
    _check_head(path)
    try:
        with closing(_connect(path)) as database:
            _check_tables(path, database)
            return _read(database)
    except sqlite3.OperationalError as error:
        raise TraceError(_why_not_open(path, error)) from error
    except (sqlite3.Error, ValueError, OverflowError, TypeError, RecursionError) as error:
        raise TraceError(f"The trace {path} is damaged: {error}. Use another copy of it.") from error


def _why_not_open(path: Path, error: sqlite3.OperationalError) -> str:
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"The trace {path} is in use by another program. Try again when that has ended."
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY:
            return (
                f"The recording of {path} was cut off, and what is left in {path.name}-wal can be put back only where "
                "files may be written. Copy both files into a folder of yours."
            )
    return f"The trace {path} is damaged: {error}. Use another copy of it."


def _check_head(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
            size_bytes = os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise TraceError(f"There is no file {path}.") from error
    except OSError as error:
        raise TraceError(f"The trace {path} cannot be read: {error.strerror}.") from error
    if not head:
        raise TraceError(f"The file {path} is empty, so it is no trace.")
    if not head.startswith(_MAGIC[: len(head)]):
        raise TraceError(f"{path} is no trace: it does not begin as a .dscope file does.")
    if len(head) < _HEADER_BYTES:
        raise TraceError(f"The trace {path} is cut off after {len(head)} bytes. Use another copy of it.")
    if _number(head, 68) != APPLICATION_ID:
        raise TraceError(f"{path} is a SQLite database, but no trace.")
    if (version := _number(head, 60)) > FORMAT_VERSION:
        raise TraceError(
            f"A newer Draftscope wrote {path} (format {version}; this one reads up to {FORMAT_VERSION}). "
            "Update Draftscope."
        )
    page_size = int.from_bytes(head[16:18], "big")
    expected = _number(head, 28) * (65_536 if page_size == 1 else page_size)
    # With a -wal file beside it a part of the pages may be there only.
    if size_bytes < expected and not path.with_name(path.name + "-wal").exists():
        raise TraceError(f"The trace {path} is cut off: {size_bytes} of {expected} bytes. Use another copy of it.")


def _number(head: bytes, offset: int) -> int:
    return int.from_bytes(head[offset : offset + 4], "big")


def _connect(path: Path) -> sqlite3.Connection:
    """Open for writing where that is allowed, so that SQLite can put back what a killed writer left beside the file."""
    has_rest = path.with_name(path.name + "-wal").exists()
    is_writable = os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)
    mode = "mode=rw" if is_writable else "mode=ro" if has_rest else "mode=ro&immutable=1"
    database = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=_WAIT_S)
    database.execute("PRAGMA trusted_schema = OFF")
    return database


def _check_tables(path: Path, database: sqlite3.Connection) -> None:
    # Real tables only: a view of the same name could compute for ever.
    found = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if missing := [name for name in TABLES if name not in found]:
        raise TraceError(f"The trace {path} is damaged: it has no table {missing[0]}. Use another copy of it.")


def _read(database: sqlite3.Connection) -> Trace:
    database.execute("BEGIN")
    run = {key: json.loads(value) for key, value in database.execute("SELECT key, value FROM run")}
    trace = Trace(header={key: value for key, value in run.items() if key not in OWN_KEYS})
    trace.is_complete = run.get("is_complete") is True
    trace.pieces = PieceTable(_read_pieces(database))
    trace.results = [_result(value) for (value,) in database.execute("SELECT value FROM results ORDER BY rowid")]
    _read_records(database, trace.store)
    database.execute("COMMIT")
    return trace


def _read_pieces(database: sqlite3.Connection) -> dict[int, bytes]:
    pieces = dict(database.execute("SELECT token, piece FROM pieces"))
    if wrong := [token for token, piece in pieces.items() if not isinstance(piece, bytes)]:
        raise ValueError(f"the piece of token {wrong[0]} is no blob")
    return pieces


def _result(value: str) -> dict[str, Any]:
    result = json.loads(value)
    if not isinstance(result, dict):
        raise TypeError("a result is no object")
    return result


def _read_records(database: sqlite3.Connection, store: TraceStore) -> None:
    cursor = database.execute(f"SELECT {', '.join(COLUMN_NAMES)} FROM records ORDER BY rowid")
    while rows := cursor.fetchmany(_CHUNK):
        records = empty_records(len(rows))
        for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True):
            records[column.name] = _column(column.name, column.dtype, values)
        _check_records(records)
        store.append(records)


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


def _check_records(records: Records) -> None:
    unknown = ~np.isin(records["kind"], [int(kind) for kind in Kind])
    if unknown.any():
        raise ValueError(f"it has records of the unknown kind {records['kind'][unknown][0]}")
    start, duration = records["t_start_ns"], records["duration_ns"]
    if ((start < -_LATEST_NS) | (start > _LATEST_NS) | (duration < 0) | (duration > _LATEST_NS)).any():
        raise ValueError("it has a time that is out of range")
    rounds = records[records["kind"] == Kind.ROUND]
    if ((rounds["m"] < 0) | (rounds["m"] > rounds["n"]) | (rounds["n"] > _MOST_DRAFTED)).any():
        raise ValueError("a round accepts more than it drafted, or drafts more than is possible")
