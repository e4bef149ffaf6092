"""What going back costs: how long saves and restores take, by mechanism and slot, and what the next decodes pay.

One place for these figures: the Checkpoints panel and ``run --json`` both take them from here, so they agree.
``DEFINITIONS`` says what they mean.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import ENGINE_TRACK, Kind, Mechanism, Phase, Records
from draftscope.trace.growable import GrowableArray
from draftscope.trace.store import TraceStore

DEFINITIONS = {
    "save_us": "time from the start of a save until the state is kept, for one slot; median and 99th percentile over "
    "all saves of the run",
    "restore_us": "time from the start of going back until the slot stands at its last accepted token or at what was "
    "saved, for one slot; tokens decoded again afterwards are not in it",
    "after_restore_us": "median time that the target's decodes (verification and replay) take in rounds that follow a "
    "restore of any slot, less that in the other rounds of as many slots (the number of slots with the most rounds to "
    "compare); replayed tokens are in it, below 0 is noise, and with fewer than 5 rounds on either side there is no "
    "figure",
}
"""What the figures mean, for files and tooltips."""

MIN_ROUNDS = 5
"""Fewer rounds that follow a restore, or that follow none, are too few to compare."""

EVENTS = (Kind.SAVE, Kind.RESTORE)


class Timing(NamedTuple):
    """How long so many events took, in microseconds. The 99th percentile is interpolated between neighbours."""

    n: int
    median_us: float
    p99_us: float


def timing_of(durations_us: NDArray[np.float64]) -> Timing | None:
    """Median and 99th percentile of durations in microseconds (N,); None where there are none."""
    if len(durations_us) == 0:
        return None
    median, p99 = np.percentile(durations_us, (50, 99))
    return Timing(len(durations_us), float(median), float(p99))


class Group(NamedTuple):
    """Events of one kind (SAVE or RESTORE), done by one mechanism in one slot."""

    kind: Kind
    mechanism: Mechanism
    slot: int


class AfterRestore(NamedTuple):
    """What the decodes after a restore pay; see ``DEFINITIONS``. Medians of rounds in microseconds."""

    n_after: int
    n_other: int
    after_us: float
    other_us: float

    @property
    def paid_us(self) -> float:
        """The difference."""
        return self.after_us - self.other_us


@dataclass(slots=True)
class EventSeries:
    """Events of one kind in order of time, as columns that grow: (N,) each.

    ``round`` int32; ``duration_us`` float64; ``slot`` int16; ``mechanism`` uint8; ``size_bytes`` int64.
    """

    round: GrowableArray = field(default_factory=lambda: GrowableArray(np.int32))
    duration_us: GrowableArray = field(default_factory=lambda: GrowableArray(np.float64))
    slot: GrowableArray = field(default_factory=lambda: GrowableArray(np.int16))
    mechanism: GrowableArray = field(default_factory=lambda: GrowableArray(np.uint8))
    size_bytes: GrowableArray = field(default_factory=lambda: GrowableArray(np.int64))

    def __len__(self) -> int:
        return len(self.round)

    def append(self, records: Records) -> None:
        """Take SAVE or RESTORE records."""
        self.round.append(records["round"])
        self.duration_us.append(records["duration_ns"] / 1e3)
        self.slot.append(records["slot"])
        self.mechanism.append(records["code"])
        self.size_bytes.append(records["size_bytes"])


class CheckpointTable:
    """Saves and restores of a store, kept up to date at the cost of the new records only."""

    def __init__(self) -> None:
        self._reset(0)

    def _reset(self, generation: int) -> None:
        self._generation = generation
        self._series = {kind: EventSeries() for kind in EVENTS}
        self._by_group: dict[Group, GrowableArray] = {}
        self._rounds = _RoundTimes()
        self._timings: dict[tuple[Kind, Mechanism | None, int | None], tuple[int, Timing | None]] = {}

    def update(self, store: TraceStore) -> None:
        """Take what has come into the store since the last call; starts anew when the store was cleared."""
        if store.generation != self._generation:
            self._reset(store.generation)
        for kind, series in self._series.items():
            new = store.kind(kind)[len(series) :]
            if len(new):
                series.append(new)
                self._group(kind, new)
        self._rounds.update(store)

    def _group(self, kind: Kind, records: Records) -> None:
        keys = records["code"].astype(np.int64) << 16 | records["slot"].astype(np.int64) & 0xFFFF
        for key in np.unique(keys).tolist():
            chosen = records[keys == key]
            group = Group(kind, Mechanism(int(chosen["code"][0])), int(chosen["slot"][0]))
            self._by_group.setdefault(group, GrowableArray(np.float64)).append(chosen["duration_ns"] / 1e3)

    def series(self, kind: Kind) -> EventSeries:
        """All saves (``Kind.SAVE``) or restores (``Kind.RESTORE``), in order of time."""
        return self._series[kind]

    def groups(self) -> tuple[Group, ...]:
        """Kinds, mechanisms and slots that have events: saves first, then by mechanism and slot."""
        return tuple(sorted(self._by_group))

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Mechanisms that saved or restored anything, by their number."""
        return tuple(sorted({group.mechanism for group in self._by_group}))

    def durations_us(
        self, kind: Kind, mechanism: Mechanism | None = None, slot: int | None = None
    ) -> NDArray[np.float64]:
        """Durations in microseconds, float64 (N,), of one mechanism and one slot, or of all; order is not kept."""
        parts = [
            durations.view
            for group, durations in self._by_group.items()
            if group.kind == kind
            and (mechanism is None or group.mechanism == mechanism)
            and (slot is None or group.slot == slot)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def timing(self, kind: Kind, mechanism: Mechanism | None = None, slot: int | None = None) -> Timing | None:
        """Median and 99th percentile of saves or restores; None where there are none.

        Computed when events have come; asking again costs nothing.
        """
        key, n = (kind, mechanism, slot), len(self._series[kind])
        known = self._timings.get(key)
        if known is None or known[0] != n:
            known = self._timings[key] = n, timing_of(self.durations_us(kind, mechanism, slot))
        return known[1]

    def after_restore(self) -> AfterRestore | None:
        """What the following decodes pay, or None where there are too few rounds to tell."""
        return self._rounds.compare()

    def saved_bytes(self) -> dict[int, int]:
        """Size of the state saved last, in bytes, by slot."""
        series = self._series[Kind.SAVE]
        slots, sizes = series.slot.view, series.size_bytes.view
        found, from_end = np.unique(slots[::-1], return_index=True)
        return dict(zip(found.tolist(), sizes[::-1][from_end].tolist(), strict=True))


class _RoundTimes:
    """Time of the target's decodes a round, by number of slots: of rounds that follow a restore, and of the others.

    A turn of one slot is shorter than a round of four, whatever was restored before it.
    """

    def __init__(self) -> None:
        self._sides: dict[int, tuple[GrowableArray, GrowableArray]] = {}
        self._n_slots: Counter[int] = Counter()
        self._n_spans_seen = 0
        self._n_restores_before = 0
        self._open: tuple[int, bool, float] | None = None
        self._compared: tuple[int, AfterRestore | None] = (0, None)

    def update(self, store: TraceStore) -> None:
        """Take new spans. A restore is always on record before the decode that follows it."""
        spans = store.kind(Kind.SPAN)
        new = spans[self._n_spans_seen :]
        self._n_spans_seen = len(spans)
        is_target = (new["code"] == Phase.VERIFY) | (new["code"] == Phase.REPLAY)
        self._n_slots.update(new["round"][(new["slot"] != ENGINE_TRACK) & (new["code"] == Phase.VERIFY)].tolist())
        decodes = new[(new["slot"] == ENGINE_TRACK) & is_target & (new["round"] >= 0)]
        if len(decodes):
            self._take(decodes, np.searchsorted(store.kind(Kind.RESTORE)["t_start_ns"], decodes["t_start_ns"]))

    def _take(self, decodes: Records, n_restores: NDArray[np.int64]) -> None:
        """``n_restores``: how many restores had begun when a decode did."""
        rounds, first, inverse = np.unique(decodes["round"], return_index=True, return_inverse=True)
        total_us = np.bincount(inverse, decodes["duration_ns"] / 1e3).astype(np.float64)
        is_after = np.diff(n_restores[first], prepend=self._n_restores_before) > 0
        if self._open is not None and self._open[0] == rounds[0]:
            # The last round goes on; whether it follows a restore was clear from its first decode.
            total_us[0] += self._open[2]
            is_after[0] = self._open[1]
        elif self._open is not None:
            self._close(np.array([self._open[0]]), np.array([self._open[2]]), np.array([self._open[1]]))
        self._n_restores_before = int(n_restores[first[-1]])
        self._open = int(rounds[-1]), bool(is_after[-1]), float(total_us[-1])
        self._close(rounds[:-1], total_us[:-1], is_after[:-1])

    def _close(self, rounds: NDArray[np.int64], total_us: NDArray[np.float64], is_after: NDArray[np.bool_]) -> None:
        n_slots = np.array([self._n_slots.pop(int(number), 0) for number in rounds], np.int64)
        for n in np.unique(n_slots).tolist():
            after, other = self._sides.setdefault(n, (GrowableArray(np.float64), GrowableArray(np.float64)))
            after.append(total_us[(n_slots == n) & is_after])
            other.append(total_us[(n_slots == n) & ~is_after])

    def compare(self) -> AfterRestore | None:
        """The two medians, of the slot count with the most to compare; the last round, which may go on, is left out.

        Computed when rounds have ended; asking again costs nothing.
        """
        n_rounds = sum(len(after) + len(other) for after, other in self._sides.values())
        if self._compared[0] != n_rounds:
            self._compared = n_rounds, self._compare()
        return self._compared[1]

    def _compare(self) -> AfterRestore | None:
        if not self._sides:
            return None
        after, other = max(self._sides.values(), key=lambda sides: min(len(sides[0]), len(sides[1])))
        if min(len(after), len(other)) < MIN_ROUNDS:
            return None
        return AfterRestore(len(after), len(other), float(np.median(after.view)), float(np.median(other.view)))
