"""Chrome trace events as JSON text, many of one kind at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import ENGINE_TRACK, Records
from draftscope.trace.export.arguments import Argument, Naming, Words, category, names_of

PID = 1
"""The one process of the trace."""


def microseconds(ns: int) -> str:
    """Nanoseconds >= 0 as decimal microseconds, exact to the nanosecond."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def thread_of(slot: int) -> int:
    """The thread id of a slot's track; 0 for the engine track."""
    return slot - ENGINE_TRACK


def metadata_event(name: str, thread: int | None, args: dict[str, Any]) -> str:
    """An "M" event, which names or orders a process or a thread."""
    place = "" if thread is None else f',"tid":{thread}'
    return f'{{"ph":"M","pid":{PID}{place},"name":"{name}","args":{_json(args)}}}'


def flow_event(slot: int, flow: int, t_ns: int, *, is_start: bool) -> str:
    """The begin ("s", on the save) or the end ("f", on the restore) of an arrow."""
    head = '"ph":"s"' if is_start else '"ph":"f","bp":"e"'
    return (
        f'{{{head},"pid":{PID},"tid":{thread_of(slot)},"ts":{microseconds(t_ns)},"id":{flow},'
        '"name":"restore","cat":"checkpoint"}'
    )


def counter_events(name: str, unit: str, t_ns: Sequence[int], values: Sequence[int]) -> list[str]:
    """Events "C": from each time on the counter has the value beside it."""
    head, middle = f'{{"ph":"C","pid":{PID},"ts":', f',"name":{_json(name)},"args":{{{_json(unit)}:'
    return [f"{head}{microseconds(t)}{middle}{value}}}}}" for t, value in zip(t_ns, values, strict=True)]


def slice_events(kind: int, records: Records, t_zero_ns: int, end_ns: NDArray[np.int64], args: list[str]) -> list[str]:
    """Events "X" of one kind. ``end_ns`` (K,): ends on the track, at or before those of the records."""
    starts, names = _starts(kind, records, t_zero_ns), name_texts(names_of(kind, records))
    durations = (end_ns - records["t_start_ns"]).tolist()
    return [
        f'{{"ph":"X",{start},"dur":{microseconds(duration)},"name":{name},"args":{arguments}}}'
        for start, duration, name, arguments in zip(starts, durations, names, args, strict=True)
    ]


def instant_events(kind: int, records: Records, t_zero_ns: int, args: list[str]) -> list[str]:
    """Events "i": a fallback, a slot's new state, an operation that took no time, a token outside any round."""
    starts, names = _starts(kind, records, t_zero_ns), name_texts(names_of(kind, records))
    return [
        f'{{"ph":"i","s":"t",{start},"name":{name},"args":{arguments}}}'
        for start, name, arguments in zip(starts, names, args, strict=True)
    ]


def _starts(kind: int, records: Records, t_zero_ns: int) -> list[str]:
    times, threads = (records["t_start_ns"] - t_zero_ns).tolist(), (records["slot"].astype(int) - ENGINE_TRACK).tolist()
    end = f',"cat":"{category(kind)}"'
    return [f'"pid":{PID},"tid":{thread},"ts":{microseconds(t)}{end}' for t, thread in zip(times, threads, strict=True)]


def name_texts(naming: Naming) -> list[str]:
    """Names of events as JSON strings."""
    return _texts(naming.values, naming.words)


def object_texts(arguments: Sequence[Argument], n: int, more: Sequence[str] | None = None) -> list[str]:
    """The arguments of ``n`` events as JSON objects. ``more``: a member of each that goes behind them, '' for none."""
    columns = [_members(argument) for argument in arguments]
    if more is not None:
        columns.append(list(more))
    if not columns:
        return ["{}"] * n
    return [f"{{{','.join(filter(None, row))}}}" for row in zip(*columns, strict=True)]


def _members(argument: Argument) -> list[str]:
    texts = _texts(argument.values, argument.words)
    if argument.present is None:
        return [f'"{argument.name}":{text}' for text in texts]
    present = argument.present.tolist()
    return [f'"{argument.name}":{text}' if has else "" for text, has in zip(texts, present, strict=True)]


def _texts(values: NDArray[Any], words: Words | None) -> list[str]:
    if words is None:
        return [repr(value) for value in values.tolist()]
    found, inverse = np.unique(values, return_inverse=True)
    texts = [_json(words(value)) for value in found.tolist()]
    return [texts[index] for index in inverse.tolist()]


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
