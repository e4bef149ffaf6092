"""What a trace file is, in a moment: for lists of them."""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.trace.errors import TraceCancelled, TraceError
from draftscope.trace.tracefile.chunk import chunk_records, count_tokens
from draftscope.trace.tracefile.database import opened
from draftscope.trace.tracefile.lock import is_being_recorded
from draftscope.trace.tracefile.real_tables import real_tables
from draftscope.trace.tracefile.schema import MOST_IN_CHUNK

LIMIT_S = 2.0
"""How long a look may take: a file of a million records takes some hundredths of a second."""

_KEYS = ("clock", "model", "settings", "is_complete", "has_text")
_YOUNG = f"SELECT n, form, records, tokens FROM chunks WHERE n_tokens IS NULL AND n BETWEEN 1 AND {MOST_IN_CHUNK}"


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """Facts of a file, as far as they can be read.

    Attributes:
        started_s: when the recording began, seconds since 1970; when the file was changed last, where it does not say.
        model: name of the model's file; '' when the file does not say.
        n_slots: slots of the contexts; 0 when the file does not say.
        n_tokens: tokens that became text.
        duration_s: from the first record to the last.
        is_complete: all is there that was recorded.
        is_being_recorded: somebody records into it now.
        problem: why it cannot be read; '' when it can.
    """

    path: Path
    size_bytes: int = 0
    started_s: float = 0.0
    model: str = ""
    n_slots: int = 0
    n_records: int = 0
    n_tokens: int = 0
    duration_s: float = 0.0
    is_complete: bool = False
    is_being_recorded: bool = False
    has_text: bool = True
    problem: str = ""


def size_on_disk(path: Path) -> int:
    """Bytes of a trace with what lies beside it while it is recorded; 0 when it is gone."""
    total = 0
    for suffix in ("", "-wal", "-shm"):
        try:
            total += path.with_name(path.name + suffix).stat().st_size
        except OSError:
            continue
    return total


def read_facts(path: Path) -> TraceFacts:
    """Look into a trace file, for ``LIMIT_S`` at most. Never raises: what is wrong is told in ``problem``."""
    size_bytes, is_live = size_on_disk(path), is_being_recorded(path)
    end_s = time.monotonic() + LIMIT_S
    try:
        changed_s = path.stat().st_mtime
        with opened(path, lambda: time.monotonic() > end_s) as database:
            run, counts, n_young = _read(database, end_s)
    except (TraceError, OSError) as error:
        return TraceFacts(path, size_bytes, is_being_recorded=is_live, problem=str(error))
    except TraceCancelled:
        problem = f"{path} takes more than {LIMIT_S:.0f} s to look into, so it is not listed with what it holds."
        return TraceFacts(path, size_bytes, is_being_recorded=is_live, problem=problem)
    n_records, n_tokens, first_ns, last_ns = (value if isinstance(value, int) else 0 for value in counts)
    return TraceFacts(
        path,
        size_bytes,
        _number(run, "clock", "unix_ns") / 1e9 or changed_s,
        Path(_text(run, "model", "path")).name,
        int(_number(run, "settings", "context", "n_slots")),
        n_records,
        n_tokens + n_young,
        (last_ns - first_ns) / 1e9,
        run.get("is_complete") is True,
        is_live,
        run.get("has_text") is not False,
    )


def _read(database: sqlite3.Connection, end_s: float) -> tuple[dict[str, Any], tuple[Any, ...], int]:
    """Facts of ``run``, sums over the chunks, and the tokens of young ones."""
    tables = real_tables(database)
    if "chunks" not in tables:
        raise ValueError("it has no table chunks")
    marks = ", ".join("?" * len(_KEYS))
    query = f"SELECT key, value FROM run WHERE key IN ({marks})"
    rows = database.execute(query, _KEYS) if "run" in tables else ()
    run = {str(key): json.loads(value) for key, value in rows}
    counts = database.execute("SELECT sum(n), sum(n_tokens), min(t_first_ns), max(t_last_ns) FROM chunks").fetchone()
    n_young = 0
    for row in database.execute(_YOUNG):
        n_young += count_tokens(chunk_records(*row))
        if time.monotonic() > end_s:
            raise TraceCancelled
    return run, counts, n_young


def _at(value: Any, *way: str) -> Any:
    for step in way:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _number(value: Any, *way: str) -> float:
    found = _at(value, *way)
    return float(found) if isinstance(found, int | float) and abs(found) < 2**62 else 0.0


def _text(value: Any, *way: str) -> str:
    found = _at(value, *way)
    return found if isinstance(found, str) else ""
