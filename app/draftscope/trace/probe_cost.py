"""What probes cost: their share of the time in which slots were at work."""

from __future__ import annotations

import math

import numpy as np

from draftscope.engine.events import ENGINE_TRACK, Kind, Phase, SlotState
from draftscope.engine.probes import LEVELS, ProbeLevel
from draftscope.trace.store import TraceStore

DEFINITION = "Time of all probes divided by the time in which any slot had a task, by the engine's own clock."

_ACTIVE = (SlotState.PROMPT, SlotState.GENERATING)


class ProbeCost:
    """Sums over the records of a store, brought up to date at the cost of the new ones.

    Attributes:
        probed_ns: time of all probes.
    """

    def __init__(self) -> None:
        self._reset(0)

    def _reset(self, generation: int) -> None:
        self._generation = generation
        self._n_spans_seen = self._n_states_seen = 0
        self._active: set[int] = set()
        self._since_ns = self._busy_ns = self._now_ns = 0
        self._by_track = {True: 0, False: 0}
        self._n_rows_seen = self._rows_ns = self._hidden_ns = 0

    def update(self, store: TraceStore) -> None:
        """Take what has come into the store since the last call; starts anew when the store was cleared."""
        if store.generation != self._generation:
            self._reset(store.generation)
        spans = store.kind(Kind.SPAN)
        new, self._n_spans_seen = spans[self._n_spans_seen :], len(spans)
        new = new[new["code"] == Phase.PROBE]
        for is_engine in (True, False):
            self._by_track[is_engine] += int(new["duration_ns"][(new["slot"] == ENGINE_TRACK) == is_engine].sum())
        rows = store.kind(Kind.ROW)
        self._rows_ns += int(rows["duration_ns"][self._n_rows_seen :].sum())
        self._n_rows_seen = len(rows)
        probes = store.probes  # drafts and states have spans, comparing rows has none
        self._hidden_ns = int(probes["duration_ns"][probes["level"] == LEVELS.index(ProbeLevel.HIDDEN)].sum())
        self._follow_slots(store)
        limits = store.time_range()
        self._now_ns = limits[1] if limits is not None else 0

    def _follow_slots(self, store: TraceStore) -> None:
        states = store.kind(Kind.SLOT)
        new, self._n_states_seen = states[self._n_states_seen :], len(states)
        for record in new[np.argsort(new["t_start_ns"], kind="stable")]:
            slot, t_ns, was_active = int(record["slot"]), int(record["t_start_ns"]), bool(self._active)
            if record["code"] in _ACTIVE:
                self._active.add(slot)
            else:
                self._active.discard(slot)
            if not was_active and self._active:
                self._since_ns = t_ns
            elif was_active and not self._active:
                self._busy_ns += t_ns - self._since_ns

    @property
    def probed_ns(self) -> int:
        """See the class. Spans of the shared track and of slots are of different decodes."""
        return self._by_track[True] + self._by_track[False] + self._rows_ns + self._hidden_ns

    @property
    def busy_ns(self) -> int:
        """Time in which any slot had a task."""
        open_ns = max(self._now_ns - self._since_ns, 0) if self._active else 0
        return self._busy_ns + open_ns

    @property
    def share(self) -> float:
        """``DEFINITION``; NaN before any slot was at work."""
        return self.probed_ns / self.busy_ns if self.busy_ns > 0 else math.nan
