"""The database of a recording: what the writer's thread does with it. Nothing here may be called by another thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from draftscope.engine.events import RECORD_DTYPE, Records
from draftscope.engine.probes import ArrayKind, SideArray
from draftscope.trace.json_text import take_text, to_json
from draftscope.trace.tracefile.chunk import chunk_row, young_row
from draftscope.trace.tracefile.codes import code_rows
from draftscope.trace.tracefile.lock import RecordingLock
from draftscope.trace.tracefile.place import replace_trace
from draftscope.trace.tracefile.planes import joined
from draftscope.trace.tracefile.probe_rows import TEXT_ARRAYS, array_row, probe_rows
from draftscope.trace.tracefile.schema import (
    ARRAYS,
    CHUNKS,
    CODES,
    LOG,
    MEMORY,
    PIECES,
    PROBES,
    RESULTS,
    RUN,
    TEXTS,
    own_values,
    statements,
)
from draftscope.trace.tracefile.tables import make_tables
from draftscope.trace.tracefile.wal_mover import WalMover

GOOD_CHUNK = 4096
"""Records of a chunk that is compressed and stays; smaller ones are put together later, and compressed only then."""

LARGE_CHUNK = 8192
"""Records that go into one chunk at most: what a damaged page may cost."""

_MOVE_BYTES = 4 << 20
"""What the -wal file takes in, about, until its pages are moved into the file."""

_COMMIT_BYTES = 24 << 10
"""What a transaction writes beside the blobs: three pages."""

_MOST_WAL_PAGES = 8192
"""Pages that a -wal file may have; from then on the recording waits until they have been moved."""

_CLOSE_WAIT_MS = 2000
"""How long the end of a recording waits for readers to let go of the file."""


class Recording:
    """A file that is being written, in transactions: ``commit`` takes them. Everything raises ``sqlite3.Error``."""

    def __init__(self, path: Path, header: Mapping[str, Any], *, with_text: bool) -> None:
        """Make the file, with its header; an older one of that name goes only once the new one is there.

        Raises:
            BlockingIOError: another recording writes it.
            OSError: the place cannot be written.
        """
        self.n_records = 0
        self.n_committed = 0
        self.n_bytes = 0
        self._with_text = with_text
        self._new: list[bytes] = []
        self._small: list[Records] = []
        self._n_small = 0
        self._counts = dict.fromkeys((RESULTS.name, LOG.name, MEMORY.name, PROBES.name, ARRAYS.name), 0)
        self._told: dict[str, int] = {}
        self._n_bytes_in_wal = 0
        self._is_complete = False
        self._lock = RecordingLock(path)
        try:
            self._database = self._create(path, header)
        except BaseException:
            self._lock.release()
            raise
        self._mover = WalMover(path)

    def _create(self, path: Path, header: Mapping[str, Any]) -> sqlite3.Connection:
        draft = path.with_name(path.name + "-new")  # so that whoever opens the file finds a whole one, at any moment
        draft.unlink(missing_ok=True)
        self._database = sqlite3.connect(draft, isolation_level=None, check_same_thread=False)
        try:
            # Without it every statement would be a transaction that waits for the disk.
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute("PRAGMA page_size = 8192")  # a chunk of 40 ms fits into a few
            self._fill(header)
        except BaseException:
            self._database.close()
            draft.unlink(missing_ok=True)
            raise
        self._database.close()
        try:
            replace_trace(path, draft)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return _connected(path)

    def _fill(self, header: Mapping[str, Any]) -> None:
        self._open()
        for statement in statements():
            self._database.execute(statement)
        self.add_header(dict(header))
        self.add_header(own_values(has_text=self._with_text))
        self._insert(CODES.insertion, code_rows())
        self.commit()

    # ---- within a transaction

    def commit(self) -> None:
        """Close the transaction that what was added opened; from here on it survives the process."""
        records = np.frombuffer(b"".join(self._new), RECORD_DTYPE)
        self._new.clear()
        if len(records):
            # A chunk more is one statement, which is a transaction by itself.
            if self._is_complete or self._n_small + len(records) >= GOOD_CHUNK:
                self._open()
            self._write_records(records)
        if self._database.in_transaction:
            self._database.execute("COMMIT")
        self.n_committed = self.n_records

    def _open(self) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN")

    def roll_back(self) -> None:
        """Undo it."""
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

    def add_header(self, values: dict[str, Any]) -> None:
        """Set facts of ``run``."""
        rest, texts = take_text(values, "/run")
        rows = [(key, to_json(value)) for key, value in rest.items()]
        self._insert(RUN.insertion, [row for row in rows if self._is_news(*row)])
        # A key whose value is a text as a whole has no row of its own.
        self._add_texts(texts)

    def add_records(self, records: bytes) -> None:
        """Add packed records; those of a transaction become one chunk."""
        self._new.append(records)

    def _write_records(self, records: Records) -> None:
        if self._is_complete:
            self._set_complete(False)
        for start in range(0, len(records), LARGE_CHUNK):
            self._add_chunk(records[start : start + LARGE_CHUNK])

    def _add_chunk(self, records: Records) -> None:
        if len(records) >= GOOD_CHUNK:
            self._put_together()
            self._put_chunk(self.n_records, records)
        else:
            self._put(young_row(self.n_records, records, with_text=self._with_text))
            self._small.append(records)
            self._n_small += len(records)
        self.n_records += len(records)
        if self._n_small >= GOOD_CHUNK:
            self._put_together()

    def _put_together(self) -> None:
        """One chunk in the place of the small ones at the end."""
        if self._small:
            records = joined(self._small)
            first = self.n_records - len(records)
            self._database.execute("DELETE FROM chunks WHERE first > ?", (first,))
            self._put_chunk(first, records)
        self._small.clear()
        self._n_small = 0

    def _put_chunk(self, first: int, records: Records) -> None:
        row = chunk_row(first, records, with_text=self._with_text)
        self.n_bytes += len(row[-2]) + len(row[-1] or b"")
        self._put(row)

    def _put(self, row: tuple[Any, ...]) -> None:
        self._n_bytes_in_wal += len(row[-2])
        self._database.execute(CHUNKS.insertion, row)

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Add the bytes of tokens."""
        if self._with_text:
            self._insert(PIECES.insertion, pieces.items())

    def add_results(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Add the results of tasks."""
        for result in results:
            number = self._next(RESULTS.name)
            rest, texts = take_text(dict(result), f"/results/{number}")
            self._insert(RESULTS.insertion, [(number, result.get("slot"), to_json(rest))])
            self._add_texts(texts)

    def add_log(self, lines: Iterable[tuple[int, str, str]]) -> None:
        """Add lines of the log: (t_ns, level, text). They may quote prompts, so a file without text has none."""
        if self._with_text:
            self._insert(LOG.insertion, [(self._next(LOG.name), *line) for line in lines])

    def add_memory(self, samples: Iterable[tuple[int, str, int, int]]) -> None:
        """Add memory in use: (t_ns, kind, host_bytes, device_bytes)."""
        self._insert(MEMORY.insertion, [(self._next(MEMORY.name), *sample) for sample in samples])

    def add_arrays(self, arrays: Iterable[SideArray]) -> None:
        """Add what probes measured."""
        for array in arrays:
            if array.kind is ArrayKind.RESULT:
                rows = probe_rows(array.values, with_text=self._with_text)
                self._insert(PROBES.insertion, [(self._next(PROBES.name), *row) for row in rows])
            elif self._with_text or array.kind not in TEXT_ARRAYS:
                row = array_row(array)
                self._insert(ARRAYS.insertion, [(self._next(ARRAYS.name), *row)])
                self.n_bytes += len(row[-1])
                self._n_bytes_in_wal += len(row[-1])

    def _next(self, table: str) -> int:
        self._counts[table] += 1
        return self._counts[table] - 1

    def _add_texts(self, texts: Mapping[str, Any]) -> None:
        if self._with_text:
            rows = [(place, to_json(text)) for place, text in texts.items()]
            self._insert(TEXTS.insertion, [row for row in rows if self._is_news(*row)])

    def _is_news(self, key: str, value: str) -> bool:
        """Whether a fact or text is not in the file already: the tasks of a conversation come again with each turn."""
        is_news = self._told.get(key) != hash(value)
        self._told[key] = hash(value)
        return is_news

    def _insert(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._open()
        self._database.executemany(statement, rows)

    def rest(self) -> None:
        """All is there that there is for now."""
        records = np.frombuffer(b"".join(self._new), RECORD_DTYPE)
        self._new.clear()
        self._open()
        self._write_records(records)
        self._put_together()
        self._set_complete(True)

    def _set_complete(self, is_complete: bool) -> None:
        self._is_complete = is_complete
        self._insert(RUN.insertion, [("is_complete", to_json(is_complete))])

    # ---- between transactions

    def make_room_in_wal(self) -> None:
        """Let what has been committed be moved into the file, now and then."""
        self._n_bytes_in_wal += _COMMIT_BYTES
        if self._n_bytes_in_wal > _MOVE_BYTES:
            self._n_bytes_in_wal = 0
            self._mover.ask()
        if self._mover.n_pages > _MOST_WAL_PAGES:
            self._mover.n_pages = 0
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def make_tables(self) -> None:
        """Make the tables for persons."""
        make_tables(self._database)

    def close(self) -> None:
        """Leave one file, or what cannot be put into it beside it; harmless when repeated."""
        self._mover.close()
        try:
            self._database.execute(f"PRAGMA busy_timeout = {_CLOSE_WAIT_MS}")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._database.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._database.close()
            self._lock.release()


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        database.close()
        raise
    return database
