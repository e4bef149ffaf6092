"""Recording a run into a trace file."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from draftscope.engine.events import Kind, Origin, Records
from draftscope.trace.errors import TraceError
from draftscope.trace.json_text import to_json, without_text
from draftscope.trace.tracefile.reader import is_trace_file
from draftscope.trace.tracefile.schema import COLUMN_NAMES, own_values, statements

_BATCH_S = 0.05
_Work = tuple[str, list[tuple[Any, ...]]]

_INSERT_RECORD = f"INSERT INTO records VALUES ({', '.join('?' * len(COLUMN_NAMES))})"
_INSERT_PIECE = "INSERT OR REPLACE INTO pieces VALUES (?, ?)"
_INSERT_RESULT = "INSERT INTO results VALUES (?, ?)"
_INSERT_RUN = "INSERT OR REPLACE INTO run VALUES (?, ?)"


class TraceWriter:
    """Writes a run into a file while it goes on.

    The calls only queue: a thread of the writer's own commits what has come every 50 ms, so no caller waits for a disk,
    and a killed process loses no more than that. While recording, SQLite keeps a ``-wal`` file beside it; ``close``
    leaves one file. A file that was never closed opens all the same, and says that it was cut off.

    With ``with_text=False`` no prompt, no output, no token id and no piece gets into the file.

    A failed write (disk full, say) ends the recording: the next call raises it, and what was committed stays.
    """

    def __init__(self, path: Path | str, header: Mapping[str, Any], *, with_text: bool = True) -> None:
        """Make the file, with its header; an older trace of that name is replaced.

        Args:
            header: JSON types; what is needed to repeat the run.
        Raises:
            TraceError: the place cannot be written, or the name belongs to a file that is no trace.
        """
        self._path = Path(path)
        self._with_text = with_text
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._error: TraceError | None = None
        self._closing = threading.Event()
        _make_room(self._path)
        try:
            self._database = _create(self._path, self._stripped(dict(header)), has_text=with_text)
        except (sqlite3.Error, OSError) as error:
            raise TraceError(f"The trace {self._path} cannot be written: {error}.") from error
        self._thread = threading.Thread(target=self._write_all, name="trace-writer", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, records: Records) -> None:
        """Add records, ``RECORD_DTYPE`` (K,), borrowed during the call.

        Raises:
            TraceError: an earlier write failed, or the writer is closed.
        """
        self._put(_INSERT_RECORD, (records if self._with_text else _without_tokens(records)).tolist())

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Add the bytes of tokens. Raises as ``append`` does."""
        if self._with_text:
            self._put(_INSERT_PIECE, list(pieces.items()))

    def add_results(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Add the results of tasks, JSON types with the key ``slot``. Raises as ``append`` does."""
        rows = [(result.get("slot"), to_json(self._stripped(dict(result)))) for result in results]
        self._put(_INSERT_RESULT, rows)

    def close(self) -> None:
        """Write what is queued, mark the file as whole and leave one file; harmless when closed.

        Raises:
            TraceError: something could not be written; the file has all that was committed before.
        """
        if self._closing.is_set():
            return
        self._closing.set()
        self._queue.put((_INSERT_RUN, [("is_complete", "true")]))
        self._queue.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _stripped(self, value: Any) -> Any:
        return value if self._with_text else without_text(value)

    def _put(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        if self._error is not None:
            raise self._error
        if self._closing.is_set():
            raise TraceError(f"The trace {self._path} is closed; nothing can be added.")
        if rows:
            self._queue.put((statement, rows))

    def _write_all(self) -> None:
        try:
            is_open = True
            while is_open:
                work = [self._queue.get()]
                self._closing.wait(_BATCH_S)
                while not self._queue.empty():
                    work.append(self._queue.get())
                is_open = work[-1] is not None
                self._commit([item for item in work if item is not None])
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._database.execute("PRAGMA journal_mode = DELETE")
        except (sqlite3.Error, OverflowError) as error:
            self._error = TraceError(f"Recording into {self._path} ended, since it could not be written: {error}.")
        finally:
            self._database.close()

    def _commit(self, work: list[_Work]) -> None:
        with self._database:
            self._database.execute("BEGIN")
            for statement, rows in work:
                self._database.executemany(statement, rows)


def _make_room(path: Path) -> None:
    """Remove an older trace and what SQLite left beside it; anything else stays, and is refused."""
    if path.exists() and not is_trace_file(path) and not (path.is_file() and path.stat().st_size == 0):
        raise TraceError(f"{path} exists and is no trace, so it is not replaced.")
    try:
        for suffix in ("-wal", "-shm", "-journal", ""):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        what = f"The old trace {path} cannot be replaced" if path.exists() else f"{path} cannot be written"
        raise TraceError(f"{what}: {error.strerror}.") from error


def _create(path: Path, header: dict[str, Any], *, has_text: bool) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        for statement in statements():
            database.execute(statement)
        values = header | own_values(has_text=has_text)
        database.executemany(_INSERT_RUN, [(key, to_json(value)) for key, value in values.items()])
        # Only now, so that the file alone has schema and header whatever becomes of the -wal file.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        database.close()
        raise
    return database


def _without_tokens(records: Records) -> Records:
    stripped = records.copy()
    is_token = stripped["kind"] == Kind.TOKEN
    stripped["token"][is_token] = -1
    stripped["m"][is_token & (stripped["code"] == Origin.REJECTED)] = -1
    return stripped
