"""The session: the one object that talks to the engine, keeps the run, and tells the views what happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from PySide6.QtCore import QObject, Signal

from draftscope.engine.client import Client
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.protocol import (
    Answer,
    Cancelled,
    ContextSettings,
    Done,
    EngineDied,
    Failed,
    Finished,
    Loaded,
    LoadProgress,
    LogLine,
    MemoryUse,
    ModelReport,
    ModelSettings,
    Pieces,
    RunReport,
    SlotChanged,
    SlotResult,
    SlotTask,
    Submit,
)
from draftscope.session.chats import Chats
from draftscope.session.command_flow import CommandFlow, ModelAndContext
from draftscope.session.exports import Exports
from draftscope.session.fallback_watch import FallbackWatch
from draftscope.session.log_book import LogBook
from draftscope.session.meter import Meter
from draftscope.session.probing import Probing
from draftscope.session.record_pump import Batch, RecordPump
from draftscope.session.recorder import Recorder
from draftscope.session.run_record import RunRecord
from draftscope.session.run_request import RunRequest
from draftscope.session.samples import demo_model_settings, demo_request
from draftscope.session.shown_run import ShownRun
from draftscope.session.slots import Slots
from draftscope.session.state import SessionState
from draftscope.session.view_state import ViewState
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.pieces import PieceTable
from draftscope.trace.store import TraceStore
from draftscope.trace.trace import Trace

__all__ = ["Session", "SessionState"]


class Session(ShownRun):
    """What the views read, and what they may ask for. Requests return at once; signals tell what came of them.

    The window calls ``poll`` on its frame clock; only then does anything arrive. ``SessionState`` has the diagram.

    Attributes:
        view: selection, time range and crosshair that the views share.
        meter: what the window measures about itself.
        log: the engine's lines and the session's own.
        recorder: the file that the run is recorded to.
        exports: progress and end of exports.
        fallbacks: logs each fallback and tells of the first of its kind.
        slots: what the slots hold, and what can be done with it while nothing is at work in them.
        chats: the conversations of the slots.
        probing: what is measured at restores, and what they are made to do wrong.
    """

    progress_changed = Signal(float, str)
    """How far a load is: fraction in [0, 1] and stage."""

    def __init__(self, client: Client, parent: QObject | None = None, recorder: Recorder | None = None) -> None:
        super().__init__(parent)
        self.view = ViewState(self)
        self.meter = Meter()
        self.log = LogBook()
        self.exports = Exports(self)
        self.fallbacks = FallbackWatch(self.log, self)
        self._client = client
        self.recorder = recorder or Recorder()
        self._record = RunRecord(self.recorder, self.log)
        self._pump = RecordPump(client, self._record.record)
        if self.recorder.recordings is not None:
            self._pump.start()
        self._flow = CommandFlow(client, self)
        self.slots: Slots = Slots(client, self)
        self.chats = Chats(self, self)
        self.probing: Probing = Probing(client, self)
        self._n_dropped_before = 0
        self._n_lines_told = 0
        self._n_lines_recorded = 0
        self._is_closed = False
        self._connect()

    def _connect(self) -> None:
        flow = self._flow
        flow.state_changed.connect(self.state_changed)
        flow.model_changed.connect(self.model_changed)
        flow.failed.connect(self.failed)
        flow.progress_changed.connect(self.progress_changed)
        flow.noted.connect(self.log.note)
        self.recorder.failed.connect(self._on_recording_failed)
        self.slots.told.connect(self._on_slot_told)
        self.slots.failed.connect(self._on_refused)
        self.probing.failed.connect(self._on_refused)
        self.slots.text_changed.connect(self.chats.hold)
        flow.model_replaced.connect(self._on_model_replaced)
        flow.run_started.connect(self._on_run_started)
        flow.turn_started.connect(self._on_turn_started)
        flow.submit_closed.connect(self._on_submit_closed)
        flow.run_finished.connect(self._on_run_finished)

    # ---- what there is

    @property
    def state(self) -> SessionState:
        """Where the session stands."""
        return self._flow.state

    @property
    def is_running(self) -> bool:
        """Whether slots are at work, the moment between stop and its end included."""
        return self.state in (SessionState.RUNNING, SessionState.STOPPING)

    @property
    def progress(self) -> tuple[float, str]:
        """Fraction and stage of the load in progress, or of the last one."""
        return self._flow.progress

    @property
    def model(self) -> ModelReport | None:
        """What is loaded and granted, or None."""
        return self._flow.model

    @property
    def model_settings(self) -> ModelSettings | None:
        """How the model was loaded or is being loaded; None when nothing is."""
        target = self._flow.loading or self._flow.loaded
        return None if target is None else target.model

    @property
    def context(self) -> ContextSettings | None:
        """The contexts that are in place, as they were asked for; None when there are none, or they are not known."""
        loaded = self._flow.loaded
        return None if loaded is None else loaded.context

    @property
    def death(self) -> EngineDied | None:
        """How the engine died last, until something new is asked of it."""
        return self._flow.death

    @property
    def last_request(self) -> RunRequest | None:
        """The run asked for last, for 'Run again'."""
        return self._flow.request

    @property
    def trace(self) -> TraceStore:
        """The records of the run; the same object for good."""
        return self._record.trace

    @property
    def pieces(self) -> PieceTable:
        """The bytes of the model's tokens that occurred; the same object for good."""
        return self._record.pieces

    @property
    def acceptance(self) -> AcceptanceTable:
        """The figures of the run, up to date with ``trace``."""
        return self._record.acceptance

    @property
    def tasks(self) -> tuple[SlotTask, ...]:
        """The tasks of the run that goes on or has ended; empty before the first."""
        return self._record.tasks

    @property
    def results(self) -> dict[int, SlotResult]:
        """The engine's results by slot, once the run has ended."""
        return self._record.results

    @property
    def run_report(self) -> RunReport | None:
        """The engine's own counts of the run, once it has ended."""
        return self._record.report

    @property
    def memory(self) -> tuple[MemoryUse, ...]:
        """Bytes by kind as the engine told last: at the end of a task, or when the contexts were made."""
        return self._record.memory or (self.model.memory if self.model is not None else ())

    @property
    def busy_slots(self) -> frozenset[int]:
        """Slots that have a task, or wait for the others that were started with them."""
        return self._flow.busy_slots

    @property
    def stopping_slots(self) -> frozenset[int]:
        """Slots that were asked to stop and have not yet ended."""
        is_stopping = self.state is SessionState.STOPPING
        return self.busy_slots if is_stopping else frozenset(self._flow.stopping_slots)

    @property
    def n_arrays_lost(self) -> int:
        """Side arrays of this engine that were lost because the ring was full, and those that found no room here."""
        return self._client.n_arrays_dropped + self.trace.n_arrays_not_kept

    @property
    def silence_s(self) -> float:
        """Seconds since the engine last showed a sign of life while at work; 0 when it has nothing to do."""
        return self._client.silence_s if self.state.is_busy else 0.0

    @property
    def operation(self) -> str:
        """What the engine was last seen doing, in words."""
        return self._client.operation

    def snapshot(self) -> Callable[[], Trace]:
        """See ``ShownRun``."""
        snapshot = self._record.snapshot()
        log = [(line.t_ns, line.level, line.text) for line in self.log.lines]
        memory = [(0, use.kind, use.host_bytes, use.device_bytes) for use in self.memory]

        def make_trace() -> Trace:
            return replace(snapshot.trace(), log=log, memory=memory)

        return make_trace

    # ---- what can be asked for

    def open_model(
        self,
        path: str | Path,
        context: ContextSettings | None = None,
        *,
        n_gpu_layers: int = -1,
        devices: tuple[str, ...] = (),
        use_mmap: bool = True,
        rpc_servers: tuple[str, ...] = (),
        draft_path: str = "",
    ) -> None:
        """Load a model in the place of the present one; a run or load that goes on is stopped first."""
        settings = ModelSettings(str(path), n_gpu_layers, devices, use_mmap, rpc_servers, draft_path)
        self._flow.load(ModelAndContext(settings, context or ContextSettings()))

    def cancel_load(self) -> None:
        """Cancel the load in progress, and what was to follow it."""
        if self.state is SessionState.LOADING:
            self._flow.stop()

    def run(self, request: RunRequest) -> None:
        """Run; makes new contexts first when the request needs others, and waits for a load in progress."""
        self._flow.run(request)

    def run_turn(self, context: ContextSettings, task: SlotTask) -> None:
        """Run one task beside what other slots do; a new run where these contexts have none. See ``chats``."""
        self._flow.run_turn(RunRequest(context, (task,), is_turn=True))

    def stop_slot(self, slot: int) -> None:
        """End what one slot does; what it wrote so far is kept."""
        self._flow.stop_slot(slot)

    def run_demo(self) -> None:
        """Run the demo prompts on the bundled model; loads it first where another or none is there."""
        try:
            request, model = demo_request(), demo_model_settings()
        except EngineError as error:
            self.failed.emit(error.report())
            return
        if self.model is not None and self.model_settings == model:
            self._flow.run_after_stop(request)
        else:
            self._flow.load(ModelAndContext(model, request.context), request)

    def stop(self) -> None:
        """End the run at once; what it wrote so far is kept."""
        if self.is_running:
            self._flow.stop()

    def restart_engine(self) -> None:
        """End the engine process if it lives, start a new one, and load the model again that was loaded."""
        self.slots.forget()
        self.probing.forget()
        self._flow.restart()

    def export(self, format_id: str, path: str | Path, *, with_text: bool = True) -> None:
        """Write the run in a format of ``trace.export``, in a thread; ``exports`` tells the progress and can cancel."""
        if not self.exports.start(self._record.snapshot(), format_id, Path(path), with_text=with_text):
            report = ErrorReport(ErrorCode.BUSY, "An export is being written.", "Wait for it, or cancel it.")
            self.failed.emit(report)

    def poll(self) -> None:
        """Take what has come from the engine. Never blocks; the frame clock calls it."""
        if self._is_closed:
            return
        self._record_log()  # a recording that begins now takes what was logged before
        started = time.perf_counter_ns()
        answers = self._client.drain()
        # Read after draining: whatever was recorded before an answer was sent is in the ring by now.
        batches = self._pump.take()
        self._take_batches(batches)
        for answer in answers:
            self._take(answer)
        n_records = sum(len(batch.records) for batch in batches)
        if self.is_running or n_records:
            self.meter.add_receive(n_records, time.perf_counter_ns() - started)
        self._record_log()
        if self.log.n_total != self._n_lines_told:
            self._n_lines_told = self.log.n_total
            self.log_appended.emit()
        self.recorder.poll()
        self.exports.poll()

    def close(self) -> None:
        """End exports, the engine and the recording; nothing is left behind. Harmless when called again."""
        if not self._is_closed:
            self._is_closed = True
            self.exports.close()
            self._client.close()
            self._pump.stop()
            self.recorder.close()

    def _record_log(self) -> None:
        if n := self.log.n_total - self._n_lines_recorded:
            self.recorder.add_log(self.log.newest(n))
            self._n_lines_recorded = self.log.n_total

    # ---- what came

    def _take_batches(self, batches: list[Batch]) -> None:
        """Keep what belongs to the run; records of loads and of contexts being made belong to none."""
        has_more = False
        for batch in batches:
            self.slots.follow(batch.records)
            if batch.is_of_run or self._is_between_turns:
                if not batch.is_of_run:
                    self._record.record(batch.records, batch.arrays)
                    self.recorder.rest()
                self._record.append(batch.records)
                self._record.append_arrays(batch.arrays)
                has_more = True
        if self.is_running:
            self.meter.n_dropped = self._client.n_dropped - self._n_dropped_before
        if has_more:
            self.fallbacks.follow(self.trace)
            self.records_appended.emit()

    @property
    def _is_between_turns(self) -> bool:
        """Whether what is done to slots now, a fork say, belongs to the run that is here and may go on."""
        is_at_rest = self.state is SessionState.READY
        return is_at_rest and self.trace.n_records > 0 and self._record.can_go_on(self._flow.n_contexts)

    def _take(self, answer: Answer) -> None:
        match answer:
            case LogLine():
                self.log.append(answer)
            case Pieces():
                self._record.add_pieces(answer.pieces)
            case EngineDied():
                self.slots.forget()
                self.probing.forget()
                self._flow.take_death(answer)
            case LoadProgress():
                self._flow.take_progress(answer)
            case SlotChanged() | Failed() if self.slots.take(answer):
                pass
            case Done() | Failed() if self.probing.take(answer):
                pass
            case Loaded() | Finished() | SlotChanged() | Cancelled() | Done() | Failed():
                if isinstance(answer, Loaded | Cancelled):
                    self.slots.forget()
                if isinstance(answer, Loaded):
                    self.probing.begin_contexts()
                self._flow.take_closing(answer)
            case _:
                assert_never(answer)

    def _on_recording_failed(self, sentence: str) -> None:
        self.log.note("warning", sentence)

    def _on_slot_told(self, sentence: str) -> None:
        self.log.note("info", sentence)

    def _on_refused(self, error: ErrorReport) -> None:
        self.log.note("error", error.message)
        self.failed.emit(error)

    def _on_model_replaced(self) -> None:
        self._pump.set_run(False)
        self._record.forget()
        self.chats.forget_run()
        self.meter.start_run()
        self.view.reset()
        self.records_appended.emit()

    def _on_run_started(self, command: Submit) -> None:
        assert self.last_request is not None
        self._begin_run(self.last_request, command)
        self.chats.begin_run(command.tasks)
        self.run_started.emit()

    def _begin_run(self, request: RunRequest, command: Submit) -> None:
        assert self.model is not None
        draft_path = self.model_settings.draft_path if self.model_settings is not None else ""
        with self._pump.lock:
            self._pump.set_run(False)
            self._record.begin(self.model, request, command.tasks, self._flow.n_contexts, draft_path)
            self._pump.set_run(True)
        self.view.reset()
        self.meter.start_run()
        self._n_dropped_before = self._client.n_dropped

    def _on_turn_started(self, command: Submit) -> None:
        assert self._flow.loaded is not None
        if self._record.can_go_on(self._flow.n_contexts):
            self._record.go_on(command.tasks)
            self._pump.set_run(True)
            self.chats.begin_turn(command.tasks)
            self.turn_started.emit()
            return
        context = self._flow.loaded.context or ContextSettings()
        self._begin_run(RunRequest(context, command.tasks), command)
        self.chats.begin_turn(command.tasks, is_new_run=True)
        self.run_started.emit()

    def _on_submit_closed(self, command: Submit, answer: Finished | Failed | None) -> None:
        if isinstance(answer, Finished):
            self._record.finish(answer)
        self.chats.end_tasks(command.tasks, answer)

    def _on_run_finished(self, answer: Finished | None) -> None:
        self._pump.set_run(False)
        if answer is None and self._record.put_back():
            # Refused before anything ran: the last run is still there to look at.
            self.chats.put_back()
            self.view.reset()
            self.meter.n_records = self.trace.n_records
            self.run_started.emit()
            self.records_appended.emit()
        self.recorder.rest()
        self.run_finished.emit()
