"""Every shortcut, as a page that can be searched by eye: made of the table of actions."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QMainWindow,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
)

from draftscope.window.action_set import ActionSet
from draftscope.window.actions import MENUS

PANEL_KEYS = (
    ("Output", "Left, Right", "Select the round before or after"),
    ("Output", "Ctrl+C", "Copy the text of a slot"),
    ("Output", "Ctrl+R", "Regenerate the answer of the slot"),
    ("Message box", "Enter", "Send the message"),
    ("Message box", "Shift+Enter", "Begin a new line"),
    ("Message box", "Up", "Edit the message before"),
    ("Message box", "Esc", "Leave an edit"),
    ("Timeline", "F", "Follow the newest time"),
    ("Timeline", "Home", "Show the whole run"),
    ("Log", "Ctrl+C", "Copy the selected lines"),
    ("Everywhere", "Tab, Shift+Tab", "Go to the next or previous control"),
)
"""Keys that panels handle themselves while they have the keyboard: panel, keys, meaning."""


class ShortcutsPage(QDialog):
    """A tree of menus and panels with their keys."""

    def __init__(self, actions: ActionSet, window: QMainWindow) -> None:
        super().__init__(window)
        self.setWindowTitle("Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(620, 560)
        self.tree = QTreeWidget()
        self.tree.setHeaderLabels(["What", "Keys"])
        self.tree.setAccessibleName("Keyboard shortcuts")
        self.tree.setRootIsDecorated(False)
        self.tree.setSelectionMode(QTreeWidget.SelectionMode.NoSelection)
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.tree.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        for menu in MENUS:
            rows = [
                (row.text.rstrip("…"), action.shortcut().toString(QKeySequence.SequenceFormat.NativeText))
                for row, action in actions.rows()
                if row.menu == menu and row.shortcut
            ]
            self._add(menu, rows)
        for panel in dict.fromkeys(panel for panel, _, _ in PANEL_KEYS):
            self._add(panel, [(meaning, keys) for name, keys, meaning in PANEL_KEYS if name == panel])
        self.tree.expandAll()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self.tree, 1)
        layout.addWidget(buttons)

    def _add(self, title: str, rows: list[tuple[str, str]]) -> None:
        top = QTreeWidgetItem(self.tree, [title])
        font = top.font(0)
        font.setBold(True)
        top.setFont(0, font)
        for row in rows:
            QTreeWidgetItem(top, list(row))
