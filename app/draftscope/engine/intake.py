"""Commands on their way from the thread that reads them to the engine thread, and the one closing message of each."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable

from draftscope.engine.codec import ProtocolError, decode
from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.protocol import (
    Answer,
    Cancel,
    Closing,
    CommandId,
    Configure,
    Done,
    Failed,
    Load,
    ProbeCommand,
    Shutdown,
    SlotCommand,
    Submit,
    Unload,
)

_log = logging.getLogger(__name__)

OrderedCommand = Load | Configure | Submit | SlotCommand | ProbeCommand | Unload | Shutdown
"""Commands that are carried out one after the other."""

StopSlots = Callable[[tuple[int, ...]], None]
"""Stops what the backend has in these slots; any thread, returns at once."""


class Order:
    """A command that is waiting or being carried out, and what of it was cancelled meanwhile.

    The reader thread cancels; the engine thread says which task of a Submit the backend has, and in which slot. Both
    hold the order's lock, so the backend is never told to stop a slot that another task was given in between.
    """

    def __init__(self, command: OrderedCommand) -> None:
        self.command = command
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._cancelled: set[int] = set()
        self._slots: dict[int, int] = {}

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel of everything came; it is about a load."""
        return self._is_cancelled

    @property
    def cancelled(self) -> frozenset[int]:
        """Indices of the tasks of a Submit that were cancelled."""
        with self._lock:
            return frozenset(self._cancelled)

    @property
    def is_nothing_left(self) -> bool:
        """Whether every task of the Submit was cancelled."""
        return isinstance(self.command, Submit) and len(self.cancelled) == len(self.command.tasks)

    def begin(self, index: int, slot: int) -> bool:
        """The backend has the task of this index now. True: it was cancelled before, and the backend does not know."""
        with self._lock:
            self._slots[index] = slot
            return index in self._cancelled

    def end(self, index: int) -> None:
        """The backend is done with the task; from now on its slot may be another task's."""
        with self._lock:
            self._slots.pop(index, None)

    def cancel(self, cancel: Cancel, stop: StopSlots) -> None:
        """Take back what a ``Cancel`` is about; ``stop`` is called for tasks that the backend has."""
        if cancel.commands and self.command.id not in cancel.commands:
            return
        with self._lock:
            self._is_cancelled |= not cancel.commands
            if not isinstance(self.command, Submit):
                return
            for index, task in enumerate(self.command.tasks):
                if not cancel.slots or self._slots.get(index, task.slot) in cancel.slots:
                    self._cancelled.add(index)
            if slots := tuple(slot for index, slot in self._slots.items() if index in self._cancelled):
                stop(slots)


class Intake:
    """Takes messages in one thread and gives orders to another, in order; cancels at once, past the queue.

    Args:
        answer: sends an answer; called from both threads.
        stop: stops tasks that the backend has.
    """

    def __init__(self, answer: Callable[[Answer], None], stop: StopSlots) -> None:
        self._answer = answer
        self._stop_slots = stop
        self._changed = threading.Condition()
        self._is_woken = False
        self._waiting: deque[Order] = deque()
        self._open: dict[CommandId, Order] = {}
        self._is_ending = False
        self._n_cancels = 0

    # ---- reader thread

    def receive(self, data: bytes) -> None:
        """Take one message in its JSON form. Whatever it is, it is answered where an id can be found in it."""
        try:
            message = decode(data)
        except ProtocolError as error:
            self._refuse(_id_in(data), str(error))
            return
        match message:
            case Cancel():
                self._cancel(message)
            case _ if isinstance(message, OrderedCommand):
                self._enqueue(message)
            case _:
                self._refuse(_id_in(data), f"{type(message).__name__} is an answer, not a command.")

    def _enqueue(self, command: OrderedCommand) -> None:
        with self._changed:
            is_taken, is_ending = command.id in self._open, self._is_ending
            if not is_taken and not is_ending:
                order = Order(command)
                self._open[command.id] = order
                self._waiting.append(order)
                self._changed.notify()
                if isinstance(command, Shutdown):
                    self._is_ending = True
        if is_taken:
            self._refuse(command.id, f"A command with the id {command.id} is still open.")
        elif is_ending:
            report = ErrorReport(ErrorCode.CANCELLED, "The engine is being shut down.", "Start it again.")
            self._answer(Failed(command.id, report))
        elif isinstance(command, Shutdown):
            self._stop(Cancel(command.id))

    def _cancel(self, command: Cancel) -> None:
        with self._changed:
            is_taken = command.id in self._open
        if is_taken:
            self._refuse(command.id, f"A command with the id {command.id} is still open.")
            return
        self._stop(command)
        self._answer(Done(command.id))

    def _stop(self, cancel: Cancel) -> None:
        """Mark what is cancelled and tell the backend; ``Order.begin`` catches a task on its way there."""
        with self._changed:
            orders = list(self._open.values())
        for order in orders:
            try:
                order.cancel(cancel, self._stop_slots)
            except Exception:
                _log.exception("The engine could not cancel.")
        with self._changed:
            self._n_cancels += 1
        self.wake()

    def _refuse(self, command: CommandId | None, why: str) -> None:
        _log.warning("A message was refused: %s", why)
        if command is not None:
            self._answer(Failed(command, ErrorReport(ErrorCode.PROTOCOL, why)))

    # ---- any thread

    def wake(self) -> None:
        """Let ``wait`` return."""
        with self._changed:
            self._is_woken = True
            self._changed.notify()

    # ---- engine thread

    @property
    def n_cancels(self) -> int:
        """Cancels whose marks are all made."""
        with self._changed:
            return self._n_cancels

    def take(self) -> Order | None:
        """The next order, or None when there is none; never blocks."""
        with self._changed:
            return self._waiting.popleft() if self._waiting else None

    def wait(self) -> None:
        """Block until something was received, cancelled or woken since the last call."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_woken or self._waiting)
            self._is_woken = False

    def close(self, closing: Closing) -> None:
        """Answer an open command for good; a second closing message of a command is not sent."""
        with self._changed:
            is_open = self._open.pop(closing.command, None) is not None
        if is_open:
            self._answer(closing)
        else:
            _log.error("A second closing message of command %d was held back.", closing.command)

    def close_waiting(self, error: ErrorReport) -> None:
        """Fail all orders that were not taken yet."""
        while (order := self.take()) is not None:
            self.close(Failed(order.command.id, error))


def _id_in(data: bytes) -> CommandId | None:
    """The id of something that is not quite a command."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    number = fields.get("id") if isinstance(fields, dict) else None
    return CommandId(number) if type(number) is int else None
