"""What is measured at restores, and what they are made to do wrong to see it caught."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from draftscope.engine.client import Client
from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.engine.protocol import CommandId, Done, Failed, InjectFault, ProbeCommand, SetProbe
from draftscope.session.probe_levels import ProbeLevels


class Probing(ProbeLevels):
    """Tells the engine the levels and the fault when it is there, and again when it is another.

    Levels outlive models and engines. A fault ends when contexts are made anew.
    """

    def __init__(self, client: Client, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._is_there = False
        self._open: dict[CommandId, ProbeCommand] = {}

    # ---- what can be asked for

    def set_level(self, level: ProbeLevel) -> None:
        """Measure at this level in all slots; slots have none of their own any more."""
        if level is not self._level or self._slot_levels:
            self._level = level
            self._slot_levels.clear()
            self._send(lambda id: SetProbe(id, level))
            self.changed.emit()

    def set_slot_level(self, slot: int, level: ProbeLevel) -> None:
        """Measure at this level in one slot."""
        if level is not self.level_of(slot):
            self._slot_levels[slot] = level
            if level is self._level:
                del self._slot_levels[slot]
            self._send(lambda id: SetProbe(id, level, (slot,)))
            self.changed.emit()

    def inject(self, fault: Fault, slot: int | None = None) -> None:
        """Make the restores of a slot (None: of all) do this wrong, and those of no other; NONE: nothing any more."""
        slot = None if fault is Fault.NONE else slot
        if (fault, slot) == (self._fault, self._fault_slot):
            return
        if slot is not None and self._fault is not Fault.NONE:
            self._send(lambda id: InjectFault(id, Fault.NONE))
        self._fault, self._fault_slot = fault, slot
        self._send(lambda id: InjectFault(id, fault, () if slot is None else (slot,)))
        self.changed.emit()

    def _send(self, make: Callable[[CommandId], ProbeCommand]) -> None:
        if self._is_there:
            command = make(self._client.next_id())
            self._open[command.id] = command
            self._client.send(command)

    # ---- what came

    def begin_contexts(self) -> None:
        """The engine has made contexts: it does everything right, and may be another that knows of no level."""
        if not self._is_there:
            self._is_there = True
            if self._level is not ProbeLevel.OFF:
                self._send(lambda id: SetProbe(id, self._level))
            for slot, level in self._slot_levels.items():
                self._send(lambda id, slot=slot, level=level: SetProbe(id, level, (slot,)))  # type: ignore[misc]
        self._end_fault()

    def forget(self) -> None:
        """The engine has ended."""
        self._is_there = False
        self._open.clear()
        self._end_fault()

    def take(self, answer: Done | Failed) -> bool:
        """The answer to a command of this object; False: it is to another."""
        command = self._open.pop(answer.command, None)
        if command is None:
            return False
        if isinstance(answer, Failed):
            if isinstance(command, SetProbe):
                self._level = ProbeLevel.OFF
                self._slot_levels.clear()
                self.changed.emit()
            else:
                self._end_fault()
            self.failed.emit(answer.error)
        return True

    def _end_fault(self) -> None:
        if self._fault is not Fault.NONE:
            self._fault, self._fault_slot = Fault.NONE, None
            self.changed.emit()
