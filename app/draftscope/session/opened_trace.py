"""A run from a file, shown as a live one is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.events import Kind, Records
from draftscope.engine.protocol import ContextSettings, LogLine, MemoryUse, ModelReport, SlotResult, SlotTask
from draftscope.session.chats import Chats
from draftscope.session.exports import Exports
from draftscope.session.held_slots import HeldSlots
from draftscope.session.log_book import LogBook
from draftscope.session.meter import Meter
from draftscope.session.run_record import TraceSnapshot
from draftscope.session.saved_probing import SavedProbing
from draftscope.session.saved_run import chats_of, context_of, memory_of, model_of, results_of, run_tasks
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState
from draftscope.session.view_state import ViewState
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.errors import TraceError
from draftscope.trace.pieces import PieceTable
from draftscope.trace.report.run_facts import model_name, place_facts, place_name, recorded_at
from draftscope.trace.store import TraceStore
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile.follower import TraceFollower, TracePart
from draftscope.trace.tracefile.reader import CUT_OFF


@dataclass(slots=True)
class ReadTrace:
    """A trace as the thread that read it leaves it. ``follower``: where it is still being recorded."""

    path: Path
    trace: Trace
    acceptance: AcceptanceTable = field(default_factory=AcceptanceTable)
    follower: TraceFollower | None = None


class OpenedTrace(ShownRun):
    """Reads only. ``poll`` takes what a recording that goes on has written since.

    Attributes:
        path: of the file.
        source: what the file holds.
    """

    def __init__(self, read: ReadTrace, exports: Exports, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.path = read.path
        self.source = read.trace
        self._acceptance = read.acceptance
        self._follower = read.follower
        self.view = ViewState(self)
        self.meter = Meter()
        self.log = LogBook()
        self.slots = HeldSlots(self)
        self.exports = exports
        self.probing: SavedProbing = SavedProbing(self.trace, self)
        self.chats = Chats(self, self)
        self._take_header()
        self._take_lines(self.source.log)
        self.slots.follow(self.trace.kind(Kind.OPERATION))
        self._tell_meter()

    # ---- what panels read

    @property
    def state(self) -> SessionState:
        """See ``ShownRun``."""
        return SessionState.SAVED

    @property
    def is_running(self) -> bool:
        """Whether the file is still being written."""
        return self._follower is not None

    @property
    def model(self) -> ModelReport | None:
        """See ``ShownRun``."""
        return self._model

    @property
    def context(self) -> ContextSettings | None:
        """See ``ShownRun``."""
        return context_of(self.source)

    @property
    def trace(self) -> TraceStore:
        """See ``ShownRun``."""
        return self.source.store

    @property
    def pieces(self) -> PieceTable:
        """See ``ShownRun``."""
        return self.source.pieces

    @property
    def acceptance(self) -> AcceptanceTable:
        """See ``ShownRun``."""
        return self._acceptance

    @property
    def tasks(self) -> tuple[SlotTask, ...]:
        """See ``ShownRun``."""
        return self._tasks

    @property
    def results(self) -> Mapping[int, SlotResult]:
        """See ``ShownRun``."""
        return {result.slot: result for result in self._results}

    @property
    def memory(self) -> tuple[MemoryUse, ...]:
        """See ``ShownRun``."""
        return memory_of(self.source, self._model)

    def snapshot(self) -> Callable[[], Trace]:
        """See ``ShownRun``."""
        return lambda: self.source

    def export(self, format_id: str, path: str | Path, *, with_text: bool = True) -> None:
        """See ``ShownRun``."""
        source = self.source
        snapshot = TraceSnapshot(self.trace.frozen(), dict(self.pieces.items()), source.results, source.header)
        if not self.exports.start(snapshot, format_id, Path(path), with_text=with_text):
            report = ErrorReport(ErrorCode.BUSY, "An export is being written.", "Wait for it, or cancel it.")
            self.failed.emit(report)

    # ---- what it is

    @property
    def origin(self) -> str:
        """Of which model, when and on which machine, as far as the file says."""
        header = self.source.header
        parts = [model_name(header)]
        if when := recorded_at(header):
            parts.append(f"recorded {when}")
        if place := place_name(header):
            parts.append(f"on {place}")
        return " · ".join(parts)

    @property
    def saved_facts(self) -> tuple[tuple[str, str], ...]:
        """See ``ShownRun``."""
        header = self.source.header
        facts = [("File", str(self.path)), ("Recorded", recorded_at(header) or "the file does not say")]
        facts += [("Is missing", sentence) for sentence in self.missing]
        return (*facts, *place_facts(header))

    @property
    def missing(self) -> tuple[str, ...]:
        """What the file lacks, in sentences."""
        sentences = list(self.source.missing)
        if self.trace.n_missing:
            sentences.append(f"{self.trace.n_missing:,} records were lost while it was recorded.")
        if len(self.pieces) == 0 and self.trace.n_records:
            sentences.append("It was written without the text of prompts and outputs.")
        if self._model is None:
            sentences.append("It does not describe its model in a way that this version can read.")
        return tuple(sentences)

    # ---- a recording that goes on

    def poll(self) -> None:
        """Take what was written since the last call; never waits for the writer."""
        if self._follower is None:
            return
        try:
            part = self._follower.poll()
        except TraceError as error:
            self.source.missing.append(str(error))
            self._end()
            return
        self._take(part)
        if part.is_ended:
            self._end()

    def _take(self, part: TracePart) -> None:
        self.pieces.add(part.pieces)
        self._take_lines(part.log)
        self.source.memory += part.memory
        self.source.is_complete = part.is_complete
        has_news = (part.header, part.results) != (self.source.header, self.source.results)
        self.source.header, self.source.results = part.header, part.results
        if part.arrays:
            self.trace.append_arrays(part.arrays)
            self.probing.follow(self.trace)
        if len(part.records):
            self._take_records(part.records)
        if has_news or (part.records["kind"] == Kind.SLOT).any():  # a task has begun or ended
            self._take_header()
        if len(part.records) or part.arrays:
            self.records_appended.emit()

    def _take_records(self, records: Records) -> None:
        self.trace.append(records)
        self._acceptance.update(self.trace)
        self.slots.follow(records)
        self._tell_meter()

    def _take_lines(self, lines: list[tuple[int, str, str]]) -> None:
        for t_ns, level, text in lines:
            self.log.append(LogLine(level, text, t_ns))
        if lines:
            self.log_appended.emit()

    def _take_header(self) -> None:
        self._model = model_of(self.source)
        self._tasks = run_tasks(self.source)
        self._results = results_of(self.source)
        self.chats.show_saved(chats_of(self.source, self._tasks, self._results, goes_on=self.is_running))

    def _tell_meter(self) -> None:
        self.meter.n_records, self.meter.n_dropped = self.trace.n_records, self.trace.n_missing

    def _end(self) -> None:
        self._follower = None
        if not self.source.is_complete:
            self.source.missing.append(CUT_OFF)
        self._take_header()
        self.state_changed.emit()
        self.run_finished.emit()
