"""Dialogs that ask what an action on a slot needs to know. None of them blocks."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget

from draftscope.session.session import Session
from draftscope.session.slots import Slots

SUFFIX = "slot"
FILTER = f"Saved slots (*.{SUFFIX});;All files (*)"


def ask_for_save(parent: QWidget, session: Session, slot: int) -> None:
    """Ask where a slot is to be saved, then save it."""
    model = Path(session.model.path).stem if session.model is not None else "model"
    dialog = _file_dialog(parent, f"Save slot {slot}")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(SUFFIX)
    dialog.selectFile(f"{model}-slot-{slot}.{SUFFIX}")
    dialog.fileSelected.connect(lambda path: session.slots.save(slot, path))
    dialog.open()


def ask_for_restore(parent: QWidget, session: Session, slot: int) -> None:
    """Ask which file a slot is to be restored from, then restore it."""
    dialog = _file_dialog(parent, f"Restore slot {slot}")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.fileSelected.connect(lambda path: session.slots.restore(slot, path))
    dialog.open()


def _file_dialog(parent: QWidget, title: str) -> QFileDialog:
    dialog = QFileDialog(parent, title, str(Path.home()), FILTER)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return dialog


def ask_for_fork(parent: QWidget, slots: Slots, slot: int, n_slots: int) -> None:
    """Ask which slot is to hold the same, saying what would be lost there, then fork."""
    others = sorted((to for to in range(n_slots) if to != slot), key=slots.n_tokens)  # the empty ones first
    names = {_target_name(slots, to): to for to in others}
    dialog = QInputDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(f"Fork slot {slot}")
    dialog.setLabelText(f"The {slots.n_tokens(slot):,} tokens of slot {slot} go to")
    dialog.setComboBoxItems(list(names))
    dialog.setOkButtonText("Fork")
    dialog.textValueSelected.connect(lambda name: slots.fork(slot, names[name]))
    dialog.open()


def _target_name(slots: Slots, slot: int) -> str:
    n = slots.n_tokens(slot)
    return f"Slot {slot}, which is empty" if n == 0 else f"Slot {slot}, in the place of its {n:,} tokens"
