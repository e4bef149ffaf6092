"""The docks around the output: their places, the layout that is remembered, and the panels that fill them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtWidgets import QDockWidget, QMainWindow, QStackedWidget, QTabWidget, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.panel import Panel
from draftscope.session.settings import Settings
from draftscope.window.dock_title import DockTitle
from draftscope.window.panel_rows import PanelRow

LAYOUT_VERSION = 3
"""Raised when docks come or go, so that a layout kept by another version is not taken for this one's."""

_RIGHT = ("acceptance", "checkpoints", "restores", "engine", "log")
_TABBED = ("checkpoints", "restores", "engine", "log")
_BOTTOM = ("timeline",)


class Docks(QObject):
    """Movable, closable and floatable docks, one a panel; empty until ``fill``, so that the window is there sooner."""

    shown_changed = Signal()
    """A panel was shown, hidden, or brought before others."""

    def __init__(self, window: QMainWindow, rows: Sequence[PanelRow], theme: Theme) -> None:
        super().__init__(window)
        self._window = window
        self._docks: dict[str, QDockWidget] = {}
        self._titles: dict[str, DockTitle] = {}
        self._stacks: dict[str, QStackedWidget] = {}
        window.setDockNestingEnabled(True)
        window.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        window.setCorner(Qt.Corner.BottomRightCorner, Qt.DockWidgetArea.RightDockWidgetArea)
        for row in rows:
            self._add(row, theme)
        self.reset()

    def _add(self, row: PanelRow, theme: Theme) -> None:
        dock = QDockWidget(row.title, self._window)
        dock.setObjectName(f"dock_{row.id}")
        stack = self._stacks[row.id] = QStackedWidget()
        dock.setWidget(stack)
        title = DockTitle(dock, theme)
        dock.setTitleBarWidget(title)
        dock.visibilityChanged.connect(self._on_visibility_changed)
        self._docks[row.id] = dock
        self._titles[row.id] = title

    def fill(self, panel: Panel) -> None:
        """Put a panel of the live run into its dock."""
        self._stacks[panel.id].insertWidget(0, panel)
        panel.headline_changed.connect(partial(self._on_headline_changed, panel))
        self._show_headline(panel.id)

    def show_over_live(self, panel: Panel) -> None:
        """Show a panel of another run in the place of the live one's, until ``show_live``."""
        stack = self._stacks[panel.id]
        stack.addWidget(panel)
        stack.setCurrentWidget(panel)
        panel.headline_changed.connect(partial(self._on_headline_changed, panel))
        self._show_headline(panel.id)

    def show_live(self) -> None:
        """Show the panels of the live run again."""
        for id, stack in self._stacks.items():
            stack.setCurrentIndex(0)
            self._show_headline(id)

    def _on_headline_changed(self, panel: Panel, _text: str) -> None:
        self._show_headline(panel.id)

    def _show_headline(self, id: str) -> None:
        shown = self._stacks[id].currentWidget()
        if isinstance(shown, Panel):
            self._titles[id].show_headline(shown.headline)

    @property
    def shown(self) -> frozenset[str]:
        """Ids of the panels that are not closed; those behind another tab count as shown."""
        return frozenset(panel for panel, dock in self._docks.items() if not dock.isHidden())

    def dock(self, panel: str) -> QDockWidget:
        """The dock of a panel."""
        return self._docks[panel]

    def toggle(self, panel: str) -> None:
        """Close a panel, or show it and bring it to the front."""
        dock = self._docks[panel]
        if dock.isHidden():
            self.bring_forward(panel)
        elif dock.visibleRegion().isEmpty() and self._window.tabifiedDockWidgets(dock):
            dock.raise_()
        else:
            dock.hide()

    def bring_forward(self, panel: str) -> QWidget:
        """Show a panel, in front of those that share its place; gives the dock's content."""
        dock = self._docks[panel]
        dock.show()
        dock.raise_()
        return self._stacks[panel].currentWidget() or dock

    def reset(self) -> None:
        """Acceptance over Checkpoints, Restore diffs, Engine and Log at the right, Timeline under the output."""
        window = self._window
        for dock in self._docks.values():
            dock.setFloating(False)
            window.removeDockWidget(dock)
        right = [self._docks[panel] for panel in _RIGHT if panel in self._docks]
        for dock in right:
            window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
        for panel in _BOTTOM:
            window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, self._docks[panel])
        for before, after in pairwise(_TABBED):
            window.tabifyDockWidget(self._docks[before], self._docks[after])
        for dock in self._docks.values():
            dock.show()
        self._docks[_TABBED[0]].raise_()
        self._share_room(window.size())

    def _share_room(self, size: QSize) -> None:
        width, height = max(size.width(), 800), max(size.height(), 600)
        self._window.resizeDocks([self._docks["acceptance"]], [round(width * 0.36)], Qt.Orientation.Horizontal)
        column = [self._docks["acceptance"], self._docks[_TABBED[0]]]
        self._window.resizeDocks(column, [round(height * 0.5), round(height * 0.4)], Qt.Orientation.Vertical)
        self._window.resizeDocks([self._docks["timeline"]], [round(height * 0.30)], Qt.Orientation.Vertical)

    def save(self, settings: Settings) -> None:
        """Keep the layout."""
        settings.set_layout("docks", self._window.saveState(LAYOUT_VERSION))

    def restore(self, settings: Settings) -> None:
        """Take the layout that was kept; the default one where there is none or it does not fit."""
        kept = settings.layout("docks")
        if kept.isEmpty() or not self._window.restoreState(kept, LAYOUT_VERSION):
            self.reset()

    def set_theme(self, theme: Theme) -> None:
        """Draw the titles in a theme's colours."""
        for title in self._titles.values():
            title.set_theme(theme)

    def _on_visibility_changed(self) -> None:
        self.shown_changed.emit()
