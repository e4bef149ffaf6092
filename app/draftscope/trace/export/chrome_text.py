"""Chrome trace events as JSON text, one record at a time."""

from __future__ import annotations

import functools
import json
import math
from enum import IntEnum
from typing import Any, NamedTuple

from draftscope.engine.events import (
    ENGINE_TRACK,
    FallbackReason,
    Kind,
    Mechanism,
    Operation,
    Origin,
    Phase,
    Records,
    Reuse,
    SlotState,
    StopReason,
)
from draftscope.trace.pieces import PieceTable

PID = 1
"""The one process of the trace."""


class Row(NamedTuple):
    """A record as Python values; fields as in ``engine.events.COLUMNS``."""

    sequence: int
    t_start_ns: int
    duration_ns: int
    round: int
    slot: int
    kind: int
    code: int
    position: int
    token: int
    n: int
    m: int
    value: float
    size_bytes: int


def microseconds(ns: int) -> str:
    """Nanoseconds >= 0 as decimal microseconds, exact to the nanosecond."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def thread_of(slot: int) -> int:
    """The thread id of a slot's track; 0 for the engine track."""
    return slot - ENGINE_TRACK


def track_name(slot: int) -> str:
    """What the track is called."""
    return "engine (decodes shared by all slots)" if slot == ENGINE_TRACK else f"slot {slot}"


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


def counter_event(name: str, t_ns: int, unit: str, value: int) -> str:
    """A "C" event: from here on the counter has this value."""
    return f'{{"ph":"C","pid":{PID},"ts":{microseconds(t_ns)},"name":{_json(name)},"args":{_json({unit: value})}}}'


class EventText:
    """Makes the events of records. ``t_zero_ns`` is the time that becomes 0."""

    def __init__(self, pieces: PieceTable, t_zero_ns: int, *, with_text: bool) -> None:
        self._pieces = pieces
        self._t_zero_ns = t_zero_ns
        self._with_text = with_text

    def slice(self, row: Row, end_ns: int, tokens: list[Row]) -> str:
        """An "X" event. ``end_ns``: its end on the track, at or before that of the record; ``tokens``: of a round."""
        args = self._slice_args(row, tokens)
        if end_ns < row.t_start_ns + row.duration_ns:
            args["recorded_us"] = row.duration_ns / 1000
        name = f"round {row.round}" if row.kind == Kind.ROUND else self._name(row)
        duration = microseconds(end_ns - row.t_start_ns)
        return f'{{"ph":"X",{self._place(row)},"dur":{duration},"name":"{name}","args":{_json(args)}}}'

    def instant(self, row: Row) -> str:
        """An "i" event: a fallback, a slot's new state, an operation that took no time, a token outside any round."""
        return (
            f'{{"ph":"i","s":"t",{self._place(row)},"name":"{self._name(row)}","args":{_json(self._moment_args(row))}}}'
        )

    def _place(self, row: Row) -> str:
        t_us = microseconds(row.t_start_ns - self._t_zero_ns)
        return f'"pid":{PID},"tid":{thread_of(row.slot)},"ts":{t_us},"cat":"{Kind(row.kind).name.lower()}"'

    def _name(self, row: Row) -> str:
        match row.kind:
            case Kind.SPAN:
                return word(Phase, row.code)
            case Kind.FALLBACK:
                return f"fallback: {word(FallbackReason, row.code)}"
            case Kind.SLOT:
                return word(SlotState, row.code)
            case Kind.OPERATION:
                return f"operation: {word(Operation, row.code)}"
            case Kind.TOKEN:
                return f"{word(Origin, row.code)} token"
            case _:
                return Kind(row.kind).name.lower()

    def _slice_args(self, row: Row, tokens: list[Row]) -> dict[str, Any]:
        match row.kind:
            case Kind.ROUND:
                return self._round_args(row, tokens)
            case Kind.SPAN:
                return _span_args(row)
            case Kind.OPERATION:
                return _operation_args(row)
            case _:
                return _checkpoint_args(row)

    def _round_args(self, row: Row, tokens: list[Row]) -> dict[str, Any]:
        args: dict[str, Any] = {
            "round": row.round,
            "mechanism": word(Mechanism, row.code),
            "draft_n": row.n,
            "draft_n_accepted": row.m,
            "n_tokens": row.position,
        }
        if row.n > 0:
            args["acceptance"] = _figure(row.m / row.n)
        if math.isfinite(row.value):
            args["tokens_per_second"] = _figure(row.value)
        if tokens:
            args["tokens"] = [self._token(token) for token in tokens]
        return args

    def _moment_args(self, row: Row) -> dict[str, Any]:
        match row.kind:
            case Kind.FALLBACK:
                return {
                    "round": row.round,
                    "position": row.position,
                    "asked": word(Mechanism, row.n),
                    "used": word(Mechanism, row.m),
                }
            case Kind.SLOT:
                return {"n_tokens": row.position, "n_generated": row.m, "stop_reason": word(StopReason, row.n)}
            case Kind.OPERATION:
                return _operation_args(row)
            case _:
                return {"round": row.round} | self._token(row)

    def _token(self, row: Row) -> dict[str, Any]:
        args: dict[str, Any] = {"origin": word(Origin, row.code), "position": row.position, "draft_position": row.n}
        if math.isfinite(row.value):
            args["probability"] = _figure(row.value)
        if self._with_text:
            args |= {"token": row.token, "text": self._pieces.text((row.token,))}
            if row.code == Origin.REJECTED and row.m >= 0:
                args |= {"chosen": row.m, "chosen_text": self._pieces.text((row.m,))}
        return args


def row_of(records: Records, index: int) -> Row:
    """One record as Python values."""
    return Row(*records[index].item())


@functools.cache
def word(enum: type[IntEnum], code: int) -> str:
    """The name of a code, lower case; a code without a name is told as such."""
    try:
        return enum(code).name.lower()
    except ValueError:
        return f"unknown {code}"


def _span_args(row: Row) -> dict[str, Any]:
    if row.slot != ENGINE_TRACK:
        return {"round": row.round, "position": row.position, "n_tokens": row.n, "n_replay": row.m}
    args = {"round": row.round, "n_tokens": row.n, "graph_runs": row.m}
    return args | {"draft_step": row.position} if row.code == Phase.DRAFT else args


def _operation_args(row: Row) -> dict[str, Any]:
    return {
        "round": row.round,
        "n_tokens": row.position,
        "n_kept": row.n,
        "reuse": word(Reuse, row.m),
        "size_bytes": row.size_bytes,
    }


def _checkpoint_args(row: Row) -> dict[str, Any]:
    args = {
        "round": row.round,
        "mechanism": word(Mechanism, row.code),
        "position": row.position,
        "epoch": row.n,
        "size_bytes": row.size_bytes,
    }
    return args | {"n_replay": row.m} if row.kind == Kind.RESTORE else args


def _figure(value: float) -> float:
    """Six digits: the rest is noise of float32."""
    return float(f"{value:.6g}")


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
