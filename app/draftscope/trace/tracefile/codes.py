"""Codes in records and probes, and their words as files and tables write them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum

from draftscope.engine.events import (
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
from draftscope.engine.probes import FAULTS, LEVELS, ArrayKind, RestoreKind, StateStatus

Words = dict[int, str]

_NUMBERED: tuple[type[IntEnum], ...] = (
    Kind,
    Phase,
    Origin,
    Mechanism,
    SlotState,
    StopReason,
    FallbackReason,
    Operation,
    Reuse,
    RestoreKind,
    StateStatus,
    ArrayKind,
)
_LISTED: dict[str, Iterable[Enum]] = {"Fault": FAULTS, "ProbeLevel": LEVELS}

WORDS: dict[str, Words] = {
    **{codes.__name__: {int(code): code.name.lower() for code in codes} for codes in _NUMBERED},
    **{name: {number: str(member.value) for number, member in enumerate(listed)} for name, listed in _LISTED.items()},
}
"""For each name that the meaning of a column may be, number -> word."""


def code_rows() -> list[tuple[str, int, str]]:
    """Rows of the table ``codes``."""
    return [(name, code, word) for name, words in WORDS.items() for code, word in words.items()]
