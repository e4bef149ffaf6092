"""The restores of a run: every time that a state was put back, with what a probe found there.

``RESTORE`` records tell of rejected drafts; operations that put a state back tell of prompts, the prompt cache, slot
files, forks and rewinds. A probe belongs to the last restore of its slot and of its sort (after a rejection, or not)
that had begun when the probe did, if both name the same position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind, Mechanism, Operation, Records
from draftscope.engine.probes import Probes, RestoreKind
from draftscope.trace.growable import GrowableArray
from draftscope.trace.restore_verdict import Verdict, verdict_words, verdicts_of
from draftscope.trace.store import TraceStore

KIND_OF_OPERATION = {
    Operation.PROMPT_RESTORE: RestoreKind.PROMPT,
    Operation.CACHE_TAKE: RestoreKind.CACHE,
    Operation.SLOT_RESTORE: RestoreKind.SLOT,
    Operation.FORK: RestoreKind.FORK,
    Operation.REWIND: RestoreKind.REWIND,
}
"""Operations that put a state back."""

KIND_WORDS = {
    RestoreKind.REJECTION: "rejected draft",
    RestoreKind.PROMPT: "edited prompt",
    RestoreKind.CACHE: "prompt cache",
    RestoreKind.SLOT: "slot file",
    RestoreKind.FORK: "fork",
    RestoreKind.REWIND: "rewind",
}
"""What a restore was for, in the words of tables."""

RESTORE_DTYPE = np.dtype(
    [
        ("t_start_ns", "<i8"),
        ("duration_ns", "<i8"),
        ("size_bytes", "<i8"),
        ("round", "<i4"),
        ("position", "<i4"),
        ("n_replay", "<i4"),
        ("probe", "<i4"),
        ("slot", "<i2"),
        ("kind", "<u1"),
        ("mechanism", "<u1"),
        ("verdict", "<u1"),
    ]
)
"""One restore. ``position``: positions that the target held after it; ``probe``: place in ``TraceStore.probes``, or -1.

