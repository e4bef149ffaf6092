"""An index of the intervals of one track by time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from draftscope.trace.growable import GrowableArray


class Track:
    """Which records of one kind and slot lie in a window of time: a binary search, whatever the number of records.

    Holds, ordered by start: ``start`` int64 ns, the greatest end of all intervals up to here int64 ns, and the index of
    the record in its kind's array int64. Records come nearly in order of their start; those that come late are put
    in their place at the cost of the records behind it.
    """

    def __init__(self) -> None:
        self._start = GrowableArray(np.int64)
        self._reach = GrowableArray(np.int64)
        self._index = GrowableArray(np.int64)

    def __len__(self) -> int:
        return len(self._start)

    def frozen(self) -> Track:
        """The intervals that are here now, as a track of its own; copies nothing."""
        other = Track()
        other._start, other._reach, other._index = self._start.frozen(), self._reach.frozen(), self._index.frozen()
        return other

    def append(self, start: NDArray[np.int64], end: NDArray[np.int64], index: NDArray[np.int64]) -> None:
        """Add intervals, arrays of equal shape (K,), K > 0; ``index`` rises from call to call."""
        n_before = len(self._start)
        is_ordered = bool(np.all(start[1:] >= start[:-1])) and (n_before == 0 or start[0] >= self._start.view[-1])
        if is_ordered:
            reach = np.maximum.accumulate(end)
            self._start.append(start)
            self._reach.append(np.maximum(reach, self._reach.view[-1]) if n_before else reach)
            self._index.append(index)
        else:
            self._insert(start, end, index)

    def _insert(self, start: NDArray[np.int64], end: NDArray[np.int64], index: NDArray[np.int64]) -> None:
        first = int(np.searchsorted(self._start.view, start.min(), side="right"))
        all_start = np.concatenate([self._start.view[first:], start])
        # The ends behind ``first`` are known as running maxima only; those are still right as lower bounds of a search.
        all_reach = np.concatenate([self._reach.view[first:], end])
        all_index = np.concatenate([self._index.view[first:], index])
        order = np.argsort(all_start, kind="stable")
        before = self._reach.view[first - 1 : first]
        reach = np.maximum.accumulate(np.concatenate([before, all_reach[order]]))[len(before) :]
        self._start.replace_tail(first, all_start[order])
        self._reach.replace_tail(first, reach)
        self._index.replace_tail(first, all_index[order])

    def candidates(self, t0_ns: int, t1_ns: int) -> NDArray[np.int64]:
        """Indices of records, by start, that hold all which overlap [t0_ns, t1_ns); some may end before it."""
        first = int(np.searchsorted(self._reach.view, t0_ns, side="left"))
        last = int(np.searchsorted(self._start.view, t1_ns, side="left"))
        found: NDArray[np.int64] = self._index.view[first : max(first, last)]
        return found
