"""The first bytes of a trace file, which say what it is before SQLite looks at it."""

from __future__ import annotations

import os
from pathlib import Path

from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile.lock import is_being_recorded
from draftscope.trace.tracefile.schema import APPLICATION_ID, FORMAT_VERSION

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100


def is_trace_file(path: Path) -> bool:
    """True for a file that calls itself a trace; says nothing about the rest of it. Never raises."""
    if is_being_recorded(path):
        return True  # and must not be touched: closing it would let go of the locks that this process may have on it
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return head.startswith(_MAGIC) and _number(head, 68) == APPLICATION_ID


def check_head(path: Path) -> int:
    """Refuse what is no trace, or a newer one. Returns how many bytes the file is short of what its head says.

    Raises:
        TraceError: see above; also a file that is not there or cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
            size_bytes = os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise TraceError(f"There is no file {path}.") from error
    except OSError as error:
        raise TraceError(f"The trace {path} cannot be read: {error.strerror}.") from error
    if not head:
        raise TraceError(f"The file {path} is empty, so it is no trace.")
    if not head.startswith(_MAGIC[: len(head)]):
        raise TraceError(f"{path} is no trace: it does not begin as a .dscope file does.")
    if len(head) < _HEADER_BYTES:
        raise TraceError(f"The trace {path} is cut off after {len(head)} bytes. Use another copy of it.")
    if _number(head, 68) != APPLICATION_ID:
        raise TraceError(f"{path} is a SQLite database, but no trace.")
    if (version := _number(head, 60)) > FORMAT_VERSION:
        raise TraceError(
            f"A newer Draftscope wrote {path} (format {version}; this one reads up to {FORMAT_VERSION}). "
            "Update Draftscope."
        )
    page_size = int.from_bytes(head[16:18], "big")
    expected = _number(head, 28) * (65_536 if page_size == 1 else page_size)
    # With a -wal file beside it a part of the pages may be there only.
    has_rest = path.with_name(path.name + "-wal").exists()
    return 0 if has_rest else max(0, expected - size_bytes)


def _number(head: bytes, offset: int) -> int:
    return int.from_bytes(head[offset : offset + 4], "big")
