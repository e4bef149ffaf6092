"""The table of actions as Qt's objects, kept true to the situation."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QIcon, QKeySequence

from draftscope.base.theme import Theme
from draftscope.window.action import Action
from draftscope.window.actions import ACTIONS
from draftscope.window.commands import Commands
from draftscope.window.icons import tinted_icon
from draftscope.window.situation import Situation


class ActionSet(QObject):
    """One ``QAction`` a row. A disabled one says why in its tooltip and status tip."""

    def __init__(self, commands: Commands, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._rows = {row.id: row for row in ACTIONS}
        self._actions: dict[str, QAction] = {}
        self._situation: Situation | None = None
        for row in ACTIONS:
            action = QAction(row.text, parent)
            action.setObjectName(f"action_{row.id}")
            action.setIconText(row.short or row.text.rstrip("…"))
            action.setCheckable(row.is_checked is not None)
            if row.shortcut:
                action.setShortcut(QKeySequence(row.shortcut))
            # ``triggered`` and not ``toggled``: following the situation must not act.
            action.triggered.connect(partial(self._do, row, commands))
            self._actions[row.id] = action
        self.set_theme(theme)

    def __getitem__(self, id: str) -> QAction:
        return self._actions[id]

    def rows(self) -> list[tuple[Action, QAction]]:
        """Every row with its object, in the order of the table."""
        return [(row, self._actions[row.id]) for row in self._rows.values()]

    def follow(self, now: Situation) -> None:
        """Enable, disable and check every action as the situation says; does nothing when it is the same."""
        if now == self._situation:
            return
        self._situation = now
        for row, action in self.rows():
            reason = row.why_not(now)
            action.setEnabled(not reason)
            shortcut = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            tip = f"{row.tip} ({shortcut})" if shortcut else row.tip
            action.setToolTip(f"{tip}\n{reason}" if reason else tip)
            action.setStatusTip(reason or row.tip)
            if row.is_checked is not None:
                action.setChecked(row.is_checked(now))

    def set_theme(self, theme: Theme) -> None:
        """Draw the icons in a theme's colours."""
        for row, action in self.rows():
            colour = theme.on_accent if row.id == "run" else None
            action.setIcon(tinted_icon(row.icon, theme, colour) if row.icon else QIcon())

    def _do(self, row: Action, commands: Commands, _checked: bool = False) -> None:
        row.do(commands)
        if row.is_checked is not None and self._situation is not None:
            # Qt flipped the check mark by itself; the situation says what is true.
            self._actions[row.id].setChecked(row.is_checked(self._situation))
