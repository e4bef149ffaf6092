"""At which levels the restores of a run from a file were probed."""

from __future__ import annotations

from PySide6.QtCore import QObject

from draftscope.engine.probes import LEVELS, ProbeLevel
from draftscope.session.probe_levels import ProbeLevels
from draftscope.trace.store import TraceStore


class SavedProbing(ProbeLevels):
    """The highest level that is on record, of each slot and of all."""

    def __init__(self, store: TraceStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._n_seen = 0
        self.follow(store)

    def follow(self, store: TraceStore) -> None:
        """Take the probes that have come since the last call."""
        new = store.probes[self._n_seen :]
        self._n_seen += len(new)
        for slot, level in zip(new["slot"].tolist(), new["level"].tolist(), strict=True):
            self._slot_levels[slot] = _higher(self._slot_levels.get(slot, ProbeLevel.OFF), LEVELS[level])
        if len(new):
            self._level = LEVELS[max(map(LEVELS.index, self._slot_levels.values()))]
            self.changed.emit()


def _higher(one: ProbeLevel, other: ProbeLevel) -> ProbeLevel:
    return max(one, other, key=LEVELS.index)
