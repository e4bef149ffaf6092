"""The Acceptance panel: how much of what was drafted was accepted, over the rounds and by draft position."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.engine.events import Kind
from draftscope.panels.fonts import figure_font
from draftscope.panels.panel import Panel, why_no_run
from draftscope.panels.plot import Axis, EndLabel, Plot
from draftscope.panels.position_bars import SCALE_WIDTH, PositionBar, PositionBars
from draftscope.panels.round_step import step_round
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState
from draftscope.trace.acceptance import SlotAcceptance

WINDOWS = (8, 32, 128)
"""Rounds of a slot that the moving acceptance can be taken over."""

Y_RANGE = (-0.04, 1.12)
"""A little more than 0 to 100 %, so that lines and ticks at both ends are seen whole."""

RATE_MEANS = (
    "Accepted draft tokens divided by drafted tokens. Acceptance is not speed: what a draft costs decides whether"
    " it pays."
)
LENGTH_MEANS = (
    "Tokens per round: 1 + accepted / rounds. Each round gives one token of the target's own besides the accepted ones."
)
POSITION_MEANS = "Rounds that accepted a token at this draft position, divided by rounds that drafted at least as far."


class AcceptancePanel(Panel):
    """Two plots: moving acceptance over rounds, and acceptance by draft position; click a round to select it."""

    id: ClassVar[str] = "acceptance"
    title: ClassVar[str] = "Acceptance"
    news_per_s: ClassVar[float] = 5.0

    def __init__(self, session: ShownRun, theme: Theme) -> None:
        super().__init__(session, theme)
        self._window = QComboBox()
        self.over_rounds = Plot(
            theme, Axis("bottom", "{:.0f}".format, is_whole=True), Axis("left", units.percent), self.paint_clock
        )
        self.by_position = PositionBars(theme, self.paint_clock)
        self._accepted = QLabel()
        self._length = QLabel()
        self._captions: list[QLabel] = []
        self._build()
        self._apply_theme()
        session.records_appended.connect(self.mark_news)
        session.run_started.connect(self._on_run_started)
        session.run_finished.connect(self.mark_stale)
        session.view.selected_round_changed.connect(self.mark_stale)

    def _build(self) -> None:
        for rounds in WINDOWS:
            self._window.addItem(f"last {rounds} rounds", rounds)
        self._window.setCurrentIndex(WINDOWS.index(32))
        self._window.setAccessibleName("Rounds that the moving acceptance is taken over")
        self._window.setToolTip("How many rounds of a slot each point of its line is taken over")
        self._window.currentIndexChanged.connect(self.mark_stale)
        self.over_rounds.setAccessibleName("Acceptance over rounds")
        self.over_rounds.setMinimumHeight(110)
        self.over_rounds.setYRange(*Y_RANGE, padding=0.0)
        self.over_rounds.getPlotItem().setLimits(xMin=-0.5, minXRange=4.0)
        scale = self.over_rounds.getPlotItem().getAxis("left")
        scale.setTickSpacing(0.25, 0.25)
        scale.setWidth(SCALE_WIDTH)
        self.over_rounds.setToolTip("Wheel zooms, drag pans, a click selects the round, a double click shows all")
        self.over_rounds.x_clicked.connect(self._on_x_clicked)
        self.over_rounds.step_asked.connect(self._on_step_asked)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(8, 4, 8, 4)
        layout.setSpacing(2)
        layout.addLayout(self._figures_row())
        layout.addLayout(self._caption("Accepted share of the draft, by round", RATE_MEANS, self._window))
        layout.addWidget(self.over_rounds, 3)
        layout.addLayout(self._caption("Accepted share by draft position", POSITION_MEANS))
        layout.addWidget(self.by_position, 2)

    def _figures_row(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setContentsMargins(4, 4, 4, 0)
        row.setSpacing(16)
        for label, means in ((self._accepted, RATE_MEANS), (self._length, LENGTH_MEANS)):
            label.setFont(figure_font())
            label.setToolTip(means)
            row.addWidget(label)
        row.addStretch(1)
        return row

    def _caption(self, text: str, means: str, *controls: QWidget) -> QHBoxLayout:
        label = QLabel(text)
        label.setToolTip(means)
        self._captions.append(label)
        row = QHBoxLayout()
        row.setContentsMargins(4, 4, 4, 0)
        row.addWidget(label, 1)
        for control in controls:
            row.addWidget(control)
        return row

    def _why_empty(self) -> tuple[str, str] | None:
        model = self.session.model
        is_loading = self.session.state is SessionState.LOADING
        if model is not None and not is_loading and not model.speculation.is_active:
            return "Nothing is drafted", model.speculation.reason
        reason = why_no_run(self.session, "which drafts are accepted")
        if reason is not None:
            return reason
        if self.session.acceptance.total().draft_n == 0:
            return "No draft yet", "The first drafts come once the prompts have been read."
        return None

    def _refresh_body(self) -> None:
        total = self.session.acceptance.total()
        slots = list(self.session.acceptance.slots())
        length = units.figure(total.mean_accepted_length)
        self.set_headline(f"{units.percent(total.rate)} of drafts · {length} tokens per round")
        self._accepted.setText(f"<b>{total.n_accepted:,}</b> of {total.draft_n:,} drafted tokens accepted")
        self._length.setText(f"<b>{length}</b> tokens per round")
        self._draw_over_rounds(slots)
        self.by_position.show_bars([bar for slot in slots for bar in _bars(slot, self.session.acceptance.slot(slot))])
        selected = self.session.view.selected_round
        self.over_rounds.mark_x(selected)

    def _draw_over_rounds(self, slots: list[int]) -> None:
        window = int(self._window.currentData())
        labels = []
        last_round = self.session.trace.kind(Kind.ROUND)["round"].max(initial=0)
        for slot in slots:
            rounds, rates = self.session.acceptance.over_rounds(slot, window)
            if len(rounds) == 0:
                continue
            self.over_rounds.set_line(slot, rounds, rates, float(last_round))
            known = np.flatnonzero(np.isfinite(rates))
            if len(known):
                labels.append(EndLabel(float(rates[known[-1]]), f"slot {slot}", self.theme.slot_text(slot)))
        self.over_rounds.drop_lines(slots)
        self.over_rounds.labels.show_labels(labels)

    def _on_run_started(self) -> None:
        self.over_rounds.drop_lines()
        self.over_rounds.getPlotItem().enableAutoRange(x=True)
        self.mark_stale()

    def _on_x_clicked(self, x: float) -> None:
        self.session.view.select_round(max(round(x), 0))

    def _on_step_asked(self, step: int) -> None:
        step_round(self.session, step)

    def _apply_theme(self) -> None:
        self.over_rounds.set_theme(self.theme)
        self.by_position.set_theme(self.theme)
        for label in (self._accepted, self._length):
            label.setStyleSheet(f"color: {self.theme.text}; background: transparent;")
        for label in self._captions:
            label.setStyleSheet(f"color: {self.theme.dim}; background: transparent;")


def _bars(slot: int, acceptance: SlotAcceptance) -> list[PositionBar]:
    columns = zip(acceptance.accepted_at, acceptance.drafted_at, acceptance.per_position, strict=True)
    return [
        PositionBar(slot, rank + 1, int(accepted), int(drafted), float(share))
        for rank, (accepted, drafted, share) in enumerate(columns)
    ]
