"""Menus and toolbar, made of the table of actions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QMainWindow, QMenu, QToolButton

from draftscope.panels.tips import plain_tip
from draftscope.session.settings import Settings
from draftscope.window.action_set import ActionSet
from draftscope.window.actions import MENUS, SLOT_ACTIONS, TOOLBAR
from draftscope.window.probe_actions import SLOT_SUBMENUS
from draftscope.window.setup_controls import SetupControls
from draftscope.window.toolbar import Toolbar


def fill_menu_bar(window: QMainWindow, actions: ActionSet, recent: RecentMenu) -> None:
    """One menu a name of ``MENUS``; rows of different groups are parted by a line."""
    menus = {name: window.menuBar().addMenu(f"&{name}") for name in MENUS}
    groups: dict[str, int] = {}
    for row, action in actions.rows():
        menu = menus[row.menu]
        menu.setToolTipsVisible(True)
        if groups.setdefault(row.menu, row.group) != row.group:
            menu.addSeparator()
            groups[row.menu] = row.group
        action.setIconVisibleInMenu(False)
        menu.addAction(action)
        if row.id == "open":
            menu.addMenu(recent)
        # Shortcuts work while the menu bar is hidden (full screen on some systems) only for the window's own actions.
        window.addAction(action)


def make_slot_menu(window: QMainWindow, actions: ActionSet, slot: int) -> QMenu:
    """What can be done with the selected slot, with its probes and its faults; deleted when it is closed."""
    menu = QMenu(f"Slot {slot}", window)
    menu.setToolTipsVisible(True)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    for id in SLOT_ACTIONS:
        menu.addAction(actions[id]) if id else menu.addSeparator()
    menu.addSeparator()
    for title, ids in SLOT_SUBMENUS.items():
        submenu = menu.addMenu(title)
        submenu.setToolTipsVisible(True)
        for id in ids:
            submenu.addAction(actions[id])
    return menu


def make_toolbar(window: QMainWindow, actions: ActionSet, controls: SetupControls) -> Toolbar:
    """The one toolbar; the filled button is Run."""
    toolbar = Toolbar(window)
    has_controls = False
    for id in TOOLBAR:
        if id:
            toolbar.addAction(actions[id])
            button = toolbar.widgetForAction(actions[id])
            assert isinstance(button, QToolButton)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setAccessibleName(actions[id].text().rstrip("…"))
            button.setProperty("isPrimary", id == "run")
        else:
            toolbar.addSeparator()
            if not has_controls:
                controls.add_to(toolbar)
                toolbar.addSeparator()
                has_controls = True
    window.addToolBar(Qt.ToolBarArea.TopToolBarArea, toolbar)
    return toolbar


class RecentMenu(QMenu):
    """The files opened last."""

    chosen = Signal(str)

    def __init__(self, settings: Settings, parent: QMainWindow) -> None:
        super().__init__("Open recent", parent)
        self._settings = settings
        self.setToolTipsVisible(True)
        settings.changed.connect(self._on_setting_changed)
        self._fill()

    def _on_setting_changed(self, key: str) -> None:
        if key == "recent/files":
            self._fill()

    def _fill(self) -> None:
        self.clear()
        for number, path in enumerate(self._settings.recent_files, 1):
            action = self.addAction(f"&{number % 10}  {Path(path).name}")
            action.setToolTip(plain_tip(path))
            action.triggered.connect(partial(self._open, path))
        self.setEnabled(not self.isEmpty())
        self.menuAction().setToolTip("" if self.isEnabled() else "No file has been opened yet.")

    def _open(self, path: str, _checked: bool = False) -> None:
        self.chosen.emit(path)
