"""What is told of each event: names, categories and arguments, as columns over many records at once.

Chrome's and Perfetto's files are both written from these, so they agree argument by argument. Names of arguments are
llama.cpp's where it has one (``draft_n``, ``draft_n_accepted``, ``n_tokens``, ``tokens_per_second``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from draftscope.engine.probes import FAULTS, LEVELS, Probes, RestoreKind, StateStatus
from draftscope.trace.export.layout import PROBE
from draftscope.trace.pieces import PieceTable

Words = Callable[[int], str]
"""Turns a number of a record into what is written for it."""

_DIGITS = 6
"""Digits of a figure that are written: the rest is noise of float32."""


class Argument(NamedTuple):
    """One argument of K events of one kind.

    Attributes:
        values: int64 or float64 (K,); finite where present.
        words: makes the text that is written for a value; None where the number itself is.
        present: bool (K,): events that have the argument; None when all have.
    """

    name: str
    values: NDArray[Any]
    words: Words | None = None
    present: NDArray[np.bool_] | None = None


class Naming(NamedTuple):
    """Names of K events: a number of each, and what makes a name of it."""

    values: NDArray[np.int64]
    words: Words


def word(enum: type[IntEnum], code: int) -> str:
    """The name of a code, lower case; a code without a name is told as such."""
    try:
        return enum(code).name.lower()
    except ValueError:
        return f"unknown {code}"


def words_of(enum: type[IntEnum], prefix: str = "", suffix: str = "") -> Words:
    """Names of an enumeration's codes, with something before and after."""
    return functools.cache(lambda code: f"{prefix}{word(enum, code)}{suffix}")


def fault_word(code: int) -> str:
    """The name of a fault; a number without a name is told as such."""
    return str(FAULTS[code]) if 0 <= code < len(FAULTS) else f"unknown {code}"


def track_name(slot: int) -> str:
    """What a slot's track is called."""
    return "engine (decodes shared by all slots)" if slot == ENGINE_TRACK else f"slot {slot}"


def category(kind: int) -> str:
    """The category of events made from records of a kind, or from results of probes."""
    return "probe" if kind == PROBE else Kind(kind).name.lower()


def names_of(kind: int, records: Records) -> Naming:
    """Names of the events of K records of one kind."""
    column, words = _NAMES[kind]
    return Naming(records[column].astype(np.int64), words)


_NAMES: dict[int, tuple[str, Words]] = {
    Kind.SPAN: ("code", words_of(Phase)),
    Kind.ROUND: ("round", lambda number: f"round {number}"),
    Kind.TOKEN: ("code", words_of(Origin, suffix=" token")),
    Kind.SAVE: ("kind", lambda _kind: "save"),
    Kind.RESTORE: ("kind", lambda _kind: "restore"),
    Kind.FALLBACK: ("code", words_of(FallbackReason, "fallback: ")),
    Kind.SLOT: ("code", words_of(SlotState)),
    Kind.OPERATION: ("code", words_of(Operation, "operation: ")),
    Kind.ROW: ("kind", lambda _kind: "pending row"),
    PROBE: ("kind", words_of(RestoreKind, "probe: ")),
}
"""By kind the column of the records, and what makes a name of it."""


class ArgumentTable:
    """Makes the arguments of records. ``with_text`` False leaves out token ids and what they stand for."""

    def __init__(self, pieces: PieceTable, *, with_text: bool) -> None:
        self._with_text = with_text
        self._piece: Words = functools.cache(lambda token: pieces.text((token,)))

    def of_slices(self, kind: int, records: Records, end_ns: NDArray[np.int64]) -> list[Argument]:
        """Arguments of slices of one kind and one track; ``end_ns`` (K,): where they end on the track."""
        arguments = self._of(kind, records)
        is_cut = end_ns < records["t_start_ns"] + records["duration_ns"]
        if is_cut.any():
            arguments.append(Argument("recorded_us", records["duration_ns"] / 1e3, None, is_cut))
        return arguments

    def of_moments(self, kind: int, records: Records) -> list[Argument]:
        """Arguments of moments of one kind."""
        arguments = self._of(kind, records)
        return [_number("round", records, "round"), *arguments] if kind == Kind.TOKEN else arguments

    def of_tokens(self, records: Records) -> list[Argument]:
        """Arguments of the tokens within a round."""
        rejected = (records["code"] == Origin.REJECTED) & (records["m"] >= 0)
        arguments = [
            _worded("origin", records, "code", Origin),
            _number("position", records, "position"),
            _number("draft_position", records, "n"),
            _figure("probability", records["value"], np.isfinite(records["value"])),
        ]
        if self._with_text:
            arguments += [
                _number("token", records, "token"),
                Argument("text", records["token"].astype(np.int64), self._piece),
                Argument("chosen", records["m"].astype(np.int64), None, rejected),
                Argument("chosen_text", records["m"].astype(np.int64), self._piece, rejected),
            ]
        return arguments

    def _of(self, kind: int, records: Records) -> list[Argument]:
        match kind:
            case Kind.TOKEN:
                return self.of_tokens(records)
            case Kind.SPAN:
                return _of_spans(records)
            case Kind.ROUND:
                return _of_rounds(records)
            case _ if kind == PROBE:
                return _of_probes(records)
            case Kind.SLOT:
                return [
                    _number("n_tokens", records, "position"),
                    _number("n_generated", records, "m"),
                    _worded("stop_reason", records, "n", StopReason),
                ]
            case _:
                return [_number("round", records, "round"), *_of_events(kind, records)]


