"""Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open.

One process; a track a slot, and the engine track for the decodes that serve all slots at once. Rounds enclose their
phases; arrows lead from a save to each restore of it; counters tell the accepted length of every round (1 + accepted)
and the bytes of every saved state. Times are microseconds from the first record, exact to the nanosecond. On every
track times never fall and slices nest strictly: a slice that would outlast the one around it is cut, and
``recorded_us`` among its arguments tells its full length.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np

from draftscope.engine.events import Kind
from draftscope.trace.acceptance import DEFINITIONS
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.export.chrome_layout import ByKind, Part, TrackLayout, ends_of, lay_out
from draftscope.trace.export.chrome_text import (
    EventText,
    counter_event,
    flow_event,
    metadata_event,
    row_of,
    thread_of,
    track_name,
)
from draftscope.trace.json_text import to_json, without_text
from draftscope.trace.trace import Trace

_CHUNK = 2048
_COMPRESSION = 6


def export_chrome(
    trace: Trace,
    path: Path | str,
    *,
    with_text: bool = True,
    progress: Callable[[float], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Write a trace as Chrome trace JSON, compressed when the name ends in ``.gz``.

    May run in a thread of its own while the store grows: it writes what was there at the start. The file appears under
    its name when it is whole.

    Args:
        with_text: False leaves out prompts, outputs and token ids.
        progress: told the fraction done in [0, 1], rising, 1 at the end.
        cancelled: asked often; True ends the export.
    Raises:
        TraceCancelled: ``cancelled`` said so; nothing is left of the file.
        OSError: the file cannot be written; nothing is left of it.
    """
    export = _Export(trace, with_text, progress or (lambda _fraction: None), cancelled or (lambda: False))
    with _replacing(Path(path).resolve()) as file:
        for chunk in export.chunks():
            file.write(chunk)
        export.check()


class _Export:
    """One export: a fixed view of the trace, and how far it is."""

    def __init__(
        self, trace: Trace, with_text: bool, progress: Callable[[float], object], cancelled: Callable[[], bool]
    ) -> None:
        self._trace = trace
        self._records: ByKind = {kind: trace.store.kind(kind) for kind in Kind}
        self._with_text = with_text
        self._progress = progress
        self._cancelled = cancelled
        self._n_all = sum(len(records) for records in self._records.values())
        self._n_done = 0
        starts = [int(records["t_start_ns"].min()) for records in self._records.values() if len(records)]
        self._t_zero_ns = min(starts, default=0)
        self._text = EventText(trace.pieces, self._t_zero_ns, with_text=with_text)

    def check(self, n_more: float = 0) -> None:
        """Tell the progress, with ``n_more`` records beyond the finished tracks; stop when asked to."""
        if self._cancelled():
            raise TraceCancelled("The export was cancelled.")
        self._progress(min((self._n_done + n_more) / self._n_all, 1.0) if self._n_all else 1.0)

    def chunks(self) -> Iterator[str]:
        """The text of the file, in pieces."""
        slots = sorted({slot for records in self._records.values() for slot in np.unique(records["slot"]).tolist()})
        yield f'{{"displayTimeUnit":"ns","metadata":{to_json(self._metadata())},"traceEvents":[\n'
        yield metadata_event("process_name", None, {"name": "Draftscope"})
        for slot in slots:
            yield ",\n" + metadata_event("thread_name", thread_of(slot), {"name": track_name(slot)})
            yield ",\n" + metadata_event("thread_sort_index", thread_of(slot), {"sort_index": thread_of(slot)})
        n_flows = 0
        for slot in slots:
            self.check()
            layout = lay_out(self._records, slot, n_flows)
            n_flows += int(np.count_nonzero(layout.part == Part.FLOW_START))
            n_records = sum(int(np.count_nonzero(records["slot"] == slot)) for records in self._records.values())
            events = itertools.chain(self._track(slot, layout), self._counters(slot))
            n_written = 0
            while chunk := list(itertools.islice(events, _CHUNK)):
                n_written += len(chunk)
                yield ",\n" + ",\n".join(chunk)
                # Tokens of rounds make no events of their own, while rounds make two: events only stand for records.
                self.check(min(n_written, n_records))
            self._n_done += n_records
        yield "\n]}\n"

    def _metadata(self) -> dict[str, Any]:
        trace = self._trace
        header, results = trace.header, trace.results
        return {
            "program": "Draftscope",
            "header": header if self._with_text else without_text(header),
            "definitions": DEFINITIONS,
            "results": results if self._with_text else without_text(results),
            "has_text": self._with_text,
            "is_complete": trace.is_complete,
            "n_records": self._n_all,
            "n_missing_records": trace.store.n_missing,
            "clock": "monotonic",
            "t_zero_ns": self._t_zero_ns,
        }

    def _track(self, slot: int, layout: TrackLayout) -> Iterator[str]:
        columns = (layout.t_ns, layout.part, layout.kind, layout.index, layout.end_ns, layout.flow)
        for t_ns, part, kind, index, end_ns, flow in zip(*(column.tolist() for column in columns), strict=True):
            if part in (Part.FLOW_START, Part.FLOW_END):
                yield flow_event(slot, flow, t_ns - self._t_zero_ns, is_start=part == Part.FLOW_START)
                continue
            row = row_of(self._records[Kind(kind)], index)
            if part == Part.INSTANT:
                yield self._text.instant(row)
                continue
            tokens = layout.tokens_of(index).tolist() if kind == Kind.ROUND else []
            yield self._text.slice(row, end_ns, [row_of(self._records[Kind.TOKEN], token) for token in tokens])

    def _counters(self, slot: int) -> Iterator[str]:
        yield from self._counter(slot, Kind.ROUND, "m", 1, "accepted length", "tokens")
        yield from self._counter(slot, Kind.SAVE, "size_bytes", 0, "saved state", "bytes")

    def _counter(self, slot: int, kind: Kind, column: str, plus: int, name: str, unit: str) -> Iterator[str]:
        records = self._records[kind]
        records = records[records["slot"] == slot]
        ends = ends_of(records)
        order = np.argsort(ends, kind="stable")
        for t_ns, value in zip(ends[order].tolist(), records[column][order].tolist(), strict=True):
            yield counter_event(f"{track_name(slot)}: {name}", t_ns - self._t_zero_ns, unit, value + plus)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` when the block ends well, and is removed otherwise."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as device, _text(device, path) as text:  # a pipe or a device cannot be replaced
            yield text
        return
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file, _text(file, path) as text:
            yield text
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _text(file: IO[bytes], path: Path) -> Iterator[TextIO]:
    if path.suffix != ".gz":
        with io.TextIOWrapper(file, encoding="ascii", newline="\n") as text:
            yield text
        return
    # Neither name nor time of day inside: the same trace gives the same bytes.
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=_COMPRESSION, fileobj=file, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="ascii", newline="\n") as text,
    ):
        yield text
