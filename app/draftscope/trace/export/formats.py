"""The formats that a trace can be exported to: one table for command line, window and documentation."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from draftscope.trace.export.watch import Cancelled, Progress
from draftscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        id: its name on the command line.
        module: of this package, has a function ``export_<id>``.
        suffixes: endings of the file's name, the usual one first; empty where the export is a folder.
        sentence: what it is good for.
    """

    id: str
    title: str
    module: str
    suffixes: tuple[str, ...]
    sentence: str

    @property
    def is_folder(self) -> bool:
        """Whether a folder with several files is written."""
        return not self.suffixes


FORMATS = (
    Format(
        "perfetto",
        "Perfetto",
        "perfetto",
        (".pftrace",),
        "Opens in ui.perfetto.dev and trace_processor: slots, rounds, arrows and counters on one clock. The smallest "
        "for large runs.",
    ),
    Format(
        "chrome",
        "Chrome trace",
        "chrome",
        (".json.gz", ".json"),
        "Opens in ui.perfetto.dev and chrome://tracing, and is JSON that scripts can read.",
    ),
    Format(
        "csv",
        "CSV",
        "csv_folder",
        (),
        "A folder with one file a table (rounds, decodes, tokens, ...), for spreadsheets and scripts.",
    ),
    Format(
        "parquet",
        "Parquet",
        "parquet",
        (),
        "The same tables as CSV, with types and units, for pandas, Polars and DuckDB.",
    ),
    Format(
        "npz",
        "NumPy (NPZ)",
        "npz",
        (".npz",),
        "What probes of restores measured: hidden rows, top logits and layer differences as arrays.",
    ),
)
"""All formats, in the order in which they are offered."""

BY_ID = {one.id: one for one in FORMATS}


def files_of(chosen: Format) -> tuple[str, ...]:
    """Names of the files in the folder of an export; empty where it is one file."""
    if not chosen.is_folder:
        return ()
    names: tuple[str, ...] = importlib.import_module(f"draftscope.trace.export.{chosen.module}").NAMES
    return names


class _Exporter(Protocol):
    def __call__(
        self, trace: Trace, path: Path, *, with_text: bool, progress: Progress | None, cancelled: Cancelled | None
    ) -> None: ...


def why_not(format_id: str) -> str:
    """Why nothing can be written in a format here, or ''."""
    if format_id != "parquet":
        return ""
    from draftscope.trace.export.parquet import why_no_parquet

    return why_no_parquet()


def export_trace(
    format_id: str,
    trace: Trace,
    path: Path,
    *,
    with_text: bool = True,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> None:
    """Write a trace in one of the formats; arguments and errors as ``export_chrome``'s.

    The module is imported here, so only those who export pay for it.

    Raises:
        TraceError: the format needs something that is not installed.
    """
    module = importlib.import_module(f"draftscope.trace.export.{BY_ID[format_id].module}")
    export = cast(_Exporter, getattr(module, f"export_{format_id}"))
    export(trace, path, with_text=with_text, progress=progress, cancelled=cancelled)


def size_of(path: Path) -> int:
    """Bytes of an export, of all files of a folder."""
    return sum(child.stat().st_size for child in path.iterdir()) if path.is_dir() else path.stat().st_size
