"""What the scripted engine was told to measure, and to do wrong, by slot."""

from __future__ import annotations

from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.engine.task_checks import MOST_SLOTS


class FakeProbes:
    """Levels and faults of all slots that an engine may have."""

    def __init__(self) -> None:
        self.levels = [ProbeLevel.OFF] * MOST_SLOTS
        self.faults = [Fault.NONE] * MOST_SLOTS
        self.layer = -1

    def set_level(self, level: ProbeLevel, slots: tuple[int, ...]) -> None:
        """Measure at this level in these slots; empty: in all."""
        for slot in slots or range(MOST_SLOTS):
            self.levels[slot] = level

    def end_faults(self) -> None:
        """Do everything right again."""
        self.set_fault(Fault.NONE, (), -1)

    def set_fault(self, fault: Fault, slots: tuple[int, ...], layer: int) -> None:
        """Do this wrong in these slots; empty: in all."""
        self.layer = layer
        for slot in slots or range(MOST_SLOTS):
            self.faults[slot] = fault
