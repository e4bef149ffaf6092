"""Tables that hold what they say: others of the same name could compute for ever, or more than fits into memory."""

from __future__ import annotations

import sqlite3


def real_tables(database: sqlite3.Connection) -> set[str]:
    """Names of tables that are no views, no virtual tables, and have no columns that are computed when they are read.

    Raises:
        sqlite3.Error: the file is damaged.
    """
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE %'"
    return {name for (name,) in database.execute(query).fetchall() if not _has_computed_columns(database, name)}


def _has_computed_columns(database: sqlite3.Connection, table: str) -> bool:
    query = "SELECT count(*) FROM pragma_table_xinfo(?) WHERE hidden != 0"
    (n,) = database.execute(query, (table,)).fetchone()
    return bool(n)
