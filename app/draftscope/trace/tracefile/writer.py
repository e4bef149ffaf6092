"""Recording a run into a trace file, without anyone waiting for a disk."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray
from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile.place import check_place, kept_words
from draftscope.trace.tracefile.recording import Recording

BATCH_S = 0.04
"""How long what has come waits for more of it, before it is committed."""

SMALL_RUN = 100_000
"""Records up to which also a recording that nobody asked for gets its tables: 0.2 s and 4 MB."""

_MOST_WAITING = 4_000_000
"""Records that may wait for the disk, 256 MB; a disk that is slower than that is no place for a recording."""

_Work = Callable[[Recording], None]


class TraceWriter:
    """Writes a run into a file while it goes on.

    The calls only queue: a thread of the writer's own commits what has come every 40 ms, so a killed process loses no
    more than that. While recording, SQLite keeps a ``-wal`` and a ``-shm`` file beside it, and the writer a ``-lock``;
    ``close`` leaves one file. A file that was never closed opens all the same, and says that it was cut off.

    With ``with_text=False`` no prompt, no output, no grammar, no token id, no piece, no line of the log and no array
    of a probe from which tokens can be told gets into the file.

    A failed write (disk full, say) ends the recording: ``error`` is set, the next call raises it, and what was
    committed stays.

    Attributes:
        path: the file.
        error: why recording ended before ``close``; None while it has not.
    """

    def __init__(
        self,
        path: Path | str,
        header: Mapping[str, Any],
        *,
        with_text: bool = True,
        most_rows: int | None = None,
        share: Callable[[Path, int], int] | None = None,
        keeps_empty: bool = True,
        waits: bool = True,
    ) -> None:
        """Make the file, with its header; an older trace of that name is replaced.

        Args:
            header: JSON types; what is needed to repeat the run.
            most_rows: records up to which tables for persons are made at the end; None: always.
            share: asked, in the writer's thread, how many bytes the file may have in all, given its path and how many
                it has: before it is made, and when it has so many. It may make room, and raise ``TraceError``.
            keeps_empty: keep a file that got no record.
            waits: wait until the file is there. Otherwise nothing is raised here, and ``error`` is set.
        Raises:
            TraceError: the place cannot be written, the name belongs to a file that is no trace or is being recorded.
        """
        self.path = Path(path)
        self.error: TraceError | None = None
        self._header = dict(header)
        self._with_text = with_text
        self._most_rows = most_rows
        self._share = share
        self._keeps_empty = keeps_empty
        self._most_bytes: int | None = None
        self._queue: queue.SimpleQueue[tuple[float, _Work | None]] = queue.SimpleQueue()
        self._n_given = 0
        self._n_taken = 0
        self._is_made = threading.Event()
        self._closing = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="trace-writer", daemon=True)
        self._thread.start()
        if waits:
            self._is_made.wait()
            if self.error is not None:
                self._thread.join()
                raise self.error

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
        if len(records) == 0:
            return
        own = records.tobytes()
        n = len(records)
        self._put(lambda recording: self._write(recording, own, n))
        self._n_given += n
        if self._n_given - self._n_taken > _MOST_WAITING:
            self._fail(f"Recording into {self.path} ended, since the disk is slower than the run.")

    def add_header(self, values: Mapping[str, Any]) -> None:
        """Set more of the header, or anew. Raises as ``append`` does."""
        own = dict(values)
        self._put(lambda recording: recording.add_header(own))

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Add the bytes of tokens. Raises as ``append`` does."""
        own = dict(pieces)
        self._put(lambda recording: recording.add_pieces(own))

    def add_results(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Add the results of tasks, JSON types with the key ``slot``. Raises as ``append`` does."""
        own = [dict(result) for result in results]
        self._put(lambda recording: recording.add_results(own))

    def add_log(self, lines: Iterable[tuple[int, str, str]]) -> None:
        """Add lines of the log: (t_ns, level, text). Raises as ``append`` does."""
        own = list(lines)
        self._put(lambda recording: recording.add_log(own))

    def add_memory(self, samples: Iterable[tuple[int, str, int, int]]) -> None:
        """Add memory in use: (t_ns, kind, host_bytes, device_bytes). Raises as ``append`` does."""
        own = list(samples)
        self._put(lambda recording: recording.add_memory(own))

    def append_arrays(self, arrays: Iterable[SideArray]) -> None:
        """Add what probes measured; the arrays must not change any more. Raises as ``append`` does."""
        own = list(arrays)
        self._put(lambda recording: recording.add_arrays(own))

    def rest(self) -> None:
        """All is in the file that there is for now: whole, unless more comes. Raises as ``append`` does."""
        self._put(lambda recording: recording.rest())

    def end(self) -> None:
        """Begin to close, without waiting for it; harmless when closed."""
        if not self._closing.is_set():
            self._closing.set()
            self._queue.put((time.monotonic(), None))

    @property
    def has_records(self) -> bool:
        """Whether any record was added."""
        return self._n_given > 0

    @property
    def is_ended(self) -> bool:
        """Whether the file has been closed, or given up."""
        return not self._thread.is_alive()

    def close(self, timeout_s: float | None = None) -> None:
        """Write what is queued, mark the file as whole and leave one file; harmless when closed.

        Raises:
            TraceError: something could not be written; the file has all that was committed before.
        """
        self.end()
        self._thread.join(timeout_s)
        is_first, self._is_closed = not self._is_closed, True
        if is_first and self.error is not None:
            raise self.error

    def _put(self, work: _Work) -> None:
        if self.error is not None:
            raise self.error
        if self._closing.is_set():
            raise TraceError(f"The trace {self.path} is closed; nothing can be added.")
        self._queue.put((time.monotonic(), work))

    def _fail(self, sentence: str) -> None:
        if self.error is None:
            self.error = TraceError(sentence)

    # ---- the writer's thread

    def _run(self) -> None:
        try:
            self._most_bytes = self._share(self.path, 0) if self._share else None
            check_place(self.path)
            recording = Recording(self.path, self._header, with_text=self._with_text)
        except TraceError as error:
            self.error = error
            return
        except (sqlite3.Error, OSError) as error:
            self._fail(f"The trace {self.path} cannot be written: {error}.")
            return
        finally:
            self._is_made.set()
        problem: Exception | None = None
        try:
            self._write_all(recording)
        except Exception as error:  # the thread must not end without a word
            problem = error
        self._close(recording, problem)

    def _write(self, recording: Recording, records: bytes, n: int) -> None:
        self._n_taken += n
        recording.add_records(records)

    def _write_all(self, recording: Recording) -> None:
        is_open = True
        while is_open and self.error is None:
            came_s, first = self._queue.get()
            self._closing.wait(max(0.0, came_s + BATCH_S - time.monotonic()))
            work = [first]
            while not self._queue.empty():
                work.append(self._queue.get()[1])
            is_open = work[-1] is not None
            for do in work:
                if do is not None:
                    do(recording)
            if not is_open:
                recording.rest()
            recording.commit()
            recording.make_room_in_wal()
            self._keep_to_share(recording.n_bytes)
        if self.error is None and (self._most_rows is None or recording.n_records <= self._most_rows):
            recording.make_tables()

    def _keep_to_share(self, n_bytes: int) -> None:
        if self._share is None or self._most_bytes is None or n_bytes < self._most_bytes:
            return
        self._most_bytes = self._share(self.path, n_bytes)
        if n_bytes >= self._most_bytes:
            what = "since recordings take up all the disk space that they may. What came before is kept."
            self._fail(f"Recording into {self.path} ended, {what}")

    def _close(self, recording: Recording, problem: Exception | None) -> None:
        """Close the file; what ended the recording is told with what is left of it, which is known only then."""
        try:
            if problem is not None:
                recording.roll_back()
            recording.close()
        except (sqlite3.Error, OSError) as error:
            if problem is None:
                why = f"could not be closed, since {_reason(error)}. It opens all the same"
                self._fail(f"The trace {self.path} {why}: {kept_words(self.path, recording.n_committed)}.")
        if problem is not None:
            kept = kept_words(self.path, recording.n_committed)
            self._fail(f"Recording into {self.path} ended, since {_reason(problem)}. What came before is kept: {kept}.")
        if not (recording.n_records or self._keeps_empty):
            self.path.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if code == sqlite3.SQLITE_IOERR:
        return f"the disk takes no more ({error})"
    return f"it could not be written: {error}"
