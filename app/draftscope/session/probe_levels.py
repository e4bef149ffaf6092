"""What is measured at the restores of a run, and what they were made to do wrong, as views read it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from PySide6.QtCore import QObject, Signal

from draftscope.engine.probes import Fault, ProbeLevel


class ProbeLevels(QObject):
    """The levels of all slots and one fault. Of a run from a file none can be changed: views show again what is so."""

    changed = Signal()
    """A level or the fault is another."""
    failed = Signal(object)
    """The engine refused one: carries the ``ErrorReport``. Nothing is measured, or nothing done wrong, then."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._level = ProbeLevel.OFF
        self._slot_levels: dict[int, ProbeLevel] = {}
        self._fault = Fault.NONE
        self._fault_slot: int | None = None

    @property
    def level(self) -> ProbeLevel:
        """What is measured in slots that have no level of their own."""
        return self._level

    @property
    def slot_levels(self) -> Mapping[int, ProbeLevel]:
        """Levels of slots that have one of their own."""
        return MappingProxyType(self._slot_levels)

    def level_of(self, slot: int) -> ProbeLevel:
        """What is measured in a slot."""
        return self._slot_levels.get(slot, self._level)

    @property
    def is_on(self) -> bool:
        """Whether anything is measured in any slot."""
        return any(level is not ProbeLevel.OFF for level in (self._level, *self._slot_levels.values()))

    @property
    def fault(self) -> Fault:
        """What restores are made to do wrong."""
        return self._fault

    @property
    def fault_slot(self) -> int | None:
        """The slot whose restores do; None: those of all."""
        return self._fault_slot

    @property
    def fault_level(self) -> ProbeLevel:
        """What is measured where the fault is."""
        return self._level if self._fault_slot is None else self.level_of(self._fault_slot)

    def fault_of(self, slot: int) -> Fault:
        """What the restores of a slot are made to do wrong."""
        return self._fault if self._fault_slot in (None, slot) else Fault.NONE

    def set_level(self, level: ProbeLevel) -> None:
        """Measure at this level in all slots."""
        self.changed.emit()

    def inject(self, fault: Fault, slot: int | None = None) -> None:
        """Make the restores of a slot (None: of all) do this wrong."""
        self.changed.emit()
