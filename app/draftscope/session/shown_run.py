"""A run as panels see it: the live one (``Session``), or one from a file (``OpenedTrace``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.protocol import (
    ContextSettings,
    EngineDied,
    MemoryUse,
    ModelReport,
    RunReport,
    SlotResult,
    SlotTask,
)
from draftscope.session.chats import SAVED, Chats
from draftscope.session.exports import Exports
from draftscope.session.held_slots import HeldSlots
from draftscope.session.log_book import LogBook
from draftscope.session.meter import Meter
from draftscope.session.probe_levels import ProbeLevels
from draftscope.session.state import SessionState
from draftscope.session.view_state import ViewState
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.pieces import PieceTable
from draftscope.trace.store import TraceStore
from draftscope.trace.trace import Trace


class ShownRun(QObject):
    """What panels read, and hear of.

    Attributes:
        view: selection, time range and crosshair that the views share.
        meter: what the window measures about itself.
        log: lines of the engine and of the session.
        slots: what the slots hold.
        chats: the conversations of the slots.
        probing: what is measured at restores, and what they are made to do wrong.
        exports: progress and end of exports, one at a time in the window.
    """

    view: ViewState
    meter: Meter
    log: LogBook
    slots: HeldSlots
    chats: Chats
    probing: ProbeLevels
    exports: Exports

    state_changed = Signal()
    model_changed = Signal()
    records_appended = Signal()
    run_started = Signal()
    """A new run has begun; what the last one left is gone."""
    turn_started = Signal()
    """A slot goes on with its conversation, within the run that is here."""
    run_finished = Signal()
    log_appended = Signal()
    failed = Signal(object)
    """Carries an ``ErrorReport``. When the engine died its code is ENGINE_DIED and ``death`` is set."""

    @property
    def state(self) -> SessionState:
        """Where the session stands."""
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        """Whether more of the run is to come."""
        raise NotImplementedError

    @property
    def model(self) -> ModelReport | None:
        """What was loaded and granted, or None."""
        raise NotImplementedError

    @property
    def context(self) -> ContextSettings | None:
        """The contexts that are in place, as they were asked for; None when there are none, or they are not known."""
        raise NotImplementedError

    @property
    def trace(self) -> TraceStore:
        """The records of the run; the same object for good."""
        raise NotImplementedError

    @property
    def pieces(self) -> PieceTable:
        """The bytes of the model's tokens that occurred; the same object for good."""
        raise NotImplementedError

    @property
    def acceptance(self) -> AcceptanceTable:
        """The figures of the run, up to date with ``trace``."""
        raise NotImplementedError

    @property
    def tasks(self) -> tuple[SlotTask, ...]:
        """The tasks of the run that goes on or has ended; empty before the first."""
        raise NotImplementedError

    @property
    def results(self) -> Mapping[int, SlotResult]:
        """The engine's last results by slot, once the run has ended."""
        raise NotImplementedError

    @property
    def memory(self) -> tuple[MemoryUse, ...]:
        """Bytes by kind as the engine told last."""
        raise NotImplementedError

    @property
    def saved_facts(self) -> tuple[tuple[str, str], ...]:
        """Names and values on the file that a saved run is from; empty for the live one."""
        return ()

    @property
    def run_report(self) -> RunReport | None:
        """The engine's own counts of the run, once it has ended; None where they are not known."""
        return None

    @property
    def death(self) -> EngineDied | None:
        """How the engine died last, until something new is asked of it."""
        return None

    @property
    def n_arrays_lost(self) -> int:
        """Side arrays of probes that were lost because nobody read them in time."""
        return 0

    @property
    def busy_slots(self) -> frozenset[int]:
        """Slots that have a task, or wait for the others that were started with them."""
        return frozenset()

    @property
    def stopping_slots(self) -> frozenset[int]:
        """Slots that were asked to stop and have not yet ended."""
        return frozenset()

    def snapshot(self) -> Callable[[], Trace]:
        """The run as it is now: what gives it as a trace, for a worker thread, since that takes time."""
        raise NotImplementedError

    def export(self, format_id: str, path: str | Path, *, with_text: bool = True) -> None:
        """Write the run in a format of ``trace.export``, in a thread; ``exports`` tells the progress and can cancel."""
        raise NotImplementedError

    def run_turn(self, context: ContextSettings, task: SlotTask) -> None:
        """Run one task beside what other slots do. A run from a file has nobody who could."""
        self.failed.emit(ErrorReport(ErrorCode.BUSY, SAVED, "Choose 'Back to the live run'."))

    def stop_slot(self, slot: int) -> None:
        """End what one slot does; a run from a file does nothing."""
