"""A session that tests put into any state by hand: the public face of ``session.Session`` without an engine."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import (
    CheckpointMode,
    CommandId,
    ContextSettings,
    DecodeCounts,
    EngineDied,
    Finished,
    MemoryUse,
    ModelReport,
    Prompt,
    RunReport,
    SlotResult,
    SlotTask,
    Speculation,
    WayBack,
)
from draftscope.session.chats import Chats
from draftscope.session.log_book import LogBook
from draftscope.session.meter import Meter
from draftscope.session.probing import Probing
from draftscope.session.run_record import RunRecord
from draftscope.session.run_request import RunRequest
from draftscope.session.slots import Slots
from draftscope.session.state import SessionState
from draftscope.session.view_state import ViewState
from tests.panels.made_run import PIECES, RunMaker
from tests.session.scripted_client import ScriptedClient


class MadeSession(QObject):
    """What panels read of a session, writable."""

    state_changed = Signal()
    model_changed = Signal()
    records_appended = Signal()
    run_started = Signal()
    turn_started = Signal()
    run_finished = Signal()
    log_appended = Signal()
    failed = Signal(object)
    progress_changed = Signal(float, str)

    def __init__(self) -> None:
        super().__init__()
        self.view = ViewState(self)
        self.meter = Meter()
        self.log = LogBook()
        self.slots = Slots(ScriptedClient(), self)
        self.probing = Probing(ScriptedClient(), self)
        self.n_arrays_lost = 0
        self.state = SessionState.NO_MODEL
        self.model: ModelReport | None = None
        self.death: EngineDied | None = None
        self.saved_facts: tuple[tuple[str, str], ...] = ()
        self._record = RunRecord()
        self.trace = self._record.trace
        self.pieces = self._record.pieces
        self.acceptance = self._record.acceptance
        self.busy_slots: frozenset[int] = frozenset()
        self.stopping_slots: frozenset[int] = frozenset()
        self.chats = Chats(self, self)  # type: ignore[arg-type]
        self.turns: list[SlotTask] = []

    @property
    def is_running(self) -> bool:
        """Whether slots are at work."""
        return self.state in (SessionState.RUNNING, SessionState.STOPPING)

    @property
    def tasks(self) -> tuple[SlotTask, ...]:
        """Tasks of the run."""
        return self._record.tasks

    @property
    def run_report(self) -> object:
        """The engine's counts when the run has ended."""
        return self._record.report

    @property
    def memory(self) -> tuple[MemoryUse, ...]:
        """Bytes as the engine told last."""
        return self._record.memory or (self.model.memory if self.model is not None else ())

    def run_turn(self, context: ContextSettings, task: SlotTask) -> None:
        """A slot goes on with its conversation."""
        self.turns.append(task)
        self._record.go_on((task,))
        self.chats.begin_turn((task,))
        self.busy_slots |= {task.slot}
        self.state = SessionState.RUNNING
        self.state_changed.emit()
        self.turn_started.emit()

    def stop_slot(self, slot: int) -> None:
        """A slot is asked to stop."""
        self.stopping_slots |= {slot}

    def end_turn(self, result: SlotResult) -> None:
        """A turn has ended."""
        task = next(task for task in self.turns if task.slot == result.slot)
        finished = Finished(CommandId(0), (result,), RunReport(DecodeCounts(), 0, 0, 0, 1.0))
        self.busy_slots -= {result.slot}
        self._record.finish(finished)
        self.chats.end_tasks((task,), finished)
        if not self.busy_slots:
            self.end_run()

    def take_model(self, model: ModelReport) -> None:
        """A model was loaded."""
        self.model = model
        self.state = SessionState.READY
        self.model_changed.emit()
        self.state_changed.emit()

    def begin_run(self, n_slots: int) -> None:
        """A run of as many slots begins."""
        assert self.model is not None
        tasks = tuple(SlotTask(slot, Prompt(text="Read the file.")) for slot in range(n_slots))
        self._record.begin(self.model, RunRequest(ContextSettings(n_slots=n_slots), tasks), tasks)
        self.chats.begin_run(tasks)
        self.pieces.add(PIECES)
        self.busy_slots = frozenset(range(n_slots))
        self.state = SessionState.RUNNING
        self.state_changed.emit()
        self.run_started.emit()

    def receive(self, records: Records) -> None:
        """Records came."""
        self._record.append(records)
        self.meter.add_receive(len(records), 100_000)
        self.records_appended.emit()

    def receive_arrays(self, arrays: list[SideArray]) -> None:
        """What probes measured came."""
        self._record.append_arrays(arrays)
        self.records_appended.emit()

    def end_run(self) -> None:
        """The run has ended."""
        self.busy_slots = self.stopping_slots = frozenset()
        self.state = SessionState.READY
        self.state_changed.emit()
        self.run_finished.emit()


def made_model(*, reason: str = "", n_slots: int = 4, n_slots_asked: int = 4) -> ModelReport:
    """A report of a model; ``reason`` says why it does not speculate."""
    return ModelReport(
        path="/models/tiny.gguf",
        description="qwen35 0.02B Q8_0",
        architecture="qwen35",
        size_bytes=21 * 2**20,
        n_params=20_000_000,
        n_layer=9,
        n_embd=256,
        n_vocab=8192,
        n_ctx_train=4096,
        has_tokenizer=True,
        has_chat_template=False,
        is_recurrent=True,
        n_slots_asked=n_slots_asked,
        n_slots=n_slots,
        n_ctx=2048,
        n_threads=2,
        devices=(),
        speculation=Speculation(not reason, 1, 3, reason),
        way_back=WayBack(CheckpointMode.AUTO, "rollback", 3, 3, "granted as asked", 4 * 2**20),
        engine="llama.cpp b7000",
        is_patched=True,
        load_ms=213.0,
    )


def running_session(n_slots: int = 4, n_rounds: int = 30) -> tuple[MadeSession, RunMaker]:
    """A session in the middle of a run, and what makes more records for it."""
    session = MadeSession()
    session.take_model(made_model(n_slots=n_slots))
    session.begin_run(n_slots)
    maker = RunMaker(n_slots=n_slots)
    maker.prompt()
    maker.rounds(n_rounds)
    session.receive(maker.records())
    return session, maker
