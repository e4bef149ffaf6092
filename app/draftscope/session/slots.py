"""What the slots hold when nothing is at work in them, and what can be done with that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.base.units import bytes_text
from draftscope.engine.client import Client
from draftscope.engine.protocol import (
    ClearSlot,
    CommandId,
    Failed,
    ForkSlot,
    RestoreSlot,
    RewindSlot,
    SaveSlot,
    SlotChanged,
    SlotCommand,
)
from draftscope.session.held_slots import HeldSlot, HeldSlots


class Slots(HeldSlots):
    """Follows the records, and sends commands on slots; each is told when its answer has come.

    They are no state of the session: the engine carries them out in order with runs, and refuses one on a slot that is
    at work. ``is_changing``: an answer is still awaited.
    """

    text_changed = Signal(int, str)
    """A slot holds another text than the run left in it: its number and the text."""
    told = Signal(str)
    """A command has succeeded: a sentence."""
    saved = Signal(str)
    """The same of a save, of which nothing else is to be seen."""
    failed = Signal(object)
    """A command was refused: carries the ``ErrorReport``."""

    def __init__(self, client: Client, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._open: dict[CommandId, SlotCommand] = {}

    @property
    def is_changing(self) -> bool:
        """Whether a command is being carried out."""
        return bool(self._open)

    # ---- what can be asked for

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self._send(lambda id: ClearSlot(id, slot))

    def rewind(self, slot: int, n_tokens: int) -> None:
        """Keep the first tokens of a slot."""
        self._send(lambda id: RewindSlot(id, slot, n_tokens))

    def fork(self, slot: int, to: int) -> None:
        """Let another slot hold what this one holds."""
        self._send(lambda id: ForkSlot(id, slot, to))

    def save(self, slot: int, path: str | Path) -> None:
        """Write what a slot holds into a file."""
        self._send(lambda id: SaveSlot(id, slot, str(Path(path).absolute())))

    def restore(self, slot: int, path: str | Path) -> None:
        """Let a slot hold what a file holds."""
        self._send(lambda id: RestoreSlot(id, slot, str(Path(path).absolute())))

    def _send(self, make: Callable[[CommandId], SlotCommand]) -> None:
        command = make(self._client.next_id())
        self._open[command.id] = command
        self.changed.emit()
        self._client.send(command)

    # ---- what came

    def take(self, answer: SlotChanged | Failed) -> bool:
        """The answer to a command of this object; False: it is to another."""
        command = self._open.pop(answer.command, None)
        if command is None:
            return False
        if isinstance(answer, SlotChanged):
            self._take_change(command, answer)
        else:
            self.failed.emit(answer.error)
        self.changed.emit()
        return True

    def _take_change(self, command: SlotCommand, answer: SlotChanged) -> None:
        facts = answer.slot
        if not isinstance(command, SaveSlot):
            self._held[facts.slot] = HeldSlot(facts.n_tokens, _origin(command))
            self.text_changed.emit(facts.slot, facts.text)
        sentence = _sentence(command, answer)
        self.told.emit(sentence)
        if isinstance(command, SaveSlot):
            self.saved.emit(sentence)

    def forget(self) -> None:
        """Contexts were made anew, or the engine has ended: every slot is empty, and nothing is awaited any more."""
        self._held.clear()
        self._open.clear()
        self.changed.emit()


def _origin(command: SlotCommand) -> str:
    match command:
        case RestoreSlot():
            return f"restored from {Path(command.path).name}"
        case ForkSlot():
            return f"forked from slot {command.slot}"
        case RewindSlot():
            return "rewound"
        case ClearSlot():
            return "cleared"
        case _:
            return ""


def _sentence(command: SlotCommand, answer: SlotChanged) -> str:
    """What was done, for the log and for a notice."""
    n = answer.slot.n_tokens
    tokens = "1 token" if n == 1 else f"{n:,} tokens"
    match command:
        case SaveSlot():
            return f"Slot {command.slot} was saved to {command.path}: {tokens}, {bytes_text(answer.size_bytes)}."
        case RestoreSlot():
            return f"Slot {command.slot} holds {tokens} from {command.path}."
        case ForkSlot():
            return f"Slot {command.to} holds what slot {command.slot} holds: {tokens}."
        case RewindSlot():
            return f"Slot {command.slot} went back to its first {tokens}."
        case _:
            return f"Slot {answer.slot.slot} holds nothing any more." if n == 0 else f"Slot {command.slot}: {tokens}."
