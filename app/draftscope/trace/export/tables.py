"""The records of a trace as tables with a column for each meaning: what CSV and Parquet hold.

Units and meanings come from the column tables of ``engine.events``; names are those of the views in a trace file, and
llama.cpp's where it has one. Token ids, and the texts that they stand for, are left out where text is.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import (
    COLUMNS,
    ENGINE_TRACK,
    KINDS,
    Column,
    FallbackReason,
    Kind,
    Mechanism,
    Operation,
    Origin,
    Phase,
    Reuse,
    SlotState,
    StopReason,
)
from draftscope.engine.probes import FAULTS, LEVELS, PROBE_COLUMNS, RestoreKind, StateStatus
from draftscope.trace.export.arguments import Words
from draftscope.trace.export.layout import PROBE
from draftscope.trace.export.source import Source

CHUNK = 20_000
"""Rows that are made at once."""

Names = Mapping[int, str]
"""Codes and what is written for them."""

INTEGER, NUMBER, TEXT = "int64", "float64", "string"
"""Types of columns."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table.

    Attributes:
        source: column of the records that it is made from.
        names: of its codes; None for numbers.
        is_text: text of a token, or a token id: left out where text is.
    """

    name: str
    source: str
    type: str
    unit: str
    meaning: str
    names: Names | None = None
    is_text: bool = False


class Values(NamedTuple):
    """Values of K rows: int64 or float64 (K,), NaN where there is none; ``words`` makes texts of them."""

    numbers: NDArray[Any]
    words: Words | None


@dataclass(frozen=True, slots=True)
class Table:
    """Records of one kind, or the results of probes; ``is_engine``: of the engine track only, or of slots only."""

    name: str
    kind: int
    columns: tuple[TableColumn, ...]
    is_engine: bool | None = None


_GENERAL = {column.name: column for column in COLUMNS}


def _general() -> tuple[TableColumn, ...]:
    names = ("sequence", "t_start_ns", "duration_ns", "round", "slot")
    return tuple(TableColumn(name, name, INTEGER, _GENERAL[name].unit, _GENERAL[name].meaning) for name in names)


def _table(kind: Kind, name: str, *columns: TableColumn, is_engine: bool | None = None) -> Table:
    """A table with the general columns in front; columns without a meaning of their own take that of their source."""
    meanings = KINDS[kind]
    told = [dataclasses.replace(one, meaning=_meaning(one, getattr(meanings, one.source))) for one in columns]
    return Table(name, kind, (*_general(), *told), is_engine)


def _meaning(column: TableColumn, of_source: str) -> str:
    meaning = column.meaning or of_source
    return meaning if column.names is None else f"{meaning}: {', '.join(column.names.values())}"


def _names(enum: type[IntEnum]) -> Names:
    return {int(code): code.name.lower() for code in enum}


def _integer(name: str, source: str, meaning: str = "", *, is_text: bool = False) -> TableColumn:
    return TableColumn(name, source, INTEGER, _GENERAL[source].unit, meaning, is_text=is_text)


def _number(name: str, source: str, unit: str) -> TableColumn:
    return TableColumn(name, source, NUMBER, unit, "")


def _words(name: str, source: str, enum: type[IntEnum]) -> TableColumn:
    return TableColumn(name, source, TEXT, "", "", _names(enum))


def _piece(name: str, source: str, meaning: str) -> TableColumn:
    return TableColumn(name, source, TEXT, "", meaning, is_text=True)


_FAULTS = dict(enumerate(FAULTS))
_PROBE_NAMES: dict[str, Names] = {
    "level": dict(enumerate(LEVELS)),
    "kind": _names(RestoreKind),
    "mechanism": _names(Mechanism),
    "fault": _FAULTS,
    "state_status": _names(StateStatus),
    "worst_part": {0: "conv", 1: "delta_net"},
}
_PROBE_TOKENS = ("saved_top", "restored_top", "without_top")


def _of_probe(column: Column) -> TableColumn:
    names = _PROBE_NAMES.get(column.name)
    kind = TEXT if names is not None else NUMBER if "f" in column.dtype else INTEGER
    made = TableColumn(column.name, column.name, kind, column.unit, "", names, is_text=column.name in _PROBE_TOKENS)
    return dataclasses.replace(made, meaning=_meaning(made, column.meaning))


_SIZE = _integer("size_bytes", "size_bytes")

TABLES = (
    _table(
        Kind.ROUND,
        "rounds",
        _words("mechanism", "code", Mechanism),
        _integer("n_tokens", "position"),
        _integer("draft_n", "n"),
        _integer("draft_n_accepted", "m"),
        _number("tokens_per_second", "value", "1/s"),
    ),
    _table(
        Kind.SPAN,
        "decodes",
        _words("phase", "code", Phase),
        _integer("draft_step", "position", "draft step from 0 (phase draft), else 0"),
        _integer("n_tokens", "n", "tokens in the batch, of all slots"),
        _integer("graph_runs", "m", "graph runs of the decode"),
        is_engine=True,
    ),
    _table(
        Kind.SPAN,
        "shares",
        _words("phase", "code", Phase),
        _integer("position", "position", "first position that the slot brought"),
        _integer("n_tokens", "n", "tokens in the batch, of this slot"),
        _integer("n_replay_or_accepted", "m", "replayed tokens among n_tokens; of phase accept the accepted ones"),
        is_engine=False,
    ),
    _table(
        Kind.SAVE,
        "checkpoints",
        _words("mechanism", "code", Mechanism),
        _integer("position", "position"),
        _integer("epoch", "n"),
        _SIZE,
    ),
    _table(
        Kind.RESTORE,
        "restores",
        _words("mechanism", "code", Mechanism),
        _integer("position", "position"),
        _integer("epoch", "n"),
        _integer("n_replay", "m"),
        _SIZE,
    ),
    _table(
        Kind.TOKEN,
        "tokens",
        _words("origin", "code", Origin),
        _integer("position", "position"),
        _integer("draft_position", "n"),
        _number("probability", "value", ""),
        _integer("token", "token", is_text=True),
        _piece("text", "token", "text of the token; U+FFFD for what is no UTF-8"),
        _integer("chosen", "m", is_text=True),
        _piece("chosen_text", "m", "text of the token that the target chose in its place; empty without one"),
    ),
    _table(
        Kind.SLOT,
        "slots",
        _words("state", "code", SlotState),
        _integer("n_tokens", "position"),
        _words("stop_reason", "n", StopReason),
        _integer("n_generated", "m"),
    ),
    _table(
        Kind.OPERATION,
        "operations",
        _words("operation", "code", Operation),
        _integer("n_tokens", "position"),
        _integer("n_kept", "n"),
        _words("reuse", "m", Reuse),
        _number("n_common", "value", ""),
        _SIZE,
    ),
    _table(
        Kind.FALLBACK,
        "fallbacks",
        _words("reason", "code", FallbackReason),
        _integer("position", "position"),
        _words("asked", "n", Mechanism),
        _words("used", "m", Mechanism),
    ),
    _table(
        Kind.ROW,
        "rows",
        TableColumn("fault", "code", TEXT, "", "", _FAULTS),
        _integer("position", "position"),
        _integer("position_found", "n"),
        _integer("n_waiting", "m"),
    ),
    Table("probes", PROBE, tuple(_of_probe(column) for column in PROBE_COLUMNS)),
)
"""All tables."""


class TableReader:
    """The rows of one export's tables."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._piece: Words = functools.cache(lambda token: source.pieces.text((token,)) if token >= 0 else "")

    def columns(self, table: Table) -> tuple[TableColumn, ...]:
        """The columns that are written."""
        return tuple(column for column in table.columns if self._source.with_text or not column.is_text)

    def records(self, table: Table) -> NDArray[np.void]:
        """The records or probes that are rows of the table, in order of arrival."""
        records = self._source.records[table.kind]
        if table.is_engine is not None:
            records = records[(records["slot"] == ENGINE_TRACK) == table.is_engine]
        return records

    def chunks(self, table: Table) -> Iterator[tuple[int, list[Values]]]:
        """Number of rows and values of every column, ``CHUNK`` rows at a time."""
        records = self.records(table)
        for first in range(0, len(records), CHUNK):
            part = records[first : first + CHUNK]
            yield len(part), [self._values(column, part) for column in self.columns(table)]

    def _values(self, column: TableColumn, records: NDArray[np.void]) -> Values:
        numbers = records[column.source].astype(np.float64 if column.type == NUMBER else np.int64)
        if column.names is not None:
            names = column.names
            return Values(numbers, lambda code: names.get(code, f"unknown {code}"))
        return Values(numbers, self._piece if column.type == TEXT else None)


def indexed_words(values: Values) -> tuple[list[str], NDArray[np.int64]]:
    """The different texts of values that have words, and which of them each row (K,) has."""
    assert values.words is not None
    found, inverse = np.unique(values.numbers, return_inverse=True)
    return [values.words(number) for number in found.tolist()], inverse
