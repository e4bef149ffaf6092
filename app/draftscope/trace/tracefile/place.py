"""Where a recording is to be: what may be replaced there and how, and what is left there when a disk is full."""

from __future__ import annotations

from pathlib import Path

from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile.head import is_trace_file
from draftscope.trace.tracefile.lock import is_being_recorded

_BESIDE = ("-wal", "-shm", "-journal")
"""Suffixes of what SQLite has beside a file whose recording was cut off."""


def check_place(path: Path) -> None:
    """Refuse what must not be replaced by a recording; nothing is changed.

    Raises:
        TraceError: a file there is being recorded, or is no trace.
    """
    if is_being_recorded(path):
        raise TraceError(f"{path} is being recorded, so it is not replaced.")
    if path.exists() and not is_trace_file(path) and not (path.is_file() and path.stat().st_size == 0):
        raise TraceError(f"{path} exists and is no trace, so it is not replaced.")


def replace_trace(path: Path, fresh: Path) -> None:
    """Put the whole file ``fresh`` at ``path``. An older trace stays, with what is beside it, where that fails.

    What is beside the older one must be gone first: SQLite would take it for a part of the new one.

    Raises:
        OSError: the place cannot be written.
    """
    aside: list[tuple[Path, Path]] = []
    try:
        for suffix in _BESIDE:
            old, kept = path.with_name(path.name + suffix), path.with_name(f"{path.name}{suffix}-old")
            if old.exists():
                old.replace(kept)
                aside.append((old, kept))
        fresh.replace(path)
    except OSError:
        for old, kept in aside:
            kept.replace(old)
        raise
    for _, kept in aside:
        kept.unlink(missing_ok=True)


def kept_words(path: Path, n_records: int) -> str:
    """What a recording that ended early has left, and in which files."""
    records = "1 record" if n_records == 1 else f"{n_records:,} records"
    rest = path.with_name(path.name + "-wal")
    if rest.exists() and rest.stat().st_size:
        return f"{records}, in {path.name} and {rest.name}, which belong together"
    return records
