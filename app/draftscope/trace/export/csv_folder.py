"""CSV: a folder with one file a table, for spreadsheets and scripts.

``columns.csv`` tells unit and meaning of every column, ``run.json`` what is known of the run. UTF-8, a header line,
a comma between columns, an empty field where there is no value.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftscope.trace.export.source import Source
from draftscope.trace.export.tables import TABLES, TableReader, Values, indexed_words
from draftscope.trace.export.target import replacing_folder
from draftscope.trace.export.watch import Cancelled, Progress, Watch
from draftscope.trace.json_text import to_json
from draftscope.trace.trace import Trace

NAMES = (*(f"{table.name}.csv" for table in TABLES), "columns.csv", "run.json")
"""Names of the files in the folder."""


def export_csv(
    trace: Trace,
    path: Path | str,
    *,
    with_text: bool = True,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> None:
    """Write a folder of tables; arguments and errors as ``export_chrome``'s.

    Raises:
        FileExistsError: the folder holds other files, which stay as they are.
    """
    source = Source(trace, with_text=with_text)
    reader = TableReader(source)
    watch = Watch(source.n_rows, progress, cancelled)
    with replacing_folder(Path(path), NAMES) as folder:
        (folder / "run.json").write_text(to_json(source.about()) + "\n", encoding="ascii")
        _write(folder / "columns.csv", ("table", "column", "type", "unit", "meaning"), [_described(reader)])
        for table in TABLES:
            header = tuple(column.name for column in reader.columns(table))
            _write(folder / f"{table.name}.csv", header, _rows(reader.chunks(table), watch))
        watch.check()


def _described(reader: TableReader) -> list[tuple[str, ...]]:
    return [
        (table.name, column.name, column.type, column.unit, column.meaning)
        for table in TABLES
        for column in reader.columns(table)
    ]


def _rows(chunks: Iterator[tuple[int, list[Values]]], watch: Watch) -> Iterator[list[tuple[Any, ...]]]:
    watch.check()
    for n, columns in chunks:
        yield list(zip(*(_fields(values) for values in columns), strict=True))
        watch.add(n)


def _fields(values: Values) -> list[Any]:
    if values.words is not None:
        words, inverse = indexed_words(values)
        return [words[index] for index in inverse.tolist()]
    numbers = values.numbers.tolist()
    # NaN is the only number that differs from itself.
    return numbers if values.numbers.dtype.kind == "i" else ["" if number != number else number for number in numbers]


def _write(path: Path, header: tuple[str, ...], chunks: Any) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for rows in chunks:
            writer.writerows(rows)
