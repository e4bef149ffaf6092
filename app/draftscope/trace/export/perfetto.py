"""Perfetto's own format, a sequence of protocol buffers, which ui.perfetto.dev and ``trace_processor`` open.

Tracks, slices, arguments, arrows and counters are those of the Chrome trace (both are made by ``export.layout``,
``export.arguments`` and ``export.counters``): a process, a track a slot and the engine track, slices that nest, arrows
from a save to each restore, counters. Times are nanoseconds from the first record. The first moment on the process
tells header, definitions and results.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind
from draftscope.trace.export.arguments import ArgumentTable, track_name
from draftscope.trace.export.counters import Counter, memory_counters, slot_counters
from draftscope.trace.export.interned import InternedTexts
from draftscope.trace.export.layout import Part, TrackLayout, lay_out
from draftscope.trace.export.perfetto_packets import (
    BEGIN,
    END,
    INSTANT,
    PacketWriter,
    about_packet,
    counter_packets,
    encoded,
    end_packets,
    first_packet,
    flow_fields,
    interned_packet,
    process_packet,
    track_packet,
)
from draftscope.trace.export.protobuf import Messages
from draftscope.trace.export.source import Source
from draftscope.trace.export.target import replacing_file
from draftscope.trace.export.watch import Cancelled, Progress, Watch
from draftscope.trace.trace import Trace

_CHUNK = 8192
_PROCESS = 1
_FIRST_TRACK = 2

Ints = NDArray[np.int64]


def export_perfetto(
    trace: Trace,
    path: Path | str,
    *,
    with_text: bool = True,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> None:
    """Write a trace in Perfetto's format; arguments and errors as ``export_chrome``'s."""
    source = Source(trace, with_text=with_text)
    watch = Watch(source.n_rows, progress, cancelled)
    with replacing_file(Path(path)) as file:
        for packets in _Packets(source, watch).chunks():
            file.write(packets)
        watch.check()


class _Packets:
    """The packets of one file."""

    def __init__(self, source: Source, watch: Watch) -> None:
        self._source = source
        self._watch = watch
        self._arguments = ArgumentTable(source.pieces, with_text=source.with_text)
        self._texts = InternedTexts()
        self._writer = PacketWriter(self._texts)
        self._n_tracks = 0

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the file, in pieces."""
        source = self._source
        yield first_packet() + process_packet(_PROCESS, "Draftscope") + about_packet(_PROCESS, source.about())
        n_flows = 0
        for slot in source.slots():
            n_records, n_written = source.n_of_slot(slot), 0
            track, descriptor = self._new_track(track_name(slot))
            yield descriptor
            for layout in lay_out(source.records, slot, n_flows):
                n_flows += int(np.count_nonzero(layout.part == Part.FLOW_START))
                for n, packets in self._track(track, layout):
                    if new := self._texts.take_new():
                        yield interned_packet(new)
                    yield packets
                    n_written += n
                    # Slices are two packets, but tokens of rounds none of their own.
                    self._watch.check(min(n_written, n_records))
            self._watch.add(n_records)
            for counter in slot_counters(source.records, slot):
                yield from self._counter(counter)
        for counter in memory_counters(source.records):
            yield from self._counter(counter)

    def _new_track(self, name: str, unit: str | None = None) -> tuple[int, bytes]:
        rank, self._n_tracks = self._n_tracks, self._n_tracks + 1
        return _FIRST_TRACK + rank, track_packet(_FIRST_TRACK + rank, _PROCESS, name, rank, unit)

    def _track(self, track: int, layout: TrackLayout) -> Iterator[tuple[int, bytes]]:
        """Packets of a part of a track, chunk by chunk, and how many they are."""
        event_type, item = track_order(layout)
        flows = {part: _flows_of(layout, part) for part in (Part.FLOW_START, Part.FLOW_END)}
        for first in range(0, len(item), _CHUNK):
            types, items = event_type[first : first + _CHUNK], item[first : first + _CHUNK]
            ends = np.flatnonzero(types == END)
            groups = [(end_packets(layout.end_ns[items[ends]] - self._source.t_zero_ns, track), ends)]
            key = types << 8 | layout.kind[items]
            for value in np.unique(key[types != END]).tolist():
                places = np.flatnonzero(key == value)
                made = self._events(track, value >> 8, value & 0xFF, layout, items[places], flows)
                groups.append((made, places))
            yield len(items), encoded(groups, len(items))

    def _events(
        self,
        track: int,
        event_type: int,
        kind: int,
        layout: TrackLayout,
        items: Ints,
        flows: dict[Part, tuple[Ints, Ints]],
    ) -> Messages:
        index = layout.index[items]
        records = self._source.records[kind][index]
        t_ns = layout.t_ns[items] - self._source.t_zero_ns
        if event_type == INSTANT:
            arguments = self._arguments.of_moments(kind, records)
            return self._writer.events(kind, records, t_ns, track, arguments, INSTANT)
        arguments = self._arguments.of_slices(kind, records, layout.end_ns[items])
        arrows, inner = None, None
        if kind in (Kind.SAVE, Kind.RESTORE):
            part = Part.FLOW_START if kind == Kind.SAVE else Part.FLOW_END
            arrows = flow_fields(index, flows[part], is_start=kind == Kind.SAVE)
        if kind == Kind.ROUND:
            token_index, counts = layout.tokens_of(index)
            tokens = self._source.records[Kind.TOKEN][token_index]
            inner = "tokens", self._writer.entries(self._arguments.of_tokens(tokens), len(tokens)), counts
        return self._writer.events(kind, records, t_ns, track, arguments, BEGIN, arrows, inner)

    def _counter(self, counter: Counter) -> Iterator[bytes]:
        track, descriptor = self._new_track(counter.name, counter.unit)
        yield descriptor
        for first in range(0, len(counter.t_ns), _CHUNK):
            part = slice(first, first + _CHUNK)
            yield counter_packets(counter.t_ns[part] - self._source.t_zero_ns, counter.values[part], track).joined()
            self._watch.check()


def track_order(layout: TrackLayout) -> tuple[Ints, Ints]:
    """Begins, ends and moments of a track in the order in which a reader that opens and closes slices needs them.

    Returns:
        ``TrackEvent.Type`` int64 (E,), and the item of the layout that the event is of.
    """
    slices, moments = np.flatnonzero(layout.part == Part.SLICE), np.flatnonzero(layout.part == Part.INSTANT)
    start, end = layout.t_ns[slices], layout.end_ns[slices]
    rank = np.arange(len(slices))
    # How many slices begin before this one ends: a slice that begins just then comes after the end.
    n_before_end = np.maximum(rank + 1, np.searchsorted(start, end, "left"))
    n_before_moment = np.searchsorted(start, layout.t_ns[moments], "right")
    gap = np.concatenate([2 * rank + 1, 2 * n_before_end, 2 * n_before_moment])
    times = np.concatenate([start, end, layout.t_ns[moments]])
    types = np.repeat(np.array([BEGIN, END, INSTANT]), [len(slices), len(slices), len(moments)])
    # Of slices that end at one time the inner ones end first.
    inner_first = np.concatenate([rank, -rank, np.arange(len(moments))])
    order = np.lexsort((inner_first, types, times, gap))
    return types[order], np.concatenate([slices, slices, moments])[order]


def _flows_of(layout: TrackLayout, part: Part) -> tuple[Ints, Ints]:
    """Records that arrows begin or end at, rising, and their arrows."""
    items = np.flatnonzero(layout.part == part)
    items = items[np.argsort(layout.index[items], kind="stable")]
    return layout.index[items], layout.flow[items]
