"""Numbers the rounds of a run of several tasks on, which the engine counts from 0 whenever all its slots were free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind, Records, SlotState
from draftscope.engine.probes import Probes

_ACTIVE = (SlotState.PROMPT, SlotState.GENERATING)


class RoundNumbers:
    """Follows the records of one engine in order."""

    def __init__(self) -> None:
        self._active: set[int] = set()
        self._next = 0
        self._offset: int | None = 0

    def continue_in(self, records: Records) -> None:
        """Change the round of each record, in place, so that no two rounds share a number; -1 stays."""
        start = 0
        for index in np.flatnonzero(records["kind"] == Kind.SLOT).tolist():
            was_at_rest = not self._active
            slot = int(records["slot"][index])
            if records["code"][index] in _ACTIVE:
                self._active.add(slot)
            else:
                self._active.discard(slot)
            if was_at_rest and self._active:
                self._shift(records["round"][start:index])
                start, self._offset = index, None
        self._shift(records["round"][start:])

    def continue_in_probes(self, probes: Probes) -> None:
        """The same for what probes measured of restores in the rounds that came last."""
        inside = probes["round"] >= 0
        probes["round"][inside] += self._offset or 0

    def _shift(self, rounds: NDArray[np.int32]) -> None:
        inside = rounds >= 0
        if not inside.any():
            return
        if self._offset is None:
            self._offset = self._next - int(rounds[inside][0])
        rounds[inside] += self._offset
        self._next = max(self._next, int(rounds.max()) + 1)
