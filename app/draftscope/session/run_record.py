"""Everything that is kept of the present run: records, pieces, figures, tasks and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftscope import __version__
from draftscope.engine.codec import as_plain
from draftscope.engine.events import Kind, Records
from draftscope.engine.protocol import Finished, ModelReport, RunReport, SlotResult, SlotTask
from draftscope.session.run_request import RunRequest
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.pieces import PieceTable
from draftscope.trace.store import TraceStore
from draftscope.trace.trace import Trace


class RunRecord:
    """One run. ``trace`` and ``pieces`` are the same objects for good, so that views may hold on to them."""

    def __init__(self) -> None:
        self.trace = TraceStore()
        self.pieces = PieceTable()
        self.acceptance = AcceptanceTable()
        self.results: dict[int, SlotResult] = {}
        self.report: RunReport | None = None
        self.request: RunRequest | None = None
        self.tasks: tuple[SlotTask, ...] = ()
        self._model: ModelReport | None = None
        self._before: _Kept | None = None

    def begin(self, model: ModelReport, request: RunRequest, tasks: tuple[SlotTask, ...]) -> None:
        """Start a new run of these tasks. Pieces stay: the engine tells each only once.

        The last run is forgotten with the first record of the new one; until then ``put_back`` brings it back.
        """
        before = _Kept(self.trace.hand_over(), dict(self.results), self.report, self.request, self.tasks, self._model)
        self._forget_run()
        self._before = before
        self.request, self.tasks, self._model = request, tasks, model

    def put_back(self) -> bool:
        """The new run never began: show the last one again. False when there was none, or it is gone."""
        before, self._before = self._before, None
        if before is None or before.trace.n_records == 0:
            return False
        self.trace.take_over(before.trace)
        self.results.update(before.results)
        self.report, self.request, self.tasks, self._model = before.report, before.request, before.tasks, before.model
        self.acceptance.update(self.trace)
        return True

    def forget(self) -> None:
        """Another model is there: nothing has run yet, and token ids stand for other bytes than before."""
        self._forget_run()
        self.pieces.clear()

    def _forget_run(self) -> None:
        self.trace.clear()
        self.acceptance.update(self.trace)
        self.results.clear()
        self.report = self.request = self._model = self._before = None
        self.tasks = ()

    def append(self, records: Records) -> None:
        """Take records of this run."""
        self._before = None
        self.trace.append(records)
        self.acceptance.update(self.trace)

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Take the bytes of tokens."""
        self.pieces.add(pieces)

    def finish(self, answer: Finished) -> None:
        """Take the engine's results and counts."""
        self._before = None
        self.results.update((result.slot, result) for result in answer.results)
        self.report = answer.report

    def snapshot(self) -> TraceSnapshot:
        """What the run holds now, to be exported by another thread while this run or the next goes on."""
        return TraceSnapshot(
            [self.trace.kind(kind) for kind in Kind],
            dict(self.pieces.items()),
            [as_plain(self.results[slot]) for slot in sorted(self.results)],
            self._header(),
        )

    def _header(self) -> dict[str, Any]:
        header: dict[str, Any] = {"program": f"draftscope {__version__}"}
        if self._model is not None:
            header |= {"engine": self._model.engine, "model": as_plain(self._model)}
        if self.request is not None:
            header["settings"] = {"context": as_plain(self.request.context), "tasks": as_plain(self.tasks)}
        return header


@dataclass(frozen=True, slots=True)
class _Kept:
    """A run that is over."""

    trace: TraceStore
    results: dict[int, SlotResult]
    report: RunReport | None
    request: RunRequest | None
    tasks: tuple[SlotTask, ...]
    model: ModelReport | None


class TraceSnapshot:
    """Views and copies taken at one moment; cheap to take, and turned into a ``Trace`` where there is time for it."""

    def __init__(
        self,
        records: list[Records],
        pieces: dict[int, bytes],
        results: list[dict[str, Any]],
        header: dict[str, Any],
    ) -> None:
        self._records = records
        self._pieces = pieces
        self._results = results
        self._header = header

    def trace(self) -> Trace:
        """The run as files and exports see it; costs O(N log N), for a worker thread."""
        import numpy as np

        store = TraceStore()
        records = np.concatenate(self._records)
        store.append(records[np.argsort(records["sequence"], kind="stable")])
        return Trace(self._header, store, PieceTable(self._pieces), self._results)
