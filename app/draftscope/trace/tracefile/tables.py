"""The tables for persons: one a kind of record, with the general columns under their meaning and codes as words.

They are made of the chunks when a recording ends, within one transaction, and hold nothing that the chunks have not.
Writing them while a run goes on would cost too much: a row takes 1.5 us and 38 bytes, a record in a chunk 0.3 us and 7.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from draftscope.engine.events import COLUMNS, ENGINE_TRACK, Kind, Records
from draftscope.trace.tracefile.chunk import chunk_records
from draftscope.trace.tracefile.codes import WORDS


@dataclass(frozen=True, slots=True)
class Named:
    """A column of a table: its name, the record's column, and what its codes are of where it has codes."""

    name: str
    column: str
    codes: str = ""

    def values(self, records: Records) -> list[Any]:
        """The values of records, as SQLite takes them."""
        values: list[Any] = records[self.column].tolist()
        words = WORDS.get(self.codes, {})
        return [words.get(value, value) for value in values] if words else values


@dataclass(frozen=True, slots=True)
class KindTable:
    """A table of one kind of record. ``is_shared``: True for the engine track alone, False for slots, None for both."""

    name: str
    kind: Kind
    named: tuple[Named, ...]
    is_shared: bool | None = None

    def chosen(self, records: Records) -> Records:
        """Those of the records that belong here."""
        chosen = records["kind"] == self.kind
        if self.is_shared is not None:
            chosen &= (records["slot"] == ENGINE_TRACK) == self.is_shared
        return records[chosen]  # type: ignore[no-any-return]


_TIMES = (Named("t_start_ns", "t_start_ns"), Named("duration_ns", "duration_ns"), Named("round", "round"))
_SLOT = Named("slot", "slot")
_AT = Named("position", "position")
_HOLDS = Named("n_tokens", "position")
_BYTES = Named("size_bytes", "size_bytes")

KIND_TABLES = (
    KindTable(
        "decodes",
        Kind.SPAN,
        (
            *_TIMES,
            Named("phase", "code", "Phase"),
            Named("draft_step", "position"),
            Named("n_tokens", "n"),
            Named("n_graph_runs", "m"),
        ),
        is_shared=True,
    ),
    KindTable(
        "spans",
        Kind.SPAN,
        (*_TIMES, _SLOT, Named("phase", "code", "Phase"), _AT, Named("n_tokens", "n"), Named("n_replayed", "m")),
        is_shared=False,
    ),
    KindTable(
        "rounds",
        Kind.ROUND,
        (
            *_TIMES,
            _SLOT,
            Named("mechanism", "code", "Mechanism"),
            _HOLDS,
            Named("draft_n", "n"),
            Named("draft_n_accepted", "m"),
            Named("tokens_per_second", "value"),
        ),
    ),
    KindTable(
        "tokens",
        Kind.TOKEN,
        (
            _TIMES[0],
            _TIMES[2],
            _SLOT,
            Named("origin", "code", "Origin"),
            _AT,
            Named("token", "token"),
            Named("draft_position", "n"),
            Named("chosen", "m"),
            Named("probability", "value"),
        ),
    ),
    KindTable(
        "saves", Kind.SAVE, (*_TIMES, _SLOT, Named("mechanism", "code", "Mechanism"), _AT, Named("epoch", "n"), _BYTES)
    ),
    KindTable(
        "restores",
        Kind.RESTORE,
        (
            *_TIMES,
            _SLOT,
            Named("mechanism", "code", "Mechanism"),
            _AT,
            Named("epoch", "n"),
            Named("n_replay", "m"),
            _BYTES,
        ),
    ),
    KindTable(
        "fallbacks",
        Kind.FALLBACK,
        (
            _TIMES[0],
            _TIMES[2],
            _SLOT,
            Named("reason", "code", "FallbackReason"),
            _AT,
            Named("asked", "n", "Mechanism"),
            Named("used", "m", "Mechanism"),
        ),
    ),
    KindTable(
        "slot_states",
        Kind.SLOT,
        (
            _TIMES[0],
            _SLOT,
            Named("state", "code", "SlotState"),
            _HOLDS,
            Named("stop_reason", "n", "StopReason"),
            Named("n_generated", "m"),
        ),
    ),
    KindTable(
        "operations",
        Kind.OPERATION,
        (
            _TIMES[0],
            _TIMES[1],
            _SLOT,
            Named("operation", "code", "Operation"),
            _HOLDS,
            Named("n", "n"),
            Named("reuse", "m", "Reuse"),
            Named("n_compared", "value"),
            _BYTES,
        ),
    ),
    KindTable(
        "rows",
        Kind.ROW,
        (
            _TIMES[0],
            _TIMES[2],
            _SLOT,
            Named("fault", "code", "Fault"),
            _AT,
            Named("position_found", "n"),
            Named("n_waiting", "m"),
        ),
    ),
)
"""The tables that are made of the records."""

_TYPES = {column.name: "REAL" if "f" in column.dtype else "INTEGER" for column in COLUMNS}

VIEWS = {
    "checkpoints": (
        "SELECT 'save' AS what, t_start_ns, duration_ns, round, slot, mechanism, position, epoch, size_bytes "
        "FROM saves "
        "UNION ALL "
        "SELECT 'restore', t_start_ns, duration_ns, round, slot, mechanism, position, epoch, size_bytes "
        "FROM restores"
    ),
    "slots": (
        "SELECT slot, count(*) AS n_rounds, sum(draft_n) AS draft_n, sum(draft_n_accepted) AS draft_n_accepted, "
        "1.0 * sum(draft_n_accepted) / nullif(sum(draft_n), 0) AS acceptance, "
        "1.0 + 1.0 * sum(draft_n_accepted) / count(*) AS mean_accepted_length "
        "FROM rounds GROUP BY slot"
    ),
}
"""Views over them: saves and restores together, and the figures of each slot."""


def make_tables(database: sqlite3.Connection) -> None:
    """Make and fill the tables, in a transaction of their own; what was there before is replaced.

    Raises:
        sqlite3.Error: they could not be written; nothing of them is there then.
    """
    database.execute("BEGIN")
    try:
        _drop_all(database)
        for table in KIND_TABLES:
            database.execute(_statement(table))
        for records in _all_records(database):
            for table in KIND_TABLES:
                _fill(database, table, table.chosen(records))
        for name, query in VIEWS.items():
            database.execute(f"CREATE VIEW {name} AS {query}")
        database.execute("UPDATE run SET value = 'true' WHERE key = 'has_tables'")
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _drop_all(database: sqlite3.Connection) -> None:
    for name in VIEWS:
        database.execute(f"DROP VIEW IF EXISTS {name}")
    for table in KIND_TABLES:
        database.execute(f"DROP TABLE IF EXISTS {table.name}")


def _statement(table: KindTable) -> str:
    columns = ", ".join(f"{named.name} {'TEXT' if named.codes else _TYPES[named.column]}" for named in table.named)
    return f"CREATE TABLE {table.name} ({columns})"


def _all_records(database: sqlite3.Connection) -> Iterator[Records]:
    for row in database.execute("SELECT n, form, records, tokens FROM chunks ORDER BY first"):
        yield chunk_records(*row)


def _fill(database: sqlite3.Connection, table: KindTable, records: Records) -> None:
    if len(records):
        columns = [named.values(records) for named in table.named]
        places = ", ".join("?" * len(columns))
        database.executemany(f"INSERT INTO {table.name} VALUES ({places})", zip(*columns, strict=True))