``n_replay``: tokens of the slot to decode again; ``kind`` ``RestoreKind``, ``mechanism`` ``Mechanism`` (NONE: a state
was put back as a whole), ``verdict`` ``Verdict``.
"""

Restores = NDArray[np.void]
"""A one-dimensional array of ``RESTORE_DTYPE``."""


class RestoreTable:
    """The restores of a store, brought up to date at the cost of what is new.

    Attributes:
        n_unmatched: probes whose restore is not on record, because records were lost.
    """

    def __init__(self) -> None:
        self._reset(0)

    def _reset(self, generation: int) -> None:
        self._generation = generation
        self._rows = np.zeros(256, RESTORE_DTYPE)
        self._n = 0
        self._n_seen = {Kind.RESTORE: 0, Kind.OPERATION: 0}
        self._n_probes_seen = 0
        self._waiting = np.zeros(0, np.int64)
        self._places: dict[tuple[int, bool], GrowableArray] = {}
        self._probes: Probes | None = None
        self.n_unmatched = 0

    def __len__(self) -> int:
        return self._n

    @property
    def rows(self) -> Restores:
        """All restores in order of time: (N,), borrowed until the next ``update``, which may add probes to them."""
        return self._rows[: self._n]

    def probe(self, row: int) -> Any | None:
        """What was measured at a restore: a row of ``PROBE_DTYPE``; None where nothing was."""
        place = int(self._rows[row]["probe"])
        return None if place < 0 or self._probes is None else self._probes[place]

    def words(self, row: int) -> str:
        """The verdict on a restore in words."""
        return verdict_words(self.probe(row))

    def slots(self) -> tuple[int, ...]:
        """Slots that have restores, rising."""
        return tuple(sorted({slot for slot, _ in self._places}))

    def kinds(self) -> tuple[RestoreKind, ...]:
        """What there were restores for."""
        return tuple(RestoreKind(kind) for kind in np.flatnonzero(np.bincount(self.rows["kind"])).tolist())

    def n_by_verdict(self) -> dict[Verdict, int]:
        """How many restores have each verdict; those that none has are left out."""
        counts = np.bincount(self.rows["verdict"], minlength=len(Verdict)).tolist()
        return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}

    def select(
        self, slot: int | None = None, kind: RestoreKind | None = None, *, only_differing: bool = False
    ) -> NDArray[np.int64]:
        """Places in ``rows`` of the restores of a slot and a kind; ``only_differing``: where a probe found one."""
        rows = self.rows
        chosen = np.ones(len(rows), bool)
        if slot is not None:
            chosen &= rows["slot"] == slot
        if kind is not None:
            chosen &= rows["kind"] == kind
        if only_differing:
            chosen &= rows["verdict"] >= Verdict.ROW_ZERO
        return np.flatnonzero(chosen)

    def update(self, store: TraceStore) -> bool:
        """Take what has come into the store since the last call; starts anew when the store was cleared.

        Returns:
            Whether anything changed.
        """
        if store.generation != self._generation:
            self._reset(store.generation)
        self._probes = store.probes
        n_new = self._take_records(store)
        return self._take_probes(store) or n_new > 0

    # ---- records

    def _take_records(self, store: TraceStore) -> int:
        parts = [self._new_rows(store, Kind.RESTORE), self._new_rows(store, Kind.OPERATION)]
        new = np.concatenate(parts)
        new = new[np.argsort(new["t_start_ns"], kind="stable")]
        if len(new) and np.any(new["kind"] == RestoreKind.REWIND):
            new = self._without_late_rewinds(_folded(new))
        self._append(new)
        return len(new)

    def _without_late_rewinds(self, new: Restores) -> Restores:
        """A rewind whose restore of a prompt checkpoint was taken by the last call already is that restore."""
        is_late = np.zeros(len(new), bool)
        for index in np.flatnonzero(new["kind"] == RestoreKind.REWIND).tolist():
            places = self._places.get((int(new["slot"][index]), False))
            last = self._rows[int(places.view[-1]) :][:1] if places is not None else new[:0]
            if _is_part_of(last, new[index]).any():
                last["kind"], is_late[index] = RestoreKind.REWIND, True
        return new[~is_late]

    def _new_rows(self, store: TraceStore, kind: Kind) -> Restores:
        records = store.kind(kind)
        new, self._n_seen[kind] = records[self._n_seen[kind] :], len(records)
        return _of_rejections(new) if kind is Kind.RESTORE else _of_operations(new)

    def _append(self, new: Restores) -> None:
        n = self._n + len(new)
        if n > len(self._rows):
            grown = np.zeros(max(n, 2 * len(self._rows)), RESTORE_DTYPE)
            grown[: self._n] = self.rows
            self._rows = grown
        self._rows[self._n : n] = new
        places, is_rejection = np.arange(self._n, n), new["kind"] == RestoreKind.REJECTION
        for slot in np.unique(new["slot"]).tolist():
            for sort in (True, False):
                chosen = (new["slot"] == slot) & (is_rejection == sort)
                if chosen.any():
                    self._places.setdefault((slot, sort), GrowableArray(np.int64)).append(places[chosen])
        self._n = n

    # ---- probes

    def _take_probes(self, store: TraceStore) -> bool:
        """Join what can be: a probe may be here before the record of its restore, which then is on its way."""
        probes = store.probes
        waiting = np.concatenate([self._waiting, np.arange(self._n_probes_seen, len(probes))])
        self._n_probes_seen = len(probes)
        limits = store.time_range()
        if not len(waiting) or limits is None:
            self._waiting = waiting
            return False
        is_ready = probes["t_start_ns"][waiting] <= limits[1]
        self._waiting, ready = waiting[~is_ready], waiting[is_ready]
        is_rejection = probes["kind"][ready] == RestoreKind.REJECTION
        for slot in np.unique(probes["slot"][ready]).tolist():
            for sort in (True, False):
                chosen = ready[(probes["slot"][ready] == slot) & (is_rejection == sort)]
                if len(chosen):
                    self._join(probes, chosen, self._places.get((slot, sort)))
        return bool(len(ready))

    def _join(self, probes: Probes, chosen: NDArray[np.int64], places: GrowableArray | None) -> None:
        if places is None:
            self.n_unmatched += len(chosen)
            return
        starts = self._rows["t_start_ns"][places.view]
        before = np.searchsorted(starts, probes["t_start_ns"][chosen], "right") - 1
        rows = places.view[np.maximum(before, 0)]
        is_same = (before >= 0) & (self._rows["position"][rows] == probes["position"][chosen])
        self.n_unmatched += int(np.count_nonzero(~is_same))
        rows, chosen = rows[is_same], chosen[is_same]
        self._rows["probe"][rows] = chosen
        self._rows["verdict"][rows] = verdicts_of(probes[chosen])


def _blank(records: Records) -> Restores:
    rows = np.zeros(len(records), RESTORE_DTYPE)
    for name in ("t_start_ns", "duration_ns", "size_bytes", "round", "slot"):
        rows[name] = records[name]
    rows["probe"] = -1
    return rows


def _of_rejections(records: Records) -> Restores:
    rows = _blank(records)
    rows["kind"], rows["mechanism"] = RestoreKind.REJECTION, records["code"]
    rows["position"], rows["n_replay"] = records["position"], records["m"]
    return rows


def _of_operations(records: Records) -> Restores:
    records = records[np.isin(records["code"], list(KIND_OF_OPERATION))]
    rows = _blank(records)
    rows["mechanism"], rows["position"] = Mechanism.NONE, records["n"]
    for operation, kind in KIND_OF_OPERATION.items():
        rows["kind"][records["code"] == operation] = kind
    is_prompt = rows["kind"] == RestoreKind.PROMPT
    rows["n_replay"] = np.where(is_prompt, 0, np.maximum(records["position"] - records["n"], 0))
    return rows


def _folded(new: Restores) -> Restores:
    """Without the restores of prompt checkpoints by which a rewind went back: they are that rewind."""
    is_part = np.zeros(len(new), bool)
    for rewind in new[new["kind"] == RestoreKind.REWIND]:
        is_part |= _is_part_of(new, rewind)
    return new[~is_part]


def _is_part_of(rows: Restores, rewind: Any) -> NDArray[np.bool_]:
    """Which of these are restores of a prompt checkpoint that lie within a rewind of their slot."""
    start, end = rewind["t_start_ns"], rewind["t_start_ns"] + rewind["duration_ns"]
    is_inside = (rows["t_start_ns"] >= start) & (rows["t_start_ns"] + rows["duration_ns"] <= end)
    return np.asarray(is_inside & (rows["slot"] == rewind["slot"]) & (rows["kind"] == RestoreKind.PROMPT))