def _of_spans(records: Records) -> list[Argument]:
    """Spans of one track: of the engine's shared decodes, or of a slot's share in them."""
    first = _number("round", records, "round")
    if len(records) and records["slot"][0] == ENGINE_TRACK:
        return [
            first,
            _number("n_tokens", records, "n"),
            _number("graph_runs", records, "m"),
            _number("draft_step", records, "position", records["code"] == Phase.DRAFT),
        ]
    is_accept = records["code"] == Phase.ACCEPT
    return [
        first,
        _number("position", records, "position"),
        _number("n_tokens", records, "n", ~is_accept),
        _number("n_replay", records, "m", ~is_accept),
        _number("draft_n", records, "n", is_accept),
        _number("draft_n_accepted", records, "m", is_accept),
    ]


def _of_rounds(records: Records) -> list[Argument]:
    n, m = records["n"].astype(np.float64), records["m"].astype(np.float64)
    has_draft = n > 0
    return [
        _number("round", records, "round"),
        _worded("mechanism", records, "code", Mechanism),
        _number("draft_n", records, "n"),
        _number("draft_n_accepted", records, "m"),
        _number("n_tokens", records, "position"),
        _figure("acceptance", np.divide(m, n, out=np.zeros_like(m), where=has_draft), has_draft),
        _figure("tokens_per_second", records["value"], np.isfinite(records["value"])),
    ]


def _of_events(kind: int, records: Records) -> list[Argument]:
    if kind == Kind.FALLBACK:
        return [
            _number("position", records, "position"),
            _worded("asked", records, "n", Mechanism),
            _worded("used", records, "m", Mechanism),
        ]
    if kind == Kind.ROW:
        return [
            _number("position", records, "position"),
            _number("position_found", records, "n"),
            _number("n_waiting", records, "m"),
            Argument("fault", records["code"].astype(np.int64), fault_word),
        ]
    if kind == Kind.OPERATION:
        return [
            _number("n_tokens", records, "position"),
            _number("n_kept", records, "n"),
            _worded("reuse", records, "m", Reuse),
            _number("size_bytes", records, "size_bytes"),
        ]
    arguments = [
        _worded("mechanism", records, "code", Mechanism),
        _number("position", records, "position"),
        _number("epoch", records, "n"),
        _number("size_bytes", records, "size_bytes"),
    ]
    return [*arguments, _number("n_replay", records, "m")] if kind == Kind.RESTORE else arguments


_PROBE_ARGUMENTS: dict[str, Words | None] = {
    "round": None,
    "level": lambda code: str(LEVELS[code]) if code < len(LEVELS) else f"unknown {code}",
    "mechanism": words_of(Mechanism),
    "fault": fault_word,
    "position": None,
    "row_position": None,
    "restored_position": None,
    "restored_n_differing": None,
    "restored_max_abs": None,
    "without_position": None,
    "without_max_abs": None,
    "companion_n_wrong": None,
    "saved_accepted": None,
    "restored_accepted": None,
    "without_accepted": None,
    "state_status": words_of(StateStatus),
    "n_layers_differing": None,
    "state_max_abs": None,
    "duration_ns": None,
}
"""Columns of a probe's result that its event tells; the tables have all."""


def _of_probes(probes: Probes) -> list[Argument]:
    arguments = []
    for name, words in _PROBE_ARGUMENTS.items():
        values = probes[name]
        if values.dtype.kind == "f":
            arguments.append(_figure(name, values, np.isfinite(values)))
        else:
            arguments.append(Argument(name, values.astype(np.int64), words))
    return arguments


def _number(name: str, records: Records, column: str, present: NDArray[np.bool_] | None = None) -> Argument:
    return Argument(name, records[column].astype(np.int64), None, present)


@functools.cache
def _plain_words(enum: type[IntEnum]) -> Words:
    return words_of(enum)


def _worded(name: str, records: Records, column: str, enum: type[IntEnum]) -> Argument:
    return Argument(name, records[column].astype(np.int64), _plain_words(enum))


def _figure(name: str, values: NDArray[np.float64], present: NDArray[np.bool_]) -> Argument:
    return Argument(name, rounded(np.where(present, values, 0.0)), None, present)


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Finite values with six digits, the nearest float64 to each: its shortest text has no more digits."""
    sizes = np.abs(values)
    place = _DIGITS - 1 - np.floor(np.log10(sizes, out=np.zeros_like(values), where=sizes > 0)).astype(np.int64)
    # Powers of ten up to 22 are exact, so one division gives the nearest number; beyond, noise is all there is.
    up, down = 10.0 ** np.clip(place, 0, 22), 10.0 ** np.clip(-place, 0, 22)
    result: NDArray[np.float64] = np.where(place >= 0, np.round(values * up) / up, np.round(values / down) * down)
    return np.where(np.isfinite(result), result, values)
