"""The Restore diffs panel: every restore with what a probe found there, and whether it mattered."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QSplitter, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.probes import Fault
from draftscope.panels.fonts import figure_font
from draftscope.panels.page import Page
from draftscope.panels.panel import Panel, why_no_model
from draftscope.panels.probe_bar import FaultBanner, ProbeBar
from draftscope.panels.restore_details import RestoreDetails
from draftscope.panels.restore_list import RestoreList
from draftscope.panels.restore_words import Shown, cost_words, headline, summary, why_no_restores
from draftscope.panels.round_step import step_round
from draftscope.panels.tips import plain_tip
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState
from draftscope.trace.probe_cost import ProbeCost
from draftscope.trace.restore_text import csv_table, markdown_table, restore_markdown
from draftscope.trace.restores import RestoreTable
from draftscope.trace.rows_in_use import RowsInUse

MOST_COPIED = 5_000
"""Restores that are copied at most, the newest; files hold all."""


class RestoreDiffsPanel(Panel):
    """The level switch over a list of restores over the pages on one of them."""

    id: ClassVar[str] = "restores"
    title: ClassVar[str] = "Restore diffs"
    news_per_s: ClassVar[float] = 5.0

    def __init__(self, session: ShownRun, theme: Theme) -> None:
        super().__init__(session, theme)
        self.table = RestoreTable()
        self.rows_in_use = RowsInUse()
        self.cost = ProbeCost()
        self.bar = ProbeBar(theme)
        self.banner = FaultBanner(theme)
        self.list = RestoreList(self.table, theme)
        self.details = RestoreDetails(session, self.table, theme, self.paint_clock)
        self.summary = QLabel()
        self._splitter = QSplitter(Qt.Orientation.Vertical)
        self._content = QWidget()
        self.page = Page(theme, self._content)
        self._build()
        self._connect()
        self._apply_theme()

    def _build(self) -> None:
        self.summary.setFont(figure_font(0.95))
        self.summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.summary.setContentsMargins(12, 0, 12, 2)
        self._splitter.addWidget(self.list)
        self._splitter.addWidget(self.details)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setSizes([150, 230])
        self._splitter.setStretchFactor(0, 2)
        self._splitter.setStretchFactor(1, 3)
        inner = QVBoxLayout(self._content)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(0)
        inner.addWidget(self.summary)
        inner.addWidget(self._splitter, 1)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 2)
        layout.setSpacing(2)
        layout.addWidget(self.bar)
        layout.addWidget(self.banner)
        layout.addWidget(self.page, 1)

    def _connect(self) -> None:
        session = self.session
        session.records_appended.connect(self.mark_news)
        session.run_started.connect(self._on_run_started)
        session.run_finished.connect(self.mark_stale)
        session.probing.changed.connect(self.mark_stale)
        session.view.selected_round_changed.connect(self._on_round_selected)
        self.bar.level_chosen.connect(session.probing.set_level)
        self.bar.copy_asked.connect(self.copy)
        self.banner.end_asked.connect(self._on_end_fault)
        self.list.filter_changed.connect(self.mark_stale)
        self.list.chosen_changed.connect(self._on_chosen)
        self.details.changed.connect(self.mark_stale)
        self.details.restore_clicked.connect(self._on_restore_clicked)
        self.details.rows.plot.step_asked.connect(self._on_step_asked)

    @property
    def shown(self) -> Shown | None:
        """The restore that is looked at; None where there is none."""
        place = self.list.place
        return Shown(place, self.table.rows[place], self.table.probe(place)) if 0 <= place < len(self.table) else None

    def copy(self, what: str) -> None:
        """Copy the restores shown (``markdown``, ``csv``), this one (``restore``), or the page (``picture``)."""
        clipboard, shown = QGuiApplication.clipboard(), self.shown
        places = self.list.model.places[-MOST_COPIED:].tolist()
        match what:
            case "markdown":
                clipboard.setText(markdown_table(self.table, places))
            case "csv":
                clipboard.setText(csv_table(self.table, places))
            case "restore" if shown is not None:
                clipboard.setText(restore_markdown(self.table, shown.place))
            case "picture":
                clipboard.setPixmap(self.details.page.grab())

    def _why_empty(self) -> tuple[str, str] | None:
        if self.session.model is not None or self.session.trace.n_records:
            return None
        if self.session.state is SessionState.NO_MODEL:
            return why_no_model("what each restore changed")
        return why_no_restores(self.session, self.table)

    def _refresh_body(self) -> None:
        trace, probing = self.session.trace, self.session.probing
        self.table.update(trace)
        self.rows_in_use.update(trace)
        self.cost.update(trace)
        reason = why_no_restores(self.session, self.table)
        self.bar.show_state(probing, cost_words(self.cost), "" if reason is None else f"{reason[0]}.")
        self.banner.show_fault(probing)
        if self.session.saved_facts:
            self.bar.level.setEnabled(False)
            self.bar.level.setToolTip("The highest level that was measured; a saved trace measures nothing more.")
        self.set_headline(headline(self.table))
        if not self.page.show_content(reason):
            return
        self.summary.setText(summary(self.table, self.rows_in_use))
        self.summary.setToolTip(plain_tip(self.summary.text()))
        self.list.show_table()
        shown = self.shown
        self.details.setVisible(shown is not None)
        if shown is not None:
            self.details.show_restore(shown, self.list.model.places)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Put list and pages side by side where there is more width than height."""
        super().resizeEvent(event)
        is_wide = self.width() > 1.7 * self.height() and self.width() > 900
        self._splitter.setOrientation(Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical)

    def _on_run_started(self) -> None:
        self.list.follow.setChecked(True)
        self.mark_stale()

    def _on_chosen(self) -> None:
        """The list's choice is everybody's, where it lies in a round."""
        shown = self.shown
        if shown is not None and shown.row["round"] >= 0:
            self.session.view.select_slot(int(shown.row["slot"]))
            self.session.view.select_round(int(shown.row["round"]))
        self.mark_stale()

    def _on_restore_clicked(self, place: int) -> None:
        if self.list.choose(place):
            self._on_chosen()

    def _on_round_selected(self) -> None:
        """Look at a restore of the selected round: of the selected slot, of one that differs, or of any."""
        round_id, shown = self.session.view.selected_round, self.shown
        self.mark_stale()
        if round_id is None or (shown is not None and shown.row["round"] == round_id):
            return
        places = self.list.model.places
        found = places[self.table.rows["round"][places] == round_id]
        if len(found):
            rows = self.table.rows[found]
            is_chosen = rows["slot"] == self.session.view.selected_slot
            self.list.choose(int(found[np.lexsort((rows["slot"], -rows["verdict"].astype(int), ~is_chosen))[0]]))

    def _on_step_asked(self, step: int) -> None:
        step_round(self.session, step)

    def _on_end_fault(self) -> None:
        self.session.probing.inject(Fault.NONE)

    def _apply_theme(self) -> None:
        theme = self.theme
        self.summary.setStyleSheet(f"color: {theme.dim}; background: transparent;")
        self._splitter.setStyleSheet(f"QSplitter::handle {{ background: {theme.line}; height: 1px; width: 1px; }}")
        for part in (self.bar, self.banner, self.list, self.details, self.page):
            part.set_theme(theme)
