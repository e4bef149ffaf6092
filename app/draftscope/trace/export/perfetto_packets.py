"""Packets of a Perfetto trace, many of one kind at a time. Numbers are those of the fields of the published protos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Records
from draftscope.trace.export.arguments import Argument, category, names_of
from draftscope.trace.export.interned import ARGUMENT_NAMES, CATEGORIES, NAMES, STRINGS, InternedTexts
from draftscope.trace.export.protobuf import Ints, Messages, field

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
"""``TrackEvent.Type``."""

_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CLEARED, _NEEDS_STATE = 1, 2
_EXPLICIT = 3
_INT64 = range(-(2**63), 2**63)


def first_packet() -> bytes:
    """Begins the sequence that all other packets are in."""
    return _packet(field(_FLAGS, _CLEARED))


def process_packet(uuid: int, name: str) -> bytes:
    """The process that all tracks belong to; they are shown in the order of their ranks."""
    process = field(1, 1) + field(6, name)
    return _packet(field(_DESCRIPTOR, field(1, uuid) + field(3, process) + field(11, _EXPLICIT)))


def track_packet(uuid: int, parent: int, name: str, rank: int, unit: str | None = None) -> bytes:
    """A track of slices, or of a counter in ``unit``."""
    descriptor = field(1, uuid) + field(5, parent) + field(2, name) + field(12, rank)
    return _packet(field(_DESCRIPTOR, descriptor if unit is None else descriptor + field(8, field(6, unit))))


def about_packet(track: int, about: dict[str, Any]) -> bytes:
    """A moment at the start of a track that tells all of ``about``, JSON types."""
    annotations = b"".join(field(4, _annotation(key, value)) for key, value in about.items())
    event = field(9, INSTANT) + field(11, track) + field(22, "run") + field(23, "about this trace") + annotations
    return _packet(field(_TIMESTAMP, 0) + field(_TRACK_EVENT, event))


def interned_packet(data: bytes) -> bytes:
    """Texts that packets behind this one mean by number."""
    return _packet(field(_FLAGS, _NEEDS_STATE) + field(_INTERNED, data))


def _packet(content: bytes) -> bytes:
    return field(_PACKET, field(_SEQUENCE, 1) + content)


def _annotation(name: str | None, value: Any) -> bytes:
    head = b"" if name is None else field(10, name)
    if isinstance(value, dict):
        return head + b"".join(field(11, _annotation(str(key), item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return head + b"".join(field(12, _annotation(None, item)) for item in value)
    if isinstance(value, bool):
        return head + field(2, int(value))
    if isinstance(value, int):
        return head + (field(4, value) if value in _INT64 else field(6, str(value)))
    if isinstance(value, float):
        return head + field(5, value)
    return head + field(6, "null" if value is None else str(value))


class PacketWriter:
    """Makes the packets of many events; texts go through ``texts``."""

    def __init__(self, texts: InternedTexts) -> None:
        self._texts = texts

    def events(
        self,
        kind: int,
        records: Records,
        t_ns: Ints,
        track: int,
        arguments: Sequence[Argument],
        event_type: int,
        flows: Messages | None = None,
        inner: tuple[str, Messages, Ints] | None = None,
    ) -> Messages:
        """Begins of slices, or moments.

        Args:
            t_ns: int64 (K,), times from the start of the trace.
            flows: fields of arrows that begin or end at each event.
            inner: an argument more that is a list: its name, the entries of all events, and how many each has.
        """
        event = Messages(len(records))
        category_number = self._texts.number(CATEGORIES, category(kind))
        event.constant(field(9, event_type) + field(11, track) + field(3, category_number))
        naming = names_of(kind, records)
        event.varints(10, self._texts.numbers(NAMES, naming.values, naming.words))
        if flows is not None:
            event.extend(flows)
        for argument in arguments:
            event.submessages(4, self._annotation(argument), argument.present)
        if inner is not None:
            name, entries, counts = inner
            event.extend(self._list(name, entries, counts))
        packet = Messages(len(records))
        packet.varints(_TIMESTAMP, t_ns)
        packet.constant(field(_SEQUENCE, 1) + field(_FLAGS, _NEEDS_STATE))
        packet.submessages(_TRACK_EVENT, event)
        return _in_trace(packet)

    def entries(self, arguments: Sequence[Argument], n: int) -> Messages:
        """Annotations without a name that hold the arguments of ``n`` events: the entries of a list."""
        entry = Messages(n)
        for argument in arguments:
            entry.submessages(11, self._annotation(argument), argument.present)
        return entry

    def _list(self, name: str, entries: Messages, counts: Ints) -> Messages:
        """The field ``debug_annotations`` with a list, for each of the events that have entries."""
        has_any = counts > 0
        of_those = Messages(int(has_any.sum()))
        of_those.constant(field(1, self._texts.number(ARGUMENT_NAMES, name)))
        of_those.repeated(12, entries, counts[has_any])
        found = Messages(len(counts))
        found.repeated(4, of_those, has_any.astype(np.int64))
        return found

    def _annotation(self, argument: Argument) -> Messages:
        message = Messages(len(argument.values))
        message.constant(field(1, self._texts.number(ARGUMENT_NAMES, argument.name)))
        if argument.words is not None:
            values, present = argument.values, argument.present
            if present is not None:  # what is not written needs no text
                values = np.where(present, values, values[np.argmax(present)] if present.any() else 0)
            message.varints(17, self._texts.numbers(STRINGS, values, argument.words))
        elif argument.values.dtype.kind == "f":
            message.doubles(5, argument.values)
        else:
            message.varints(4, argument.values, argument.present)
        return message


def end_packets(t_ns: Ints, track: int) -> Messages:
    """Ends of slices of a track."""
    packet = Messages(len(t_ns))
    packet.varints(_TIMESTAMP, t_ns)
    packet.constant(field(_SEQUENCE, 1) + field(_TRACK_EVENT, field(9, END) + field(11, track)))
    return _in_trace(packet)


def counter_packets(t_ns: Ints, values: Ints, track: int) -> Messages:
    """Values of a counter."""
    event = Messages(len(t_ns))
    event.constant(field(9, COUNTER) + field(11, track))
    event.varints(30, values)
    packet = Messages(len(t_ns))
    packet.varints(_TIMESTAMP, t_ns)
    packet.constant(field(_SEQUENCE, 1))
    packet.submessages(_TRACK_EVENT, event)
    return _in_trace(packet)


def flow_fields(index: Ints, flows_of: tuple[Ints, Ints], *, is_start: bool) -> Messages:
    """The arrows that begin or end at events: fields ``flow_ids`` or ``terminating_flow_ids``.

    Args:
        index: int64 (K,), records of the events.
        flows_of: int64 (F,) records, rising, and the number of an arrow of each.
    """
    owners, numbers = flows_of
    first = np.searchsorted(owners, index)
    counts = np.searchsorted(owners, index, "right") - first
    fields = Messages(len(index))
    for rank in range(int(counts.max(initial=0))):
        has = counts > rank
        fields.fixed(47 if is_start else 48, numbers[np.where(has, first + rank, 0)] + 1, has)
    return fields


def _in_trace(packet: Messages) -> Messages:
    trace = Messages(len(packet))
    trace.submessages(_PACKET, packet)
    return trace


def encoded(groups: Sequence[tuple[Messages, NDArray[np.int64]]], n: int) -> bytes:
    """Messages of several groups in one order: ``groups`` with the places of their messages among all ``n``."""
    lengths = np.zeros(n, np.int64)
    for messages, places in groups:
        lengths[places] = messages.lengths
    offsets = np.cumsum(lengths) - lengths
    memory = np.empty(int(lengths.sum()), np.uint8)
    for messages, places in groups:
        messages.write_into(memory, offsets[places])
    return memory.tobytes()
