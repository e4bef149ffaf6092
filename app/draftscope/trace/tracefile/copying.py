"""Copies of trace files, and recordings that were cut off made whole files again."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from draftscope.trace.errors import TraceCancelled, TraceError
from draftscope.trace.json_text import to_json
from draftscope.trace.tracefile.database import opened
from draftscope.trace.tracefile.lock import RecordingLock, is_being_recorded
from draftscope.trace.tracefile.place import check_place, replace_trace
from draftscope.trace.tracefile.reader import CUT_OFF
from draftscope.trace.tracefile.schema import RUN
from draftscope.trace.tracefile.source import Source
from draftscope.trace.tracefile.writer import TraceWriter


def copy_trace(
    path: Path,
    target: Path,
    *,
    with_text: bool = True,
    progress: Callable[[float], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Write a trace anew, in the present format and with the tables for persons; with or without its text.

    What is missing in the source is named in the copy, too. A copy that is cancelled or fails is removed, and an older
    trace of that name is replaced only at the end.

    Raises:
        TraceError: the source cannot be read, or the copy not written.
        TraceCancelled: ``cancelled`` said so.
    """
    if target.exists() and target.samefile(path):
        raise TraceError(f"{target} is the trace itself. Choose another name for its copy.")
    check_place(target)
    with opened(path, cancelled) as database:
        database.execute("BEGIN")
        source = Source(database)
        header, results = source.run_and_results()
        writer = TraceWriter(target.with_name(f"{target.name}.part"), header, with_text=with_text)
        try:
            _copy_parts(source, writer, results, progress, cancelled)
            lost = source.lost + ([] if source.is_complete else [CUT_OFF])
            writer.add_header({"lost": lost} if lost else {})
            writer.close()
            _put(writer.path, target)
        except BaseException:
            _remove(writer)
            raise
        finally:
            database.execute("ROLLBACK")


def _copy_parts(
    source: Source,
    writer: TraceWriter,
    results: list[dict[str, object]],
    progress: Callable[[float], object] | None,
    cancelled: Callable[[], bool] | None,
) -> None:
    n_all, n_done = max(source.n_records(), 1), 0
    for records in source.records():
        if cancelled is not None and cancelled():
            raise TraceCancelled
        writer.append(records)
        n_done += len(records)
        if progress is not None:
            progress(n_done / n_all)
    writer.add_pieces(source.pieces())
    writer.add_results(results)
    writer.add_log(source.log())
    writer.add_memory(source.memory())
    writer.append_arrays(source.arrays())


def _put(fresh: Path, target: Path) -> None:
    try:
        replace_trace(target, fresh)
    except OSError as error:
        raise TraceError(f"{target} cannot be replaced: {error.strerror}.") from error


def _remove(writer: TraceWriter) -> None:
    with contextlib.suppress(TraceError):
        writer.close()
    writer.path.unlink(missing_ok=True)


def finish_recording(path: Path) -> None:
    """Make one whole file of a recording that was cut off; it says what may be missing.

    Raises:
        TraceError: it is being recorded, cannot be read or not be written.
    """
    if is_being_recorded(path):
        raise TraceError(f"{path} is being recorded.")
    with opened(path) as database:
        is_complete = Source(database).is_complete
    try:
        lock = RecordingLock(path)
        try:
            _finish(path, is_complete=is_complete)
        finally:
            lock.release()
    except (sqlite3.Error, OSError) as error:
        raise TraceError(f"The trace {path} cannot be made whole: {error}.") from error


def _finish(path: Path, *, is_complete: bool) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        if not is_complete:
            values = {"lost": [CUT_OFF], "is_complete": True}
            rows = [(key, to_json(value)) for key, value in values.items()]
            database.executemany(RUN.insertion, rows)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("PRAGMA journal_mode = DELETE")


def remove_trace(path: Path) -> None:
    """Remove a trace and what lies beside it; harmless when it is gone.

    Raises:
        TraceError: it is being recorded, or cannot be removed.
    """
    if is_being_recorded(path):
        raise TraceError(f"{path} is being recorded. Wait until the run has ended.")
    try:
        for suffix in ("-wal", "-shm", "-journal", "-lock", "-new", ""):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise TraceError(f"The trace {path} cannot be removed: {error.strerror}.") from error
