"""Counts of a run while it goes, from its records: decodes, rides, graph runs, saves, restores, fallbacks. No Qt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import ENGINE_TRACK, Kind, Phase, Records
from draftscope.engine.protocol import DecodeCounts, RunReport
from draftscope.trace.store import TraceStore

_TARGET_PHASES = (Phase.VERIFY, Phase.REPLAY)
_DRAFT_PHASES = (Phase.DRAFT, Phase.CATCH_UP)


class RunCounters:
    """Counts each record once. When records were dropped the engine's own report at the end is the truth."""

    def __init__(self) -> None:
        self._start_over()

    def _start_over(self, generation: int = 0) -> None:
        self._generation = generation
        self._n_seen = 0
        self._calls = np.zeros(len(Phase), dtype=np.int64)
        self._graph_runs = np.zeros(len(Phase), dtype=np.int64)
        self._n_rides = 0
        self._last_ride = -1

    def update(self, store: TraceStore) -> None:
        """Take in the records that came since the last call; starts again when the store was cleared."""
        if store.generation != self._generation:
            self._start_over(store.generation)
        spans = store.kind(Kind.SPAN)
        new = spans[self._n_seen :]
        self._n_seen = len(spans)
        shared = new[new["slot"] == ENGINE_TRACK]
        self._calls += np.bincount(shared["code"], minlength=len(Phase))
        self._graph_runs += np.bincount(shared["code"], weights=shared["m"], minlength=len(Phase)).astype(np.int64)
        self._count_rides(new[(new["slot"] != ENGINE_TRACK) & (new["code"] == Phase.VERIFY) & (new["m"] > 0)])

    def _count_rides(self, carried: Records) -> None:
        """Rounds in which any slot had replayed tokens in front of its sampled one; rounds come in their order."""
        rounds = np.unique(carried["round"])
        self._n_rides += int(np.count_nonzero(rounds > self._last_ride))
        self._last_ride = int(rounds.max(initial=self._last_ride))

    def report(self, store: TraceStore) -> RunReport:
        """The counts so far, in the form of the engine's report."""
        rounds = store.kind(Kind.ROUND)
        limits = store.time_range() or (0, 0)
        counts = DecodeCounts(
            rounds=len(np.unique(rounds["round"])),
            target=self._sum(self._calls, _TARGET_PHASES),
            draft=self._sum(self._calls, _DRAFT_PHASES),
            replay=int(self._calls[Phase.REPLAY]),
            rides=self._n_rides,
            catch_up=int(self._calls[Phase.CATCH_UP]),
            target_graph_runs=self._sum(self._graph_runs, _TARGET_PHASES),
            draft_graph_runs=self._sum(self._graph_runs, _DRAFT_PHASES),
            prompt=int(self._calls[Phase.PROMPT]),
            prompt_graph_runs=int(self._graph_runs[Phase.PROMPT]),
        )
        return RunReport(
            decodes=counts,
            n_saves=len(store.kind(Kind.SAVE)),
            n_restores=len(store.kind(Kind.RESTORE)),
            n_fallbacks=len(store.kind(Kind.FALLBACK)),
            wall_ms=(limits[1] - limits[0]) / 1e6,
        )

    @staticmethod
    def _sum(counts: NDArray[np.int64], phases: tuple[Phase, ...]) -> int:
        return int(sum(counts[phase] for phase in phases))
