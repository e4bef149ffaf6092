"""The state machine of the session: which command is in flight, and what each answer leads to."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from PySide6.QtCore import QObject, Signal

from draftscope.engine.client import Client
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.protocol import (
    Cancel,
    Cancelled,
    Closing,
    CommandId,
    Configure,
    ContextSettings,
    Done,
    EngineDied,
    Failed,
    Finished,
    Load,
    Loaded,
    LoadProgress,
    ModelReport,
    ModelSettings,
    SlotChanged,
    Submit,
)
from draftscope.session.death import describe_death
from draftscope.session.run_request import RunRequest
from draftscope.session.state import SessionState

MAX_DEATHS_IN_A_ROW = 2
"""After so many deaths without a load or run done in between, the engine is not started again by itself."""

CANCELLING = "cancelling"
"""The stage of a load that was asked to stop."""


RUNNING = (SessionState.RUNNING, SessionState.STOPPING)
"""States in which slots are at work."""


class ModelAndContext(NamedTuple):
    """What a load asks for. ``context`` is None when the contexts that are in place are not known."""

    model: ModelSettings
    context: ContextSettings | None


class CommandFlow(QObject):
    """Sends commands and takes their closing answers; ``SessionState`` has the diagram.

    One Load or Configure is in flight at a time, or any number of Submits for different slots: a run, and turns of
    conversations beside it or alone. Answers to a command that is no longer awaited change nothing. Attributes are
    read by the session only.

    Attributes:
        n_contexts: how many times contexts were made; what was submitted before the last time is not in their memory.
        stopping_slots: slots that were asked to stop by themselves.
    """

    state_changed = Signal()
    model_changed = Signal()
    model_replaced = Signal()
    """Another model than before was loaded because somebody opened it."""
    run_started = Signal(object)
    """Carries the ``Submit`` that is about to be sent."""
    turn_started = Signal(object)
    """Carries the ``Submit`` of one slot that is about to be sent, beside others or alone."""
    submit_closed = Signal(object, object)
    """Carries a ``Submit`` and its ``Finished`` or ``Failed``; None for the one whose engine ended."""
    run_finished = Signal(object)
    """No slot is at work any more. Carries the last ``Finished``, or None when every Submit ended otherwise."""
    failed = Signal(object)
    progress_changed = Signal(float, str)
    noted = Signal(str, str)
    """A line for the log: level and text."""

    def __init__(self, client: Client, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = SessionState.NO_MODEL
        self.model: ModelReport | None = None
        self.loaded: ModelAndContext | None = None
        self.loading: ModelAndContext | None = None
        self.request: RunRequest | None = None
        self.death: EngineDied | None = None
        self.progress: tuple[float, str] = (0.0, "")
        self._client = client
        self.n_contexts = 0
        self.stopping_slots: set[int] = set()
        self._open: dict[CommandId, Submit] = {}
        self._last_finished: Finished | None = None
        self._awaited: CommandId | None = None
        self._next_load: ModelAndContext | None = None
        self._next_run: RunRequest | None = None
        self._last_model: ModelSettings | None = None
        self._is_reload = False
        self._n_deaths = 0

    @property
    def busy_slots(self) -> frozenset[int]:
        """Slots that a Submit in flight is about."""
        return frozenset(task.slot for command in self._open.values() for task in command.tasks)

    # ---- requests

    def load(self, target: ModelAndContext, then: RunRequest | None = None) -> None:
        """Load, then run ``then``. A run or load that goes on is cancelled first."""
        self.request = then or self.request
        self._next_run = then
        match self.state:
            case SessionState.NO_MODEL | SessionState.READY:
                self._start_load(target)
            case SessionState.LOADING | SessionState.RUNNING | SessionState.STOPPING:
                self._next_load = target
                self._cancel()
            case SessionState.ENGINE_DIED:
                if self._restart_client():
                    self._start_load(target)
            case SessionState.SAVED:
                raise ValueError("A saved trace has no engine.")
            case _:
                assert_never(self.state)

    def run(self, request: RunRequest) -> None:
        """Run, after the load in progress if there is one, in new contexts if the request needs others."""
        self.request = request
        match self.state:
            case SessionState.READY | SessionState.LOADING:
                self._next_run = request
                self._go_on()
            case SessionState.RUNNING | SessionState.STOPPING:
                self._fail(ErrorCode.BUSY, "A run is going on.", "Stop it, or wait until it has ended.")
            case SessionState.NO_MODEL | SessionState.ENGINE_DIED:
                if self._last_model is None:
                    self._fail(ErrorCode.NOT_LOADED, "There is no model to run.", "Open a GGUF file, or run the demo.")
                else:
                    self.load(ModelAndContext(self._last_model, request.context), request)
            case SessionState.SAVED:
                raise ValueError("A saved trace has no engine.")
            case _:
                assert_never(self.state)

    def run_turn(self, request: RunRequest) -> None:
        """Run the one task of a turn, beside what other slots do; alone, in new contexts if it needs others."""
        (task,) = request.tasks
        match self.state:
            case SessionState.READY:
                self._next_run = request
                self._go_on()
            case SessionState.RUNNING if task.slot not in self.busy_slots:
                self._start_run(request)
            case SessionState.RUNNING | SessionState.STOPPING:
                self._fail(ErrorCode.BUSY, f"Slot {task.slot} is at work.", "Stop it, or wait until it has ended.")
            case SessionState.NO_MODEL | SessionState.LOADING | SessionState.ENGINE_DIED:
                self._fail(ErrorCode.NOT_LOADED, "No model is ready to answer.", "Wait for it, or open a GGUF file.")
            case SessionState.SAVED:
                raise ValueError("A saved trace has no engine.")
            case _:
                assert_never(self.state)

    def stop_slot(self, slot: int) -> None:
        """End what one slot does; where no other is at work, that is the end of the run."""
        if self.state is not SessionState.RUNNING or slot not in self.busy_slots - self.stopping_slots:
            return
        if self.busy_slots - self.stopping_slots == {slot}:
            self.stop()
            return
        self.stopping_slots.add(slot)
        self._client.send(Cancel(self._client.next_id(), (slot,)))

    def run_after_stop(self, request: RunRequest) -> None:
        """Run on the present model; a run that goes on is stopped for it."""
        if self.state in RUNNING:
            self.request = self._next_run = request
            self._cancel()
        else:
            self.run(request)

    def stop(self) -> None:
        """End the run, or the load in progress, and whatever was to follow."""
        self._next_run = self._next_load = None
        self._cancel()

    def restart(self) -> None:
        """End the engine if it lives, start a new one and load again what was loaded."""
        self._awaited = self._next_load = self._next_run = None
        was_running = self.state in RUNNING
        self._lose_submits()
        self._set_model(None)
        if self._restart_client():
            if self.loaded is None:
                self._enter(SessionState.NO_MODEL)
            else:
                self._start_load(self.loaded, is_reload=True)
        if was_running:
            self.run_finished.emit(None)

    def _restart_client(self) -> bool:
        try:
            self._client.restart()
        except EngineError as error:
            self._enter(SessionState.ENGINE_DIED)
            self.failed.emit(error.report())
            return False
        return True

    # ---- answers

    def take_progress(self, answer: LoadProgress) -> None:
        """A load is this far."""
        if answer.command == self._awaited and self.progress[1] != CANCELLING:
            self._tell_progress(answer.fraction, answer.stage)

    def take_closing(self, answer: Closing) -> None:
        """A command has ended."""
        if answer.command in self._open:
            self._on_submit_closed(self._open.pop(answer.command), answer)
            return
        if answer.command != self._awaited:
            return
        self._awaited = None
        match answer:
            case Loaded():
                self._on_loaded(answer.report)
            case Finished() | Cancelled() | Done():
                self._on_not_loaded()
            case SlotChanged():
                pass  # never awaited here: see ``slots``
            case Failed():
                self._on_failed(answer.error)
            case _:
                assert_never(answer)

    def take_death(self, death: EngineDied) -> None:
        """The engine process has ended unasked."""
        was, self.death = self.state, death
        spared = self._load_without(death.lost_servers) if was is SessionState.LOADING else None
        self._n_deaths += 1
        self._awaited = self._next_load = self._next_run = None
        self._lose_submits()
        if was is SessionState.LOADING or death.lost_servers:
            self.loaded = None  # what it died of is not loaded again by itself
        self._set_model(None)
        self._enter(SessionState.ENGINE_DIED)
        if was in RUNNING:
            self.run_finished.emit(None)
        report = describe_death(death)
        self.noted.emit("error", report.message)
        self.failed.emit(report)
        if self._n_deaths <= MAX_DEATHS_IN_A_ROW:
            self.noted.emit("info", "The engine is started again.")
            self.restart()
            if spared is not None:
                self.load(*spared)

    def _load_without(self, lost_servers: tuple[str, ...]) -> tuple[ModelAndContext, RunRequest | None] | None:
        """The load in progress and what was to follow it, if only the model before it was on the servers."""
        if not lost_servers or self.loading is None or set(lost_servers) & set(self.loading.model.rpc_servers):
            return None
        return self.loading, self._next_run

    # ---- steps

    def _on_submit_closed(self, command: Submit, answer: Closing) -> None:
        is_well = isinstance(answer, Finished)
        error = answer.error if isinstance(answer, Failed) else None
        if isinstance(answer, Finished):
            self._n_deaths = 0
            self._last_finished = answer
        if error is not None:
            self.noted.emit("error", error.message)
        self.stopping_slots -= {task.slot for task in command.tasks}
        self.submit_closed.emit(command, answer if is_well or error is not None else None)
        if not self._open:
            self._end_run(self._last_finished)
        if error is not None:
            self.failed.emit(error)

    def _lose_submits(self) -> None:
        """The engine is gone, and with it whatever was in flight."""
        lost, self._open = self._open, {}
        self._last_finished = None
        self.stopping_slots.clear()
        for command in lost.values():
            self.submit_closed.emit(command, None)

    def _on_loaded(self, report: ModelReport) -> None:
        self._n_deaths = 0
        self.n_contexts += 1
        is_new = not self._is_reload
        self.loaded, self.loading = self.loading, None
        self._set_model(report)
        if is_new:
            self.model_replaced.emit()
        self._go_on_or_rest()

    def _on_not_loaded(self) -> None:
        """A load was cancelled or refused: nothing is loaded."""
        self.loading = self.loaded = None
        self._set_model(None)
        if self._next_load is None:
            self._next_run = None
            self._enter(SessionState.NO_MODEL)
        self._go_on()

    def _on_failed(self, error: ErrorReport) -> None:
        self.noted.emit("error", error.message)
        if self._is_reload and self.model is not None:
            # New contexts were refused; the model is still there, but which contexts it has is not known.
            assert self.loaded is not None
            self.loading, self.loaded = None, ModelAndContext(self.loaded.model, None)
            self._next_run = None
            self._go_on_or_rest()
        else:
            self._on_not_loaded()
        self.failed.emit(error)

    def _end_run(self, answer: Finished | None) -> None:
        if answer is None:
            self._next_run = None
        self._last_finished = None
        self._enter(SessionState.READY)
        self.run_finished.emit(answer)
        self._go_on()

    def _go_on_or_rest(self) -> None:
        if self._next_load is None and self._next_run is None:
            self._enter(SessionState.READY)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Do what was asked for meanwhile, unless a command is still in flight."""
        if self._awaited is not None or self._open:
            return
        if self._next_load is not None:
            target, self._next_load = self._next_load, None
            self._start_load(target)
        elif self._next_run is not None and self.loaded is not None:
            if self._next_run.context != self.loaded.context:
                self._start_configure(self._next_run.context)
            else:
                request, self._next_run = self._next_run, None
                self._start_run(request)

    def _start_load(self, target: ModelAndContext, *, is_reload: bool = False) -> None:
        """Send a Load. ``is_reload``: nobody asked for it, so the last run and its end stay on the screen."""
        if not is_reload:
            self.death = None
        self._is_reload = is_reload
        self.loading = target
        self._last_model = target.model
        self._awaited = self._client.next_id()
        self._tell_progress(0.0, "weights")
        self._enter(SessionState.LOADING)
        self._client.send(Load(self._awaited, target.model, target.context or ContextSettings()))

    def _start_configure(self, context: ContextSettings) -> None:
        assert self.loaded is not None
        self._is_reload = True
        self.loading = ModelAndContext(self.loaded.model, context)
        self._awaited = self._client.next_id()
        self._tell_progress(0.0, "contexts")
        self._enter(SessionState.LOADING)
        self._client.send(Configure(self._awaited, context))

    def _start_run(self, request: RunRequest) -> None:
        assert self.model is not None
        self.death = None
        tasks = tuple(task for task in request.tasks if task.slot < self.model.n_slots)
        if not tasks:
            self._enter(SessionState.READY)
            self._fail(ErrorCode.BAD_PROMPT, "There is no prompt in any of the slots.", "Write one, then run.")
            return
        if len(tasks) < len(request.tasks):
            asked, granted = self.model.n_slots_asked, self.model.n_slots
            self.noted.emit("warning", f"{asked} slots were asked for and {granted} granted; the others do not run.")
        command = Submit(self._client.next_id(), tasks)
        self._open[command.id] = command
        if request.is_turn:
            self.turn_started.emit(command)
        else:
            self.run_started.emit(command)
        self._enter(SessionState.RUNNING)
        self._client.send(command)

    def _cancel(self) -> None:
        if self.state is SessionState.RUNNING:
            self._enter(SessionState.STOPPING)
        elif self.state is SessionState.LOADING:
            self._tell_progress(self.progress[0], CANCELLING)
        else:
            return
        self._client.send(Cancel(self._client.next_id()))

    def _enter(self, state: SessionState) -> None:
        if state is not self.state:
            self.state = state
            self.state_changed.emit()

    def _set_model(self, model: ModelReport | None) -> None:
        if model != self.model:
            self.model = model
            self.model_changed.emit()

    def _tell_progress(self, fraction: float, stage: str) -> None:
        self.progress = (fraction, stage)
        self.progress_changed.emit(fraction, stage)

    def _fail(self, code: ErrorCode, message: str, hint: str) -> None:
        self.failed.emit(ErrorReport(code, message, hint))
