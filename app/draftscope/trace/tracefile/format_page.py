"""The page that documents the file format, made from the tables that the program itself uses.

``python -m draftscope.trace.tracefile.format_page > docs/format.md``
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from draftscope.engine.events import COLUMNS, KINDS, RECORD_DTYPE
from draftscope.engine.probes import ArrayKind
from draftscope.trace.acceptance import DEFINITIONS
from draftscope.trace.tracefile.codes import WORDS
from draftscope.trace.tracefile.probe_rows import TEXT_ARRAYS
from draftscope.trace.tracefile.recording import GOOD_CHUNK
from draftscope.trace.tracefile.schema import APPLICATION_ID, FORMAT_VERSION, TABLES
from draftscope.trace.tracefile.tables import KIND_TABLES, VIEWS
from draftscope.trace.tracefile.writer import BATCH_S, SMALL_RUN

_INTRODUCTION = f"""\
# The trace file, `.dscope`

Made from the program's own tables by `python -m draftscope.trace.tracefile.format_page`; a test compares the two.

A trace is one SQLite 3 database: `application_id` 0x{APPLICATION_ID:08X}, `user_version` {FORMAT_VERSION}, the version
of this page. While it is recorded it is in WAL mode, with `-wal` and `-shm` beside it and a `-lock` that its writer
holds (`flock`); what has come is committed every {BATCH_S * 1000:.0f} ms. A file that was closed is alone. After a kill
the file and its `-wal` hold all that was committed: keep them together. Reading changes nothing, and needs no model and
no engine.

Times are nanoseconds of one monotonic clock; `run.clock` has a moment of it together with the time of day.
"""

_CHUNKS = f"""\
## Records

The truth is in `chunks`. A record has {RECORD_DTYPE.itemsize} bytes, little endian, packed in this order:
"""

_PLANES = """\
The blob of a chunk, unless it is a young one, is the zlib stream of its byte planes: first byte of every record, then
the second byte of every record, and so on. In Python:

```python
planes = np.frombuffer(zlib.decompress(records), np.uint8).reshape(64, n)
rows = np.ascontiguousarray(planes.T).view(RECORD_DTYPE)[:, 0]
```

Young chunks are those of the last moments, soon to be put together to {good:,} records or more: not compressed, and
with their tokens in place where the file has text.

The general columns by kind of record:
"""

_TABLES = f"""\
## Tables for persons

One row a record, made from the chunks when the file is closed: always for files that were asked for (`--trace`, *Save a
copy*), for others up to {SMALL_RUN:,} records, since a row takes six times the bytes of a record in a chunk. `run` says
with `has_tables` whether they are there. Columns that are no measurement of their own have the meaning of the record's.
"""

_TEXT = """\
## Without text

A file without text (`run`: `has_text` is false) has empty tables `texts`, `pieces` and `log`, NULL in `chunks.tokens`,
-1 for every token id in `probes`, and no side arrays from which the model tells tokens:
{arrays}.
"""

_VERSIONS = """\
## Versions

| version | what it has |
|---|---|
| 1 | a row a record in `records`, views on it by kind |
| 2 | records of operations on slots |
| 3 | chunks in the place of `records`, texts apart, log, memory, probes and side arrays |

Older files open as they are: they are brought to version 3 in memory. Newer ones are refused.
"""


def page() -> str:
    """The page, in Markdown."""
    return "\n".join(_parts()).rstrip() + "\n"


def _parts() -> Iterator[str]:
    yield _INTRODUCTION
    yield "## Tables that every file has\n"
    for table in TABLES:
        yield f"### `{table.name}`\n\nA row is {table.row}.\n"
        yield _table(("column", "type", "meaning"), table.columns)
    arrays = " ".join((inspect.getdoc(ArrayKind) or "").split("\n\n", 1)[1].split())
    yield f"Side arrays by kind (E row width, k draft length, U tokens, L recurrent layers): {arrays}\n"
    yield _CHUNKS
    yield _table(("column", "dtype", "unit", "meaning"), ((c.name, c.dtype, c.unit, c.meaning) for c in COLUMNS))
    yield _PLANES.format(good=GOOD_CHUNK)
    names = ("code", "position", "token", "n", "m", "value", "size_bytes")
    rows = (
        (f"{kind.name} ({int(kind)})", *(getattr(columns, name) for name in names)) for kind, columns in KINDS.items()
    )
    yield _table(("kind", *names), rows)
    yield _TABLES
    for kind_table in KIND_TABLES:
        shown = ", ".join(f"`{named.name}`" + _origin(named.name, named.column) for named in kind_table.named)
        yield f"- `{kind_table.name}`, of {kind_table.kind.name} records{_track(kind_table.is_shared)}: {shown}."
    yield from (f"- `{name}`, a view: `{query}`" for name, query in VIEWS.items())
    yield "\n## Codes\n\nThe table `codes` has them, too.\n"
    yield _table(("code of", "words"), ((name, _words(words)) for name, words in WORDS.items()))
    yield "## Definitions of the figures\n"
    yield _table(("figure", "definition"), DEFINITIONS.items())
    yield _TEXT.format(arrays=", ".join(f"`{kind.name.lower()}`" for kind in sorted(TEXT_ARRAYS)))
    yield _VERSIONS


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def _origin(name: str, column: str) -> str:
    return "" if name == column else f" (`{column}`)"


def _track(is_shared: bool | None) -> str:
    return {True: " of the engine track", False: " of slots", None: ""}[is_shared]


def _words(words: dict[int, str]) -> str:
    return ", ".join(f"{code} {word}" for code, word in words.items())


if __name__ == "__main__":
    print(page(), end="")
