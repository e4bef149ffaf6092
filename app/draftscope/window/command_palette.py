"""Find and do anything by its name."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QDialog, QLabel, QLineEdit, QListWidget, QListWidgetItem, QMainWindow, QVBoxLayout

from draftscope.window.action import Action
from draftscope.window.action_set import ActionSet

_ROLE = Qt.ItemDataRole.UserRole


class CommandPalette(QDialog):
    """A line and a list. Arrows move in the list while the line keeps the keyboard; Return does; Escape closes."""

    def __init__(self, actions: ActionSet, window: QMainWindow) -> None:
        super().__init__(window)
        self._actions = actions
        self.setWindowTitle("Find an action")
        self.setModal(True)
        self.resize(560, 380)
        self.line = QLineEdit()
        self.line.setPlaceholderText("Type a part of an action's name")
        self.line.setAccessibleName("Action to find")
        self.line.setClearButtonEnabled(True)
        self.line.textChanged.connect(self._fill)
        self.line.installEventFilter(self)
        self.list = QListWidget()
        self.list.setAccessibleName("Actions found")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.itemActivated.connect(self._do)
        self.list.itemClicked.connect(self._do)
        self.list.currentItemChanged.connect(self._tell)
        self.hint = QLabel()
        self.hint.setProperty("isDim", True)
        self.hint.setWordWrap(True)
        self.hint.setMinimumHeight(2 * self.hint.fontMetrics().lineSpacing())
        layout = QVBoxLayout(self)
        layout.addWidget(self.line)
        layout.addWidget(self.list, 1)
        layout.addWidget(self.hint)

    def ask(self) -> None:
        """Open with an empty line."""
        self.line.clear()
        self._fill()
        self.open()
        self.line.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Let the arrow keys and Return of the line work on the list."""
        if watched is self.line and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
            step = steps.get(Qt.Key(event.key()))
            if step is not None:
                row = min(max(self.list.currentRow() + step, 0), self.list.count() - 1)
                self.list.setCurrentRow(row)
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._do(self.list.currentItem())
                return True
        return super().eventFilter(watched, event)

    def _fill(self) -> None:
        words = self.line.text().casefold().split()
        self.list.clear()
        for row, action in sorted(self._actions.rows(), key=lambda found: not _has(found[0].text, words)):
            if row.id == "palette" or not _has(f"{row.menu} {row.text} {row.tip}", words):
                continue
            item = QListWidgetItem(_label(row, action.shortcut().toString()))
            item.setData(_ROLE, row.id)
            item.setToolTip(action.toolTip())
            if not action.isEnabled():
                # Still to be found and selected, so that the reason can be read.
                item.setForeground(self.palette().placeholderText())
            self.list.addItem(item)
        self.list.setCurrentRow(0)
        self._tell()

    def _tell(self) -> None:
        item = self.list.currentItem()
        if item is None:
            self.hint.setText("No action has that in its name.")
            return
        self.hint.setText(self._actions[item.data(_ROLE)].statusTip())

    def _do(self, item: QListWidgetItem | None) -> None:
        if item is None:
            return
        action = self._actions[item.data(_ROLE)]
        if action.isEnabled():
            self.accept()
            action.trigger()


def _has(text: str, words: list[str]) -> bool:
    return all(word in text.casefold() for word in words)


def _label(row: Action, shortcut: str) -> str:
    text = f"{row.menu}: {row.text.rstrip('…')}"
    return f"{text}    {shortcut}" if shortcut else text
