"""Commands on their way from the thread that reads them to the engine thread, and the one closing message of each."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

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
    Shutdown,
    Submit,
    Unload,
)

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Order:
    """A command that is waiting or being carried out, and what of it was cancelled meanwhile.

    ``is_cancelled`` is about a load; ``cancelled_slots`` are slots of a Submit. The reader thread sets them.
    """

    command: Load | Configure | Submit | Unload | Shutdown
    is_cancelled: bool = False
    cancelled_slots: set[int] = field(default_factory=set)

    def cancel(self, slots: tuple[int, ...]) -> None:
        """Take back what a ``Cancel`` of these slots (empty: all) is about."""
        self.is_cancelled = True
        if isinstance(self.command, Submit):
            mine = {task.slot for task in self.command.tasks}
            self.cancelled_slots |= mine & set(slots) if slots else mine

    @property
    def is_nothing_left(self) -> bool:
        """Whether every task of the Submit was cancelled."""
        return isinstance(self.command, Submit) and all(t.slot in self.cancelled_slots for t in self.command.tasks)


class Intake:
    """Takes messages in one thread and gives orders to another, in order; cancels at once, past the queue.

    Args:
        answer: sends an answer; called from both threads.
        cancel_tasks: stops tasks that the backend has (empty: all); any thread, returns at once.
    """

    def __init__(self, answer: Callable[[Answer], None], cancel_tasks: Callable[[tuple[int, ...]], None]) -> None:
        self._answer = answer
        self._cancel_tasks = cancel_tasks
        self._changed = threading.Condition()
        self._is_woken = False
        self._waiting: deque[Order] = deque()
        self._open: dict[CommandId, Order] = {}
        self._is_ending = False

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
            case Load() | Configure() | Submit() | Unload() | Shutdown():
                self._enqueue(message)
            case _:
                self._refuse(_id_in(data), f"{type(message).__name__} is an answer, not a command.")

    def _enqueue(self, command: Load | Configure | Submit | Unload | Shutdown) -> None:
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
            self._stop(())

    def _cancel(self, command: Cancel) -> None:
        with self._changed:
            is_taken = command.id in self._open
        if is_taken:
            self._refuse(command.id, f"A command with the id {command.id} is still open.")
            return
        self._stop(command.slots)
        self._answer(Done(command.id))

    def _stop(self, slots: tuple[int, ...]) -> None:
        """Mark first, tell the backend second: see ``Host`` for how a Submit in between is caught."""
        with self._changed:
            orders = list(self._open.values())
            for order in orders:
                order.cancel(slots)
        if any(isinstance(order.command, Submit) for order in orders):
            try:
                self._cancel_tasks(slots)
            except Exception:
                _log.exception("The engine could not cancel.")
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
