"""The pages on one restore: verdict, hidden rows, heat map over restores, draft distributions, recurrent layers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.probes import ArrayKind
from draftscope.panels.layer_map import LayerMap
from draftscope.panels.page import Page
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.panel_style import tab_bar_style
from draftscope.panels.restore_facts import RestoreFacts
from draftscope.panels.restore_pages import DraftPage, MapPage, RowsPage
from draftscope.panels.restore_words import (
    Reason,
    Shown,
    why_no_draft,
    why_no_layers,
    why_no_rows,
    why_not_probed,
)
from draftscope.session.shown_run import ShownRun
from draftscope.trace.restores import RestoreTable

TABS = (
    ("Verdict", "What was found, what it did, and what the hook is worth"),
    ("Rows", "Saved, restored and would-have-been hidden row, and whose row is in use"),
    ("Heat map", "Differences of the rows over restores and dimensions"),
    ("Draft", "The next draft from each of the three rows"),
    ("Layers", "The recurrent state, layer by layer"),
)
VERDICT, ROWS, MAP, DRAFT, LAYERS = range(len(TABS))


class RestoreDetails(QWidget):
    """Five pages; only the one in front is brought up to date."""

    changed = Signal()
    """Another page, or another view of it, is wanted."""
    restore_clicked = Signal(int)
    """Carries the place in the restore table of a restore that was clicked in the heat map."""

    def __init__(self, session: ShownRun, table: RestoreTable, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._session = session
        self._table = table
        self.tabs = QTabBar()
        self.facts = RestoreFacts(theme)
        self.rows = RowsPage(theme, clock)
        self.map = MapPage(theme, clock)
        self.draft = DraftPage(theme, clock)
        self.layers = LayerMap(theme, clock)
        self.pages = tuple(Page(theme, part) for part in (self.facts, self.rows, self.map, self.draft, self.layers))
        self._book = QStackedWidget()
        self._build()
        self.set_theme(theme)

    def _build(self) -> None:
        for title, means in TABS:
            self.tabs.setTabToolTip(self.tabs.addTab(title), means)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setElideMode(Qt.TextElideMode.ElideRight)
        self.tabs.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.tabs.setAccessibleName("Pages on the chosen restore")
        for page in self.pages:
            self._book.addWidget(page)
        self.tabs.currentChanged.connect(self._on_tab)
        self.rows.what.currentIndexChanged.connect(self.changed)
        self.map.what.currentIndexChanged.connect(self.changed)
        self.map.map.restore_clicked.connect(self.restore_clicked)
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 0, 8, 0)
        bar.addWidget(self.tabs, 1)
        for box in (self.rows.what, self.map.what):
            bar.addWidget(box)
            box.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(bar)
        layout.addWidget(self._book, 1)
        self._book.setMinimumHeight(40)  # less than the pages would like, so that the window can be small

    @property
    def page(self) -> Page:
        """The page in front."""
        return self.pages[self.tabs.currentIndex()]

    def show_restore(self, shown: Shown, places: NDArray[np.int64]) -> None:
        """Show a restore; ``places``: of those that pass the filter, for the heat map."""
        show = (self._show_facts, self._show_rows, self._show_map, self._show_draft, self._show_layers)
        if self.tabs.currentIndex() == MAP:
            self._show_map(shown, places)
        else:
            show[self.tabs.currentIndex()](shown, places)

    def _show_facts(self, shown: Shown, _places: NDArray[np.int64]) -> None:
        if self._is_there(why_not_probed(self._session, shown)):
            self.facts.show_restore(shown)

    def _show_rows(self, shown: Shown, _places: NDArray[np.int64]) -> None:
        if self._is_there(why_no_rows(self._session, shown)):
            self.rows.show_restore(self._session, shown)

    def _show_map(self, shown: Shown, places: NDArray[np.int64]) -> None:
        has_rows = self.map.show_restores(self._session, self._table, places, shown)
        self._is_there(None if has_rows else why_no_rows(self._session, shown))

    def _show_draft(self, shown: Shown, _places: NDArray[np.int64]) -> None:
        if self._is_there(why_no_draft(self._session, shown)):
            self.draft.show_restore(self._session, shown)

    def _show_layers(self, shown: Shown, _places: NDArray[np.int64]) -> None:
        if self._is_there(why_no_layers(self._session, shown)):
            layers = self._session.trace.array(shown.t_start_ns, ArrayKind.LAYERS)
            assert layers is not None
            self.layers.show_layers(layers)

    def _is_there(self, reason: Reason | None) -> bool:
        return self.page.show_content(reason)

    def _on_tab(self, index: int) -> None:
        self._book.setCurrentIndex(index)
        self.rows.what.setVisible(index == ROWS)
        self.map.what.setVisible(index == MAP)
        self.changed.emit()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self.tabs.setStyleSheet(tab_bar_style(theme))
        for part in (self.facts, self.rows.strip, self.rows.plot, self.map.map, self.draft, self.layers):
            part.set_theme(theme)
        for page in self.pages:
            page.set_theme(theme)
