"""Opening a trace file to read it. Nothing is written, neither to the file nor where it lies."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from draftscope.trace.errors import TraceCancelled, TraceError
from draftscope.trace.tracefile.head import check_head
from draftscope.trace.tracefile.lock import is_being_recorded
from draftscope.trace.tracefile.migrations import migrated
from draftscope.trace.tracefile.schema import FORMAT_VERSION

_WAIT_S = 2.0
_MOST_BYTES_OF_VALUE = 256 << 20
_STEPS = 100_000
"""Instructions of SQLite's machine between two looks at whether the user has cancelled."""


@contextlib.contextmanager
def opened(path: Path, cancelled: Callable[[], bool] | None = None) -> Iterator[sqlite3.Connection]:
    """A connection to a trace file, brought to the present format in memory where it is of an older one.

    Raises:
        TraceError: there is no such file, it cannot be read, is no trace, is in use, or a newer version wrote it; also
            for what SQLite raises in the body.
        TraceCancelled: ``cancelled`` said so while SQLite was at work.
    """
    n_short = 0 if is_being_recorded(path) else check_head(path)
    with contextlib.ExitStack() as stack:
        try:
            database = stack.enter_context(contextlib.closing(_connect(path, stack, is_short=n_short > 0)))
            if cancelled is not None:
                database.set_progress_handler(cancelled, _STEPS)
            if _version(database) < FORMAT_VERSION:
                database = stack.enter_context(contextlib.closing(migrated(database, cancelled, _STEPS)))
            yield database
        except sqlite3.Error as error:
            raise _in_words(path, error) from error
        except (ValueError, OverflowError, TypeError, RecursionError) as error:
            raise TraceError(f"The trace {path} is damaged: {error}. Use another copy of it.") from error


def _connect(path: Path, stack: contextlib.ExitStack, *, is_short: bool) -> sqlite3.Connection:
    try:
        return _try(path, is_short=is_short)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in (
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_READONLY,
        ):
            raise
    # What a killed writer left beside the file can be taken in only where files may be made: in a folder of ours.
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="draftscope-")))
    for suffix in ("", "-wal", "-journal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copyfile(source, folder / f"trace{suffix}")
    return _try(folder / "trace", is_short=is_short, may_write=True)


def _try(path: Path, *, is_short: bool, may_write: bool = False) -> sqlite3.Connection:
    mode = "rw" if may_write else "ro"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    index = path.with_name(path.name + "-shm")
    had_index = index.exists()
    database = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_WAIT_S)
    try:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES_OF_VALUE)
        database.execute("PRAGMA trusted_schema = OFF")
        if is_short:  # else SQLite reads nothing at all of a file that lacks its end
            database.execute("PRAGMA writable_schema = ON")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        database.close()
        raise
    if not had_index and not is_being_recorded(path):
        index.unlink(missing_ok=True)
    return database


def _version(database: sqlite3.Connection) -> int:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return int(version)


def _in_words(path: Path, error: sqlite3.Error) -> TraceError | TraceCancelled:
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return TraceError(f"The trace {path} is in use by another program. Try again when that has ended.")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY:
            return TraceError(f"The trace {path} cannot be opened: {error}. Copy it into a folder of yours.")
        case sqlite3.SQLITE_INTERRUPT:
            return TraceCancelled()
    return TraceError(f"The trace {path} is damaged: {error}. Use another copy of it.")
