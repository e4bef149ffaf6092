"""Reads Perfetto files with the published protos, in the way of a trace processor: an independent reader for tests."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

Event = protos.TrackEvent


class Slice(NamedTuple):
    """A slice or a moment (``duration_ns`` -1) of a track."""

    track: str
    name: str
    category: str
    t_ns: int
    duration_ns: int
    arguments: dict[str, Any]


@dataclass
class PerfettoTrace:
    """What a file says. Arrows: number -> (track, time); ``counters``: name -> (time, value)."""

    tracks: list[str] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    moments: list[Slice] = field(default_factory=list)
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    arrow_starts: dict[int, tuple[str, int]] = field(default_factory=dict)
    arrow_ends: dict[int, tuple[str, int]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)


class _Reader:
    """Follows the packets of one sequence: interned texts, tracks, and the slices that are open on each."""

    def __init__(self) -> None:
        self.trace = PerfettoTrace()
        self._texts: dict[str, dict[int, str]] = defaultdict(dict)
        self._track_names: dict[int, str] = {}
        self._open: dict[int, list[tuple[Any, str]]] = defaultdict(list)
        self._last_ns: dict[int, int] = {}

    def read(self, packets: Any) -> PerfettoTrace:
        assert packets[0].sequence_flags == protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        for packet in packets:
            assert packet.trusted_packet_sequence_id == 1
            self._intern(packet.interned_data)
            if packet.HasField("track_descriptor"):
                self._describe(packet.track_descriptor)
            if packet.HasField("track_event"):
                self._event(packet)
        assert not any(self._open.values()), "a slice never ends"
        return self.trace

    def _intern(self, data: Any) -> None:
        for table, entries in (
            ("category", data.event_categories),
            ("name", data.event_names),
            ("argument", data.debug_annotation_names),
        ):
            self._texts[table].update({entry.iid: entry.name for entry in entries})
        self._texts["string"].update({entry.iid: entry.str.decode() for entry in data.debug_annotation_string_values})

    def _describe(self, descriptor: Any) -> None:
        assert descriptor.uuid not in self._track_names
        if descriptor.HasField("process"):
            name = descriptor.process.process_name
            assert descriptor.child_ordering == protos.TrackDescriptor.EXPLICIT
        else:
            name = descriptor.name
            self.trace.parents[name] = self._track_names[descriptor.parent_uuid]
            self.trace.ranks[name] = descriptor.sibling_order_rank
        self._track_names[descriptor.uuid] = name
        self.trace.tracks.append(name)
        if descriptor.HasField("counter"):
            self.trace.units[name] = descriptor.counter.unit_name

    def _event(self, packet: Any) -> None:
        event, track = packet.track_event, packet.track_event.track_uuid
        name = self._track_names[track]
        assert self._last_ns.get(track, 0) <= packet.timestamp, "time falls on a track"
        self._last_ns[track] = packet.timestamp
        match event.type:
            case Event.TYPE_SLICE_BEGIN:
                self._open[track].append((packet, name))
                for flow in event.flow_ids:
                    self.trace.arrow_starts[flow] = (name, packet.timestamp)
                for flow in event.terminating_flow_ids:
                    self.trace.arrow_ends[flow] = (name, packet.timestamp)
            case Event.TYPE_SLICE_END:
                begin, _ = self._open[track].pop()
                duration_ns = packet.timestamp - begin.timestamp
                self.trace.slices.append(self._slice(name, begin, duration_ns))
            case Event.TYPE_COUNTER:
                self.trace.counters[name].append((packet.timestamp, event.counter_value))
            case Event.TYPE_INSTANT if event.name == "about this trace":
                self.trace.about = self._arguments(event)
            case Event.TYPE_INSTANT:
                self.trace.moments.append(self._slice(name, packet, -1))

    def _slice(self, track: str, packet: Any, duration_ns: int) -> Slice:
        event = packet.track_event
        name, (category,) = self._texts["name"][event.name_iid], event.category_iids
        arguments = self._arguments(event)
        return Slice(track, name, self._texts["category"][category], packet.timestamp, duration_ns, arguments)

    def _arguments(self, event: Any) -> dict[str, Any]:
        return {self._name(annotation): self._value(annotation) for annotation in event.debug_annotations}

    def _name(self, annotation: Any) -> str:
        return annotation.name or self._texts["argument"][annotation.name_iid]

    def _value(self, annotation: Any) -> Any:
        if annotation.dict_entries:
            return {self._name(entry): self._value(entry) for entry in annotation.dict_entries}
        if annotation.array_values:
            return [self._value(entry) for entry in annotation.array_values]
        kind = annotation.WhichOneof("value")
        if kind == "string_value_iid":
            return self._texts["string"][annotation.string_value_iid]
        return getattr(annotation, kind) if kind else {}


def read_perfetto(path: Path) -> PerfettoTrace:
    """Parse a file and check what a trace processor relies on: known tracks, rising times, slices that close."""
    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    return _Reader().read(trace.packet)
