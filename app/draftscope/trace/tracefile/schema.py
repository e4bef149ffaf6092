"""What is in a trace file.

- ``run`` (key, value): the header, one row a key, values in JSON; beside it the writer's own keys ``definitions`` (of
  the figures), ``columns`` (of ``records``), ``has_text`` and, once the file is whole, ``is_complete``.
- ``records``: one row a record in order of arrival, columns as in ``engine.events.COLUMNS``; NaN is NULL.
- ``pieces`` (token, piece): bytes of tokens; empty in a file without text.
- ``results`` (slot, value): one row a task, JSON.
- a view for each kind of record (``rounds``, ``tokens``, ...) with the general columns under their meaning.

Without text the token ids of records are -1, since with the model's vocabulary they are the text.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from draftscope.engine.events import COLUMNS, KINDS, Kind
from draftscope.trace.acceptance import DEFINITIONS

APPLICATION_ID = 0x44534350
"""``application_id`` of the database: "DSCP"."""

FORMAT_VERSION = 2
"""``user_version`` of the database; 2 has records of operations on slots."""

TABLES = ("run", "records", "pieces", "results")
"""The tables that every trace file has."""

OWN_KEYS = frozenset({"definitions", "columns", "has_text", "is_complete"})
"""Keys of ``run`` that the writer adds to the header."""

COLUMN_NAMES = tuple(column.name for column in COLUMNS)
"""Columns of ``records``, in the order of the dtype."""

_VIEWS = {
    "spans": (Kind.SPAN, {"code": "phase", "position": "position", "n": "n_tokens", "m": "n_replay_or_graph_runs"}),
    "rounds": (
        Kind.ROUND,
        {
            "code": "mechanism",
            "position": "n_tokens",
            "n": "draft_n",
            "m": "draft_n_accepted",
            "value": "tokens_per_second",
        },
    ),
    "tokens": (
        Kind.TOKEN,
        {
            "code": "origin",
            "position": "position",
            "token": "token",
            "n": "draft_position",
            "m": "chosen",
            "value": "probability",
        },
    ),
    "saves": (Kind.SAVE, {"code": "mechanism", "position": "position", "n": "epoch", "size_bytes": "size_bytes"}),
    "restores": (
        Kind.RESTORE,
        {"code": "mechanism", "position": "position", "n": "epoch", "m": "n_replay", "size_bytes": "size_bytes"},
    ),
    "fallbacks": (Kind.FALLBACK, {"code": "reason", "position": "position", "n": "asked", "m": "used"}),
    "slot_states": (Kind.SLOT, {"code": "state", "position": "n_tokens", "n": "stop_reason", "m": "n_generated"}),
    "operations": (
        Kind.OPERATION,
        {"code": "operation", "position": "n_tokens", "n": "n", "m": "reuse", "size_bytes": "size_bytes"},
    ),
    "rows": (Kind.ROW, {"code": "fault", "position": "position", "n": "position_found", "m": "n_waiting"}),
}


def statements() -> list[str]:
    """The SQL that makes an empty trace file."""
    columns = ", ".join(f"{column.name} {'REAL' if 'f' in column.dtype else 'INTEGER'}" for column in COLUMNS)
    return [
        f"PRAGMA application_id = {APPLICATION_ID}",
        f"PRAGMA user_version = {FORMAT_VERSION}",
        "CREATE TABLE run (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
        f"CREATE TABLE records ({columns})",
        "CREATE TABLE pieces (token INTEGER PRIMARY KEY, piece BLOB NOT NULL)",
        "CREATE TABLE results (slot INTEGER, value TEXT NOT NULL)",
        *(_view(name, kind, columns_of) for name, (kind, columns_of) in _VIEWS.items()),
    ]


def _view(name: str, kind: Kind, renamed: dict[str, str]) -> str:
    chosen = ", ".join(f"{column} AS {meaning}" for column, meaning in renamed.items())
    return (
        f"CREATE VIEW {name} AS SELECT sequence, t_start_ns, duration_ns, round, slot, {chosen} "
        f"FROM records WHERE kind = {int(kind)}"
    )


def own_values(*, has_text: bool) -> dict[str, Any]:
    """The writer's own rows of ``run`` at the start of a recording."""
    return {
        "definitions": DEFINITIONS,
        "columns": {
            "general": [dataclasses.asdict(column) for column in COLUMNS],
            "by_kind": {
                kind.name: {"kind": int(kind)} | dataclasses.asdict(meaning) for kind, meaning in KINDS.items()
            },
        },
        "has_text": has_text,
    }
