"""What the slots of a run hold, as its records tell."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QObject, Signal

from draftscope.engine.events import Kind, Operation, Records, Reuse

_TELLS_TOKENS = (
    Operation.SUBMIT,
    Operation.CANCEL,
    Operation.RELEASE,
    Operation.CLEAR,
    Operation.SHIFT,
    Operation.REWIND,
    Operation.FORK,
    Operation.SLOT_RESTORE,
)
"""Operations whose position says how many tokens the slot holds; of the others it is a checkpoint's."""


class HeldSlot(NamedTuple):
    """What a slot holds. ``origin``: where from, when that was no run, such as ``restored from kept.slot``.

    ``n_prompt``, ``n_reused``, ``reuse``: of the last prompt, how much of it was there already, and why (``Reuse``).
    """

    n_tokens: int = 0
    origin: str = ""
    n_prompt: int = 0
    n_reused: int = 0
    reuse: str = ""


class HeldSlots(QObject):
    """Follows the records."""

    changed = Signal()
    """What some slot holds, or ``is_changing``, has changed."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._held: dict[int, HeldSlot] = {}

    @property
    def held(self) -> Mapping[int, HeldSlot]:
        """What is known of slots that were used since the contexts were made."""
        return MappingProxyType(self._held)

    def n_tokens(self, slot: int) -> int:
        """Tokens that a slot holds."""
        return self._held.get(slot, HeldSlot()).n_tokens

    @property
    def is_changing(self) -> bool:
        """Whether a command on a slot is being carried out."""
        return False

    def follow(self, records: Records) -> None:
        """Take from records of any time what slots hold."""
        operations = records[(records["kind"] == Kind.OPERATION) & np.isin(records["code"], _TELLS_TOKENS)]
        for record in operations:
            slot, position = int(record["slot"]), int(record["position"])
            before = self._held.get(slot, HeldSlot())
            if record["code"] == Operation.SUBMIT:
                self._held[slot] = HeldSlot(position, "", position, int(record["n"]), _reuse(int(record["m"])))
            else:
                self._held[slot] = before._replace(n_tokens=position)
        if len(operations):
            self.changed.emit()


def _reuse(code: int) -> str:
    return Reuse(code).name.lower() if code in {int(reuse) for reuse in Reuse} else ""
