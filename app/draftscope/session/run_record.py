"""Everything that is kept of the present run: records, pieces, figures, tasks and results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from draftscope.engine.codec import as_plain
from draftscope.engine.events import Records
from draftscope.engine.probes import ArrayKind, SideArray
from draftscope.engine.protocol import Finished, MemoryUse, ModelReport, RunReport, SlotResult, SlotTask
from draftscope.engine.run_header import run_header
from draftscope.session.log_book import LogBook
from draftscope.session.recorder import Recorder
from draftscope.session.run_request import RunRequest
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.pieces import PieceTable
from draftscope.trace.round_numbers import RoundNumbers
from draftscope.trace.store import TraceStore
from draftscope.trace.trace import Trace

_LOG_LINES = 2000
"""Lines of the log from before a run that its recording takes along: how the model was loaded is among them."""


@dataclass(slots=True)
class _Run:
    """What belongs to one run, beside its records.

    ``n_contexts`` tells the contexts that it runs in from those before and after. ``results``: in the order of their
    ends; a slot that talks has several. ``reports``: of the Submits that have ended.
    """

    model: ModelReport | None = None
    request: RunRequest | None = None
    tasks: tuple[SlotTask, ...] = ()
    n_contexts: int = -1
    n_submits: int = 0
    results: list[SlotResult] = field(default_factory=list)
    reports: list[RunReport] = field(default_factory=list)
    round_numbers: RoundNumbers = field(default_factory=RoundNumbers)


class RunRecord:
    """One run. ``trace`` and ``pieces`` are the same objects for good, so that views may hold on to them."""

    def __init__(self, recorder: Recorder | None = None, log: LogBook | None = None) -> None:
        """Keep runs, and give what comes to the recorder, with the log as it is at the start of a run."""
        self._recorder = recorder or Recorder()
        self._log = log or LogBook()
        self.trace = TraceStore()
        self.pieces = PieceTable()
        self.acceptance = AcceptanceTable()
        self._run = _Run()
        self._before: tuple[_Run, TraceStore] | None = None

    @property
    def tasks(self) -> tuple[SlotTask, ...]:
        """Its tasks in the order of their start; a slot that talks has several."""
        return self._run.tasks

    @property
    def results(self) -> dict[int, SlotResult]:
        """The last result of every slot that has one."""
        return {result.slot: result for result in self._run.results}

    @property
    def report(self) -> RunReport | None:
        """The engine's counts, where one Submit is the whole run: those of several overlap, and leave gaps."""
        return self._run.reports[0] if self._run.n_submits == 1 and self._run.reports else None

    @property
    def memory(self) -> tuple[MemoryUse, ...]:
        """Bytes by kind as the engine told last; empty before."""
        return self._run.reports[-1].memory if self._run.reports else ()

    def begin(
        self,
        model: ModelReport,
        request: RunRequest,
        tasks: tuple[SlotTask, ...],
        n_contexts: int = 0,
        draft_path: str = "",
    ) -> None:
        """Start a new run of these tasks. Pieces stay: the engine tells each only once.

        The last run is forgotten with the first record of the new one; until then ``put_back`` brings it back.
        """
        before = (self._run, self.trace.hand_over())
        self.acceptance.update(self.trace)
        self._run = _Run(model, request, tasks, n_contexts, n_submits=1)
        self._before = before
        self._recorder.begin(model, self._header(), draft_path)
        self._recorder.add_pieces(dict(self.pieces.items()))
        self._recorder.add_log(self._log.newest(_LOG_LINES))

    def can_go_on(self, n_contexts: int) -> bool:
        """Whether tasks in these contexts belong to the run that is here."""
        return self._run.n_contexts == n_contexts

    def go_on(self, tasks: tuple[SlotTask, ...]) -> None:
        """Take more tasks into the run."""
        self._run.tasks += tasks
        self._run.n_submits += 1
        self._recorder.add_header({"settings": self._settings()})

    def put_back(self) -> bool:
        """The new run never began: show the last one again. False when there was none, or it is gone."""
        before, self._before = self._before, None
        if before is None:
            return False
        self._recorder.put_back()
        if before[1].n_records == 0:
            return False
        self._run = before[0]
        self.trace.take_over(before[1])
        self.acceptance.update(self.trace)
        return True

    def forget(self) -> None:
        """Another model is there: nothing has run yet, and token ids stand for other bytes than before."""
        self.trace.clear()
        self.acceptance.update(self.trace)
        self._run = _Run()
        self._before = None
        self.pieces.clear()
        self._recorder.end()

    def record(self, records: Records, arrays: list[SideArray]) -> None:
        """Number the rounds of what has come for this run on, in place, and give it to the recorder; any thread."""
        self._run.round_numbers.continue_in(records)
        for array in arrays:
            if array.kind is ArrayKind.RESULT:
                self._run.round_numbers.continue_in_probes(array.values)
        self._recorder.record(records, arrays)

    def append(self, records: Records) -> None:
        """Take records of this run, whose rounds have been numbered on."""
        self._before = None
        self.trace.append(records)
        self.acceptance.update(self.trace)

    def append_arrays(self, arrays: list[SideArray]) -> None:
        """Take what probes measured in this run, after the records that came with it."""
        self.trace.append_arrays(arrays)

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Take the bytes of tokens."""
        self.pieces.add(pieces)
        self._recorder.add_pieces(pieces)

    def finish(self, answer: Finished) -> None:
        """Take the engine's results and counts."""
        self._before = None
        self._run.results += answer.results
        self._run.reports.append(answer.report)
        self._recorder.add_results(as_plain(answer.results))
        self._recorder.add_memory(time.monotonic_ns(), answer.report.memory)

    def snapshot(self) -> TraceSnapshot:
        """What the run holds now, to be exported by another thread while this run or the next goes on."""
        return TraceSnapshot(
            self.trace.frozen(),
            dict(self.pieces.items()),
            [as_plain(result) for result in sorted(self._run.results, key=lambda result: result.slot)],
            self._header(),
        )

    def _header(self) -> dict[str, Any]:
        return run_header(self._run.model, self._settings()) if self._run.model is not None else {}

    def _settings(self) -> dict[str, Any]:
        request = self._run.request
        return {"context": as_plain(request.context), "tasks": as_plain(self._run.tasks)} if request is not None else {}


class TraceSnapshot:
    """A run as it was at one moment: records are shared, not copied, so it is cheap to take and to keep."""

    def __init__(
        self, store: TraceStore, pieces: dict[int, bytes], results: list[dict[str, Any]], header: dict[str, Any]
    ) -> None:
        self._store = store
        self._pieces = pieces
        self._results = results
        self._header = header

    def trace(self) -> Trace:
        """The run as files and exports see it; may be asked for by any thread."""
        return Trace(self._header, self._store, PieceTable(self._pieces), self._results)
