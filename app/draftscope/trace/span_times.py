"""How much time a lane spends in each phase, over any windows of time: as cheap for a million spans as for a few.

A plot of the whole run needs the time of every phase in each of its pixels. Going through all spans for that costs
50 ms for 770,000 of them; here it is a binary search a pixel, in sums that grow with the spans.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind, Phase, Records
from draftscope.trace.growable import GrowableArray
from draftscope.trace.store import TraceStore

N_PHASES = len(Phase)


class _Moments:
    """Times in order, int64 ns, and their running sum; sums wrap around, as do differences of them, which are right."""

    def __init__(self) -> None:
        self._times = GrowableArray(np.int64)
        self._sums = GrowableArray(np.int64)

    def __len__(self) -> int:
        return len(self._times)

    def append(self, times: NDArray[np.int64]) -> None:
        """Add times (K,), K > 0, in any order; those that come late cost as much as what is behind them."""
        times = np.sort(times)
        first = int(np.searchsorted(self._times.view, times[0], side="right"))
        if first < len(self):
            times = np.sort(np.concatenate([self._times.view[first:], times]))
        before = self._sums.view[first - 1] if first else np.int64(0)
        sums = before + np.cumsum(times)
        if first < len(self):
            self._times.replace_tail(first, times)
            self._sums.replace_tail(first, sums)
        else:
            self._times.append(times)
            self._sums.append(sums)

    def count_before(self, t_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many times lie before each of these: int64, in the shape of ``t_ns``."""
        counts: NDArray[np.int64] = np.searchsorted(self._times.view, t_ns, side="left")
        return counts

    def elapsed(self, t_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of the time since each moment before ``t_ns``, for each of these."""
        counts = self.count_before(t_ns)
        sums = np.where(counts > 0, self._sums.view[np.maximum(counts - 1, 0)], 0)
        elapsed: NDArray[np.int64] = counts * t_ns - sums
        return elapsed


class LaneTimes:
    """The spans of one lane."""

    def __init__(self) -> None:
        self._starts: dict[int, _Moments] = {}
        self._ends: dict[int, _Moments] = {}

    def append(self, spans: Records) -> None:
        """Take spans of this lane, at least one."""
        starts = spans["t_start_ns"].astype(np.int64)
        ends = starts + np.maximum(spans["duration_ns"], 0)
        for phase in np.unique(spans["code"]).tolist():
            chosen = spans["code"] == phase
            self._starts.setdefault(phase, _Moments()).append(starts[chosen])
            self._ends.setdefault(phase, _Moments()).append(ends[chosen])

    def n_in(self, t0_ns: int, t1_ns: int) -> int:
        """Spans that overlap [t0_ns, t1_ns)."""
        first, last = np.array([t0_ns]), np.array([t1_ns])
        begun = sum(int(moments.count_before(last)[0]) for moments in self._starts.values())
        return begun - sum(int(moments.count_before(first)[0]) for moments in self._ends.values())

    def between(self, edges_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Time in each phase between neighbouring edges.

        Args:
            edges_ns: int64 (n + 1,), rising.
        Returns:
            ns float64 (N_PHASES, n); spans that overlap count both.
        """
        found = np.zeros((N_PHASES, len(edges_ns) - 1))
        for phase in (phase for phase in self._starts if phase < N_PHASES):
            spent = self._starts[phase].elapsed(edges_ns) - self._ends[phase].elapsed(edges_ns)
            found[phase] = np.diff(spent)
        return found


class SpanTimes:
    """The lanes of a store, kept up to date at the cost of the new spans only."""

    def __init__(self) -> None:
        self._reset(0)

    def _reset(self, generation: int) -> None:
        self._generation = generation
        self._lanes: dict[int, LaneTimes] = {}
        self._n_seen = 0

    def update(self, store: TraceStore) -> None:
        """Take the spans that came since the last call; starts anew when the store was cleared."""
        if store.generation != self._generation:
            self._reset(store.generation)
        spans = store.kind(Kind.SPAN)
        new = spans[self._n_seen :]
        self._n_seen = len(spans)
        for slot in np.unique(new["slot"]).tolist():
            self.lane(slot).append(new[new["slot"] == slot])

    def lane(self, slot: int) -> LaneTimes:
        """The lane of a slot, or of the engine track; empty when it has no spans."""
        return self._lanes.setdefault(slot, LaneTimes())
