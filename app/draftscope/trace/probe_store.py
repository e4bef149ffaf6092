"""What probes measured, in memory: results without a limit, side arrays within a budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.probes import PROBE_DTYPE, ArrayKind, Probes, SideArray
from draftscope.trace.growable import GrowableArray

ARRAY_BUDGET_BYTES = 256 << 20
"""Memory that side arrays of a run may take."""


class ProbeStore:
    """Results in order of first arrival, and the arrays of each probe. One thread appends; views stay as they are."""

    def __init__(self, budget_bytes: int = ARRAY_BUDGET_BYTES) -> None:
        self._results = GrowableArray(PROBE_DTYPE)
        self._places: dict[int, int] = {}
        self._arrays: dict[tuple[int, ArrayKind], NDArray[Any]] = {}
        self._budget_bytes = budget_bytes
        self._size_bytes = 0
        self.n_not_kept = 0

    def append(self, arrays: list[SideArray]) -> None:
        """Take results and side arrays; arrays that the budget has no room for are counted and dropped."""
        for array in arrays:
            if array.kind is ArrayKind.RESULT:
                self._put(array.t_start_ns, array.values.reshape(-1))
            elif self._size_bytes + array.values.nbytes > self._budget_bytes:
                self.n_not_kept += 1
            else:
                self._size_bytes += array.values.nbytes
                array.values.flags.writeable = False
                self._arrays[array.t_start_ns, array.kind] = array.values

    def _put(self, t_start_ns: int, result: Probes) -> None:
        """A probe that was told before it was complete is told again: the newer result takes the older one's place."""
        place = self._places.setdefault(t_start_ns, len(self._results))
        if place == len(self._results):
            self._results.append(result)
        else:
            self._results.replace_tail(place, np.concatenate([result, self._results.view[place + 1 :]]))

    def frozen(self) -> ProbeStore:
        """What is here now, as a store of its own; copies no array."""
        other = ProbeStore(self._budget_bytes)
        vars(other).update(vars(self))
        other._results, other._places, other._arrays = self._results.frozen(), self._places.copy(), self._arrays.copy()
        return other

    @property
    def results(self) -> Probes:
        """``PROBE_DTYPE`` (P,), read-only view, valid for good."""
        return self._results.view

    def array(self, t_start_ns: int, kind: ArrayKind) -> NDArray[Any] | None:
        """One array, read-only; None when it is not here."""
        return self._arrays.get((t_start_ns, kind))

    def arrays(self) -> list[SideArray]:
        """All arrays, in order of arrival."""
        return [SideArray(t_start_ns, kind, values) for (t_start_ns, kind), values in self._arrays.items()]
