"""What is in a trace file of format 3. ``docs/format.md`` is made from this and from the column tables.

The records lie in ``chunks``, packed and compressed: the truth, quick to write while a run goes on and to read. From
them ``tables`` makes a table a kind of record, one row a record, for persons with a SQL shell.

Text lies apart from everything else: texts of prompts and outputs in ``texts``, token ids in a column of their own,
bytes of tokens in ``pieces``, lines in ``log``. A file without text has none of them.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

from draftscope.engine.events import COLUMNS, KINDS
from draftscope.engine.probes import PROBE_COLUMNS
from draftscope.trace.acceptance import DEFINITIONS

APPLICATION_ID = 0x44534350
"""``application_id`` of the database: "DSCP"."""

FORMAT_VERSION = 3
"""``user_version`` of the database. 2 has records of operations on slots; 3 has chunks, and text apart from them."""

OWN_KEYS = frozenset({"definitions", "columns", "has_text", "has_tables", "is_complete", "lost"})
"""Keys of ``run`` that the writer adds to the header."""

MOST_IN_CHUNK = 65_536
"""Records that a chunk holds at most."""


@dataclass(frozen=True)
class Table:
    """A table of the file: its columns with types and meanings, and what a row is."""

    name: str
    row: str
    columns: tuple[tuple[str, str, str], ...]

    def statement(self) -> str:
        """The SQL that makes it."""
        columns = ", ".join(f"{name} {kind}" for name, kind, _ in self.columns)
        return f"CREATE TABLE {self.name} ({columns})"

    @functools.cached_property
    def insertion(self) -> str:
        """The SQL that adds a row, or takes the place of one with the same key."""
        names = ", ".join(name for name, _, _ in self.columns)
        return f"INSERT OR REPLACE INTO {self.name} ({names}) VALUES ({', '.join('?' * len(self.columns))})"


RUN = Table(
    "run",
    "a fact about the run",
    (
        ("key", "TEXT PRIMARY KEY", "name of the fact"),
        ("value", "TEXT NOT NULL", "JSON; texts in it lie in `texts`"),
    ),
)
CHUNKS = Table(
    "chunks",
    "up to 65,536 records that follow each other in order of arrival",
    (
        ("first", "INTEGER PRIMARY KEY", "how many records came before the first one of the chunk"),
        ("n", "INTEGER NOT NULL", "records in it"),
        ("t_first_ns", "INTEGER NOT NULL", "start of its first record, monotonic clock"),
        ("t_last_ns", "INTEGER NOT NULL", "end of its last record, monotonic clock"),
        ("n_tokens", "INTEGER", "tokens that became text: sampled and accepted ones; NULL in young chunks"),
        ("form", "INTEGER NOT NULL", "0: records are byte planes, zlib; 1: a young chunk, records as they are"),
        (
            "records",
            "BLOB NOT NULL",
            "the records as byte planes, zlib; token ids in TOKEN records are -1 where they are in `tokens`",
        ),
        (
            "tokens",
            "BLOB",
            "`token`, `m` of the TOKEN records: (n, 2) int32 as byte planes, zlib; or NULL",
        ),
    ),
)
TEXTS = Table(
    "texts",
    "a text of a prompt or an output, or a form that an output had to have",
    (
        ("place", "TEXT PRIMARY KEY", "where it belongs, as a JSON pointer: `/run/settings/…`, `/results/3/text`"),
        ("value", "TEXT NOT NULL", "JSON"),
    ),
)
PIECES = Table(
    "pieces",
    "a token of the vocabulary that occurred",
    (("token", "INTEGER PRIMARY KEY", "token id"), ("piece", "BLOB NOT NULL", "its bytes")),
)
RESULTS = Table(
    "results",
    "a task that has ended",
    (
        ("id", "INTEGER PRIMARY KEY", "number, from 0"),
        ("slot", "INTEGER", "the slot that served it"),
        ("value", "TEXT NOT NULL", "JSON; texts in it lie in `texts`"),
    ),
)
LOG = Table(
    "log",
    "a line of the log",
    (
        ("id", "INTEGER PRIMARY KEY", "number, from 0"),
        ("t_ns", "INTEGER NOT NULL", "monotonic clock"),
        ("level", "TEXT NOT NULL", "debug, info, warning or error"),
        ("text", "TEXT NOT NULL", "the line"),
    ),
)
PROBES = Table(
    "probes",
    "a probed restore",
    (
        ("id", "INTEGER PRIMARY KEY", "number, from 0"),
        *((column.name, "REAL" if "f" in column.dtype else "INTEGER", column.meaning) for column in PROBE_COLUMNS),
    ),
)
ARRAYS = Table(
    "arrays",
    "a side array of a probe",
    (
        ("id", "INTEGER PRIMARY KEY", "number, from 0"),
        ("t_start_ns", "INTEGER NOT NULL", "the probe that it belongs to"),
        ("kind", "TEXT NOT NULL", "what it holds: see below"),
        ("dtype", "TEXT NOT NULL", "of its values, as numpy writes it: `<f4` is a float of 4 bytes, little endian"),
        ("shape", "TEXT NOT NULL", "values along each axis, JSON"),
        ("array", "BLOB NOT NULL", "the values in C order, zlib"),
    ),
)
CODES = Table(
    "codes",
    "a code and its word",
    (
        ("name", "TEXT NOT NULL", "what the code is of"),
        ("code", "INTEGER NOT NULL", "the number in chunks, `probes` and `arrays`"),
        ("word", "TEXT NOT NULL", "what it stands for"),
    ),
)
MEMORY = Table(
    "memory",
    "a kind of memory at one moment",
    (
        ("id", "INTEGER PRIMARY KEY", "number, from 0"),
        ("t_ns", "INTEGER NOT NULL", "monotonic clock"),
        ("kind", "TEXT NOT NULL", "what it is for, as the engine names it"),
        ("host_bytes", "INTEGER NOT NULL", "bytes in host memory"),
        ("device_bytes", "INTEGER NOT NULL", "bytes in device memory"),
    ),
)

TABLES = (RUN, CHUNKS, TEXTS, PIECES, RESULTS, LOG, MEMORY, PROBES, ARRAYS, CODES)
"""The tables that every trace file has."""


def statements() -> list[str]:
    """The SQL that makes an empty trace file."""
    return [
        f"PRAGMA application_id = {APPLICATION_ID}",
        f"PRAGMA user_version = {FORMAT_VERSION}",
        *(table.statement() for table in TABLES),
    ]


def own_values(*, has_text: bool) -> dict[str, Any]:
    """The writer's own rows of ``run`` at the start of a recording."""
    return {
        "definitions": DEFINITIONS,
        "columns": {
            "general": [dataclasses.asdict(column) for column in COLUMNS],
            "probes": [dataclasses.asdict(column) for column in PROBE_COLUMNS],
            "by_kind": {
                kind.name: {"kind": int(kind)} | dataclasses.asdict(meaning) for kind, meaning in KINDS.items()
            },
        },
        "has_text": has_text,
        "has_tables": False,
        "is_complete": False,
    }
