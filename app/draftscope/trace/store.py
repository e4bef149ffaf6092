"""All records of a run in memory, by kind, with what is needed to find them again.

Records are kept once, in one growable array a kind; the order of arrival is kept beside them as a running number.
One thread appends; views that were handed out stay as they are, so others may go on reading them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import ENGINE_TRACK, RECORD_DTYPE, Kind, Records, empty_records
from draftscope.engine.probes import ArrayKind, Probes, SideArray
from draftscope.trace.growable import GrowableArray
from draftscope.trace.probe_store import ProbeStore
from draftscope.trace.track import Track

_INDEXED = (Kind.SPAN, Kind.ROUND, Kind.OPERATION)


@dataclass(slots=True)
class _Column:
    """The records of one kind, their numbers in order of arrival, and whether their rounds never fall."""

    records: GrowableArray = field(default_factory=lambda: GrowableArray(RECORD_DTYPE))
    arrival: GrowableArray = field(default_factory=lambda: GrowableArray(np.int64))
    round_reach: GrowableArray = field(default_factory=lambda: GrowableArray(np.int32))
    is_round_ordered: bool = True

    def frozen(self) -> _Column:
        """What is here now; copies nothing."""
        return _Column(self.records.frozen(), self.arrival.frozen(), self.round_reach.frozen(), self.is_round_ordered)


class TraceStore:
    """Keeps every record of a run.

    Attributes:
        generation: number of ``clear`` calls; readers that follow the store by counts start anew when it changes.
        n_missing: records that are missing between two that came, by their sequence numbers. Records lost before the
            first one cannot be seen; a sequence that starts again (a new engine) is no gap.
        n_unknown: records of a kind that this version does not know; they are not kept.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._reset()

    def _reset(self) -> None:
        self._columns = {kind: _Column() for kind in Kind}
        self._tracks: dict[tuple[Kind, int], Track] = {}
        self._slots: set[int] = set()
        self._range: tuple[int, int] | None = None
        self._last_sequence: int | None = None
        self._n_arrived = 0
        self._probes = ProbeStore()
        self.n_missing = 0
        self.n_unknown = 0

    @property
    def n_records(self) -> int:
        """Records kept, of all kinds."""
        return sum(len(column.records) for column in self._columns.values())

    def append(self, records: Records) -> None:
        """Take a copy of the records, in order of arrival; amortised O(1) a record.

        Args:
            records: ``RECORD_DTYPE`` (K,), borrowed during the call.
        Raises:
            ValueError: another dtype or more than one axis.
        """
        if records.dtype != RECORD_DTYPE or records.ndim != 1:
            raise ValueError(f"Expected a row of trace records, got {records.ndim} axes of {records.dtype}.")
        if len(records) == 0:
            return
        self._count_gaps(records["sequence"])
        arrival = np.arange(self._n_arrived, self._n_arrived + len(records))
        self._n_arrived += len(records)
        kinds = records["kind"]
        for value in np.flatnonzero(np.bincount(kinds)).tolist():
            chosen = kinds == value
            if value in self._columns:
                self._append_kind(Kind(value), records[chosen], arrival[chosen])
            else:
                self.n_unknown += int(np.count_nonzero(chosen))

    def append_arrays(self, arrays: list[SideArray]) -> None:
        """Take what probes measured: their results, and side arrays as far as the budget reaches."""
        self._probes.append(arrays)

    @property
    def probes(self) -> Probes:
        """What was measured of restores: ``PROBE_DTYPE`` (P,) in order of arrival, read-only view, valid for good."""
        return self._probes.results

    def array(self, t_start_ns: int, kind: ArrayKind) -> NDArray[Any] | None:
        """A side array of a probe, read-only; None where it was not measured or not kept."""
        return self._probes.array(t_start_ns, kind)

    def arrays(self) -> list[SideArray]:
        """All side arrays that were kept, by probe; the results are not among them."""
        return self._probes.arrays()

    @property
    def n_arrays_not_kept(self) -> int:
        """Side arrays for which the budget had no room."""
        return self._probes.n_not_kept

    def _count_gaps(self, sequence: NDArray[np.uint64]) -> None:
        numbers = sequence.astype(np.int64)
        if self._last_sequence is not None:
            numbers = np.concatenate([[self._last_sequence], numbers])
        steps = np.diff(numbers)
        self.n_missing += int(np.sum(steps[steps > 1] - 1))
        self._last_sequence = int(numbers[-1])

    def _append_kind(self, kind: Kind, records: Records, arrival: NDArray[np.int64]) -> None:
        column = self._columns[kind]
        first = len(column.records)
        column.records.append(records)
        column.arrival.append(arrival)
        self._note_rounds(column, records["round"])
        start = records["t_start_ns"].astype(np.int64)
        end = start + np.maximum(records["duration_ns"], 0)
        low, high = int(start.min()), int(end.max())
        self._range = (low, high) if self._range is None else (min(low, self._range[0]), max(high, self._range[1]))
        index = np.arange(first, first + len(records))
        for slot in np.unique(records["slot"]).tolist():
            self._slots.add(slot)
            if kind in _INDEXED:
                chosen = records["slot"] == slot
                self._track(kind, slot).append(start[chosen], end[chosen], index[chosen])

    def _track(self, kind: Kind, slot: int) -> Track:
        if (kind, slot) not in self._tracks:
            self._tracks[kind, slot] = Track()
        return self._tracks[kind, slot]

    def _note_rounds(self, column: _Column, rounds: NDArray[np.int32]) -> None:
        first = int(column.round_reach.view[-1]) if len(column.round_reach) else -1
        reach = np.maximum.accumulate(np.concatenate([[first], rounds]))[1:]
        column.is_round_ordered &= not bool(np.any((rounds >= 0) & (rounds < reach)))
        column.round_reach.append(reach)

    def kind(self, kind: Kind) -> Records:
        """All records of a kind in order of arrival: (N,), read-only view, valid for good."""
        return self._columns[kind].records.view

    def slots(self) -> tuple[int, ...]:
        """Slots that have records, rising; the engine track is none."""
        return tuple(sorted(self._slots - {ENGINE_TRACK}))

    def time_range(self) -> tuple[int, int] | None:
        """First start and last end in ns; None while there are no records."""
        return self._range

    def spans_in(self, slot: int, t0_ns: int, t1_ns: int) -> Records:
        """The SPAN records of a slot that overlap [t0_ns, t1_ns), by start; ``ENGINE_TRACK`` has the shared decodes."""
        return self._in_window(Kind.SPAN, slot, t0_ns, t1_ns)

    def rounds_in(self, slot: int, t0_ns: int, t1_ns: int) -> Records:
        """The ROUND records of a slot that overlap [t0_ns, t1_ns), by start."""
        return self._in_window(Kind.ROUND, slot, t0_ns, t1_ns)

    def operations_in(self, slot: int, t0_ns: int, t1_ns: int) -> Records:
        """The OPERATION records of a slot that overlap [t0_ns, t1_ns), by start."""
        return self._in_window(Kind.OPERATION, slot, t0_ns, t1_ns)

    def _in_window(self, kind: Kind, slot: int, t0_ns: int, t1_ns: int) -> Records:
        track = self._tracks.get((kind, slot))
        if track is None:
            return empty_records()
        found: Records = self.kind(kind)[track.candidates(t0_ns, t1_ns)]
        start = found["t_start_ns"]
        overlaps = (start >= t0_ns) | (start + found["duration_ns"] > t0_ns)
        return found if overlaps.all() else found[overlaps]

    def round_records(self, round: int) -> Records:
        """Every record of a round, of all kinds and slots, in order of arrival; a copy. -1: those outside any round."""
        found = [self._of_round(column, round) for column in self._columns.values()]
        records = np.concatenate([records for records, _ in found])
        order = np.argsort(np.concatenate([arrival for _, arrival in found]))
        return records[order]

    def _of_round(self, column: _Column, round: int) -> tuple[Records, NDArray[np.int64]]:
        part = slice(None)
        if column.is_round_ordered and round >= 0:
            reach = column.round_reach.view
            part = slice(int(np.searchsorted(reach, round, "left")), int(np.searchsorted(reach, round, "right")))
        records, arrival = column.records.view[part], column.arrival.view[part]
        chosen = records["round"] == round
        return records[chosen], arrival[chosen]

    def in_order(self) -> Records:
        """Every record in order of arrival; a copy, costs O(N log N)."""
        order = np.argsort(np.concatenate([column.arrival.view for column in self._columns.values()]))
        return np.concatenate([column.records.view for column in self._columns.values()])[order]

    def hand_over(self) -> TraceStore:
        """Everything kept so far, as a store of its own; this one is empty then, as after ``clear``. Copies nothing."""
        store = TraceStore()
        store.take_over(self)
        return store

    def take_over(self, other: TraceStore) -> None:
        """Keep what another store keeps, instead of what this one kept; the other is empty then. Copies nothing."""
        generation = self.generation + 1
        vars(self).update(vars(other))
        self.generation = generation
        other.clear()

    def frozen(self) -> TraceStore:
        """Everything kept so far, as a store that stays as it is while this one grows; copies nothing."""
        store = TraceStore()
        vars(store).update(vars(self))
        store._columns = {kind: column.frozen() for kind, column in self._columns.items()}
        store._tracks = {key: track.frozen() for key, track in self._tracks.items()}
        store._slots = set(self._slots)
        store._probes = self._probes.frozen()
        return store

    def clear(self) -> None:
        """Forget everything; views that were handed out stay as they are."""
        self._reset()
        self.generation += 1
