"""What conversations need of the run that they belong to."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import SignalInstance

from draftscope.engine.protocol import ContextSettings, ModelReport, SlotTask
from draftscope.session.state import SessionState
from draftscope.trace.pieces import PieceTable
from draftscope.trace.store import TraceStore


class ChatHost(Protocol):
    """What the conversations need of the run that they belong to; see ``shown_run.ShownRun``."""

    @property
    def failed(self) -> SignalInstance:
        """Carries an ``ErrorReport``."""
        ...

    @property
    def state(self) -> SessionState:
        """Where the session stands."""
        ...

    @property
    def model(self) -> ModelReport | None:
        """What was loaded and granted, or None."""
        ...

    @property
    def context(self) -> ContextSettings | None:
        """The contexts that are in place, where they are known."""
        ...

    @property
    def trace(self) -> TraceStore:
        """The records of the run."""
        ...

    @property
    def pieces(self) -> PieceTable:
        """The bytes of the model's tokens that occurred."""
        ...

    @property
    def busy_slots(self) -> frozenset[int]:
        """Slots that have a task."""
        ...

    @property
    def stopping_slots(self) -> frozenset[int]:
        """Slots that were asked to stop."""
        ...

    def run_turn(self, context: ContextSettings, task: SlotTask) -> None:
        """Run one task beside what other slots do."""
        ...

    def stop_slot(self, slot: int) -> None:
        """End what one slot does."""
        ...
