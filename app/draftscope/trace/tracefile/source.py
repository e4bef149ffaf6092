"""What is in an open trace file, part by part; what cannot be read is noted, and the rest is read all the same."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from draftscope.engine.events import RECORD_DTYPE, Records
from draftscope.engine.probes import PROBE_COLUMNS, ArrayKind, SideArray
from draftscope.trace.json_text import put_text
from draftscope.trace.tracefile.chunk import chunk_records, is_possible
from draftscope.trace.tracefile.memory_limit import check_fits
from draftscope.trace.tracefile.planes import joined
from draftscope.trace.tracefile.probe_rows import array_of, probe_of
from draftscope.trace.tracefile.real_tables import real_tables
from draftscope.trace.tracefile.schema import MOST_IN_CHUNK, OWN_KEYS, TABLES

_BATCH = 65_536
"""Records that are handed out together."""

_NOTHING = object()
"""In the place of a value that cannot be read; None is one that can."""


class Source:
    """Reads from a connection that ``database.opened`` gave.

    Attributes:
        problems: sentences on what could not be read.
        own: the writer's own values of ``run``; None before ``run_and_results``.
        next_record: number of the record that would come after those that were read.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        """Look at the tables.

        Raises:
            ValueError: there is no table of records.
        """
        self.problems: list[str] = []
        self.own: dict[str, Any] | None = None
        self.next_record = 0
        self._database = database
        self._tables = real_tables(database)
        if "chunks" not in self._tables:
            raise ValueError("it has no table chunks")
        for name in sorted({table.name for table in TABLES} - self._tables):
            self.problems.append(f"The table {name} is missing.")

    @property
    def is_complete(self) -> bool:
        """Whether the recording says that all is there."""
        if self.own is None:
            self.run_and_results()
        return (self.own or {}).get("is_complete") is True

    @property
    def lost(self) -> list[str]:
        """What is not in the file, or cannot be read."""
        lost = (self.own or {}).get("lost")
        return [str(sentence) for sentence in (lost if isinstance(lost, list) else [])] + self.problems

    # ---- facts, texts, pieces, results, log, memory

    def run_and_results(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The header and the results of tasks, with their texts where the file has them."""
        run: dict[str, Any] = {}
        for key, text in self._rows("run", "key, value", "rowid", "Facts about the run"):
            if (value := self._parsed(text, f"The fact {key!r} about the run")) is not _NOTHING:
                run[str(key)] = value
        results: dict[str, Any] = {}
        for number, text in self._rows("results", "id, value", "id", "Results of tasks"):
            value = self._parsed(text, f"The result {number}")
            if isinstance(value, dict):
                results[str(number)] = value
            elif value is not _NOTHING:
                self.problems.append(f"The result {number} is no object.")
        root = {"run": run, "results": results}
        for place, text in self._rows("texts", "place, value", "rowid", "Texts of prompts and outputs"):
            self._put(root, str(place), text)
        self.own = {key: run.pop(key) for key in OWN_KEYS & run.keys()}
        return run, list(results.values())

    def _put(self, root: dict[str, Any], place: str, text: object) -> None:
        value = self._parsed(text, f"The text at {place[:80]}")
        try:
            if value is not _NOTHING:
                put_text(root, place, value)
        except ValueError as error:
            self.problems.append(f"A text was left out: {error}.")

    def _parsed(self, text: object, what: str) -> Any:
        try:
            return json.loads(text)  # type: ignore[arg-type]
        except (ValueError, TypeError, RecursionError) as error:
            self.problems.append(f"{what} cannot be read: {error}.")
            return _NOTHING

    def pieces(self) -> dict[int, bytes]:
        """The bytes of tokens."""
        rows = list(self._rows("pieces", "token, piece", "token", "Bytes of tokens"))
        good = {token: piece for token, piece in rows if isinstance(token, int) and isinstance(piece, bytes)}
        if len(good) < len(rows):
            self.problems.append(f"The bytes of tokens cannot be read: {len(rows) - len(good)} of {len(rows)}.")
        return good

    def log(self, first: int = 0) -> list[tuple[int, str, str]]:
        """Lines of the log from number ``first`` on: (t_ns, level, text)."""
        rows = list(self._rows("log", "t_ns, level, text", "id", "Lines of the log", first))
        good = [row for row in rows if _is_of(row, (int, str, str))]
        if len(good) < len(rows):
            self.problems.append(f"Of the log cannot be read: {len(rows) - len(good)} of {len(rows)} lines.")
        return good

    def memory(self, first: int = 0) -> list[tuple[int, str, int, int]]:
        """Memory in use from sample ``first`` on: (t_ns, kind, host_bytes, device_bytes)."""
        rows = list(self._rows("memory", "t_ns, kind, host_bytes, device_bytes", "id", "Memory in use", first))
        good = [row for row in rows if _is_of(row, (int, str, int, int))]
        if len(good) < len(rows):
            self.problems.append(f"Of memory in use cannot be read: {len(rows) - len(good)} of {len(rows)} samples.")
        return good

    def arrays(self, first_probe: int = 0, first_array: int = 0) -> list[SideArray]:
        """Results of probes from number ``first_probe`` on, then side arrays from ``first_array`` on."""
        found = []
        columns = ", ".join(column.name for column in PROBE_COLUMNS)
        for row in self._rows("probes", f"id, {columns}", "id", "Results of probes", first_probe):
            try:
                probe = probe_of(row[1:])
            except ValueError as error:
                self.problems.append(f"Probe {row[0]} cannot be read: {error}.")
            else:
                found.append(SideArray(int(probe["t_start_ns"][0]), ArrayKind.RESULT, probe))
        columns = "id, t_start_ns, kind, dtype, shape, array"
        for row in self._rows("arrays", columns, "id", "Side arrays of probes", first_array):
            try:
                found.append(array_of(*row[1:]))
            except (ValueError, RecursionError) as error:
                self.problems.append(f"Side array {row[0]} cannot be read: {error}.")
        return found

    def _rows(self, table: str, columns: str, order: str, what: str, first: int = 0) -> Iterator[tuple[Any, ...]]:
        if table not in self._tables:
            return
        where = f"WHERE {order} >= {int(first)}" if first else ""
        try:
            yield from self._database.execute(f"SELECT {columns} FROM {table} {where} ORDER BY {order}")
        except (sqlite3.DatabaseError, OverflowError) as error:
            if _is_about_file(error):
                raise
            self.problems.append(f"{what} cannot be read, or not all of them: {error}.")

    # ---- records

    def n_records(self) -> int:
        """Records that the file says it has; those that cannot be found are not counted."""
        try:
            (n,) = self._database.execute("SELECT sum(n) FROM chunks").fetchone()
        except (sqlite3.DatabaseError, OverflowError) as error:
            if _is_about_file(error):
                raise
            return 0
        return n if isinstance(n, int) and n > 0 else 0

    def records(self, first: int = 0, done: Callable[[int], None] = lambda _: None) -> Iterator[Records]:
        """Records from number ``first`` on, in order of arrival, in batches; ``done`` is told how many were read.

        Raises:
            ValueError: they are more than fit into the memory.
        """
        check_fits(self.n_records() * RECORD_DTYPE.itemsize)
        batch: list[Records] = []
        n_waiting, n_done = 0, 0
        for part in self._parts(first):
            batch.append(part)
            n_waiting += len(part)
            n_done += len(part)
            done(n_done)
            if n_waiting >= _BATCH:
                yield joined(batch)
                batch, n_waiting = [], 0
        if batch:
            yield joined(batch)

    def _parts(self, first: int) -> Iterator[Records]:
        self.next_record = first
        for start, n, form, blob, tokens in self._chunks(first):
            if not isinstance(n, int) or not 0 < n <= MOST_IN_CHUNK:
                self.problems.append(f"The records from {start:,} on cannot be read: {n!r:.20} is no number of them.")
                continue
            try:
                records = chunk_records(n, form, blob, tokens)
            except ValueError as error:
                self.problems.append(f"Records {start:,} to {start + n - 1:,} cannot be read: {error}.")
                self.next_record = start + n
                continue
            if start > self.next_record:
                self.problems.append(f"Records {self.next_record:,} to {start - 1:,} are missing.")
            possible = is_possible(records)
            n_bad = int(np.count_nonzero(~possible))
            if n_bad:
                self.problems.append(
                    f"Of the records {start:,} to {start + n - 1:,} left out as not possible: {n_bad:,}."
                )
            possible[: max(0, self.next_record - start)] = False  # was handed out before
            self.next_record = max(self.next_record, start + n)
            yield records if possible.all() else records[possible]

    def _chunks(self, first: int) -> Iterator[tuple[Any, ...]]:
        """Rows of ``chunks``, each asked for by itself: a damaged page costs what is on it and no more."""
        for key in self._keys(first):
            try:
                yield from self._database.execute(
                    "SELECT first, n, form, records, tokens FROM chunks WHERE first = ?", (key,)
                ).fetchall()
            except (sqlite3.DatabaseError, OverflowError) as error:
                if _is_about_file(error):
                    raise
                self.problems.append(f"The records from {key:,} on cannot be read: {error}.")

    def _keys(self, first: int) -> list[int]:
        """Numbers of the first records of chunks; where pages with them are damaged, those before and behind."""
        keys: dict[int, None] = {}
        for order in ("", "DESC"):
            query = f"SELECT first FROM chunks WHERE first + n > ? ORDER BY first {order}"
            try:
                for (key,) in self._database.execute(query, (first,)):
                    keys[key] = None
                break
            except (sqlite3.DatabaseError, OverflowError) as error:
                if _is_about_file(error):
                    raise
                if not order:
                    self.problems.append(f"A part of the records cannot be read: {error}.")
        return sorted(keys)


def _is_about_file(error: Exception) -> bool:
    """Whether nothing more can be read: somebody has locked the file, or the user has cancelled."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CANTOPEN)


def _is_of(row: tuple[Any, ...], types: tuple[type, ...]) -> bool:
    return all(isinstance(value, kind) for value, kind in zip(row, types, strict=True))
