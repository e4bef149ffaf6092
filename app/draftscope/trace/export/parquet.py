"""Parquet: a folder with one file a table, for pandas, Polars, DuckDB and the like.

Needs pyarrow (``pip install 'draftscope[parquet]'``), which is imported with the first export only. Every field's
metadata tell its unit and meaning, the file's what is known of the run; a value that was not measured is null.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from draftscope.trace.errors import TraceError
from draftscope.trace.export.source import Source
from draftscope.trace.export.tables import TABLES, Table, TableReader, Values, indexed_words
from draftscope.trace.export.target import replacing_folder
from draftscope.trace.export.watch import Cancelled, Progress, Watch
from draftscope.trace.json_text import to_json
from draftscope.trace.trace import Trace

NAMES = tuple(f"{table.name}.parquet" for table in TABLES)
"""Names of the files in the folder."""


def why_no_parquet() -> str:
    """Why nothing can be written, or ''."""
    if importlib.util.find_spec("pyarrow") is not None:
        return ""
    return "Parquet needs pyarrow, which is not installed: pip install 'draftscope[parquet]'."


def export_parquet(
    trace: Trace,
    path: Path | str,
    *,
    with_text: bool = True,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> None:
    """Write a folder of tables; arguments and errors as ``export_csv``'s.

    Raises:
        TraceError: pyarrow is not installed.
    """
    if reason := why_no_parquet():
        raise TraceError(reason)
    source = Source(trace, with_text=with_text)
    reader = TableReader(source)
    watch = Watch(source.n_rows, progress, cancelled)
    about = to_json(source.about())
    with replacing_folder(Path(path), NAMES) as folder:
        for table in TABLES:
            watch.check()
            _write(folder / f"{table.name}.parquet", table, reader, about, watch)
        watch.check()


def _write(path: Path, table: Table, reader: TableReader, about: str, watch: Watch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [
        pa.field(
            column.name,
            getattr(pa, column.type)(),
            metadata={"unit": column.unit, "meaning": column.meaning},
        )
        for column in reader.columns(table)
    ]
    schema = pa.schema(fields, metadata={"draftscope": about})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for n, columns in reader.chunks(table):
            writer.write_batch(pa.record_batch([_array(pa, values) for values in columns], schema=schema))
            watch.add(n)


def _array(pa: Any, values: Values) -> Any:
    if values.words is not None:
        words, inverse = indexed_words(values)
        return pa.array(words, pa.string()).take(pa.array(inverse))
    if values.numbers.dtype.kind == "i":
        return pa.array(values.numbers)
    return pa.array(values.numbers, mask=np.isnan(values.numbers))
