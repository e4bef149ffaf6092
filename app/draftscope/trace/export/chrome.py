"""Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open.

One process; a track a slot, and the engine track for the decodes that serve all slots at once. Rounds enclose their
phases; arrows lead from a save to each restore of it; counters are those of ``export.counters``. Times are
microseconds from the first record, exact to the nanosecond. On every track times never fall and slices nest strictly:
a slice that would outlast the one around it is cut, and ``recorded_us`` among its arguments tells its full length.
"""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TextIO

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind
from draftscope.trace.export.arguments import ArgumentTable, track_name
from draftscope.trace.export.chrome_text import (
    counter_events,
    flow_event,
    instant_events,
    metadata_event,
    object_texts,
    slice_events,
    thread_of,
)
from draftscope.trace.export.counters import Counter, memory_counters, slot_counters
from draftscope.trace.export.layout import Part, TrackLayout, lay_out
from draftscope.trace.export.source import Source
from draftscope.trace.export.target import replacing_file
from draftscope.trace.export.watch import Cancelled, Progress, Watch
from draftscope.trace.json_text import to_json
from draftscope.trace.trace import Trace

_CHUNK = 2048
_COMPRESSION = 6


def export_chrome(
    trace: Trace,
    path: Path | str,
    *,
    with_text: bool = True,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
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
    source = Source(trace, with_text=with_text)
    watch = Watch(source.n_rows, progress, cancelled)
    path = Path(path)
    with replacing_file(path) as file, _text(file, path.resolve()) as text:
        for chunk in _Document(source, watch).chunks():
            text.write(chunk)
        watch.check()


class _Document:
    """The text of one file."""

    def __init__(self, source: Source, watch: Watch) -> None:
        self._source = source
        self._watch = watch
        self._arguments = ArgumentTable(source.pieces, with_text=source.with_text)

    def chunks(self) -> Iterator[str]:
        """The text, in pieces."""
        source = self._source
        yield f'{{"displayTimeUnit":"ns","metadata":{to_json(source.about())},"traceEvents":[\n'
        yield metadata_event("process_name", None, {"name": "Draftscope"})
        slots = source.slots()
        for slot in slots:
            yield ",\n" + metadata_event("thread_name", thread_of(slot), {"name": track_name(slot)})
            yield ",\n" + metadata_event("thread_sort_index", thread_of(slot), {"sort_index": thread_of(slot)})
        n_flows = 0
        for slot in slots:
            n_records, n_written = source.n_of_slot(slot), 0
            for layout in lay_out(source.records, slot, n_flows):
                n_flows += int(np.count_nonzero(layout.part == Part.FLOW_START))
                for events in self._track(slot, layout):
                    yield ",\n" + ",\n".join(events)
                    n_written += len(events)
                    # Tokens of rounds make no events of their own, while arrows are more than the records.
                    self._watch.check(min(n_written, n_records))
            self._watch.add(n_records)
            for counter in slot_counters(source.records, slot):
                for events in self._counter(counter):
                    yield ",\n" + ",\n".join(events)
        for counter in memory_counters(source.records):
            for events in self._counter(counter):
                yield ",\n" + ",\n".join(events)
        yield "\n]}\n"

    def _track(self, slot: int, layout: TrackLayout) -> Iterator[list[str]]:
        for first in range(0, len(layout), _CHUNK):
            chunk = slice(first, min(first + _CHUNK, len(layout)))
            events = [""] * (chunk.stop - chunk.start)
            for part, kind, places in layout.groups(chunk):
                texts = self._events(slot, part, kind, layout, places)
                for place, text in zip((places - first).tolist(), texts, strict=True):
                    events[place] = text
            yield events

    def _events(self, slot: int, part: Part, kind: int, layout: TrackLayout, places: NDArray[np.int64]) -> list[str]:
        """Texts of the items at these places of a track, which are all of one part and kind."""
        t_zero_ns = self._source.t_zero_ns
        if part in (Part.FLOW_START, Part.FLOW_END):
            flows = zip(layout.flow[places].tolist(), (layout.t_ns[places] - t_zero_ns).tolist(), strict=True)
            return [flow_event(slot, flow, t_ns, is_start=part == Part.FLOW_START) for flow, t_ns in flows]
        records = self._source.records[kind][layout.index[places]]
        if part == Part.INSTANT:
            args = object_texts(self._arguments.of_moments(kind, records), len(records))
            return instant_events(kind, records, t_zero_ns, args)
        end_ns = layout.end_ns[places]
        more = self._tokens(layout, layout.index[places]) if kind == Kind.ROUND else None
        args = object_texts(self._arguments.of_slices(kind, records, end_ns), len(records), more)
        return slice_events(kind, records, t_zero_ns, end_ns, args)

    def _tokens(self, layout: TrackLayout, rounds: NDArray[np.int64]) -> list[str]:
        """The tokens of each round as a member of its arguments; '' for a round without any."""
        index, counts = layout.tokens_of(rounds)
        tokens = self._source.records[Kind.TOKEN][index]
        texts = object_texts(self._arguments.of_tokens(tokens), len(tokens))
        ends = np.cumsum(counts).tolist()
        starts = [0, *ends[:-1]]
        return [
            f'"tokens":[{",".join(texts[start:end])}]' if end > start else ""
            for start, end in zip(starts, ends, strict=True)
        ]

    def _counter(self, counter: Counter) -> Iterator[list[str]]:
        for first in range(0, len(counter.t_ns), _CHUNK):
            part = slice(first, first + _CHUNK)
            times = (counter.t_ns[part] - self._source.t_zero_ns).tolist()
            yield counter_events(counter.name, counter.unit, times, counter.values[part].tolist())


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
