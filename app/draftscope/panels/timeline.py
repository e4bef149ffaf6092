"""The Timeline panel: where the time of each round goes, on the engine's own lane and in every slot."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QSizePolicy, QToolButton, QVBoxLayout

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.engine.events import Kind, Phase
from draftscope.panels.lane_view import LaneView
from draftscope.panels.panel import Panel, why_no_run
from draftscope.panels.panel_style import small_button_style
from draftscope.panels.phase_legend import PhaseLegend
from draftscope.panels.round_step import step_round
from draftscope.session.shown_run import ShownRun

HINT = "Wheel zooms, drag pans, Shift and drag measures, a click selects the round"


class TimelinePanel(Panel):
    """Legend and controls over the lanes, and under them what the pointer is on."""

    id: ClassVar[str] = "timeline"
    title: ClassVar[str] = "Timeline"
    news_per_s: ClassVar[float] = 15.0

    def __init__(self, session: ShownRun, theme: Theme) -> None:
        super().__init__(session, theme)
        self.lanes = LaneView(session.trace, theme, self.paint_clock)
        self._legend = PhaseLegend(theme)
        self._follow = QToolButton()
        self._fit = QToolButton()
        self._read_out = QLabel(HINT)
        self._phases: set[Phase] = set()
        self._n_spans_seen = 0
        self._whole_ns: tuple[int, int] | None = None
        self._generation = session.trace.generation
        self._build()
        self._connect()
        self._apply_theme()

    def _build(self) -> None:
        self._follow.setText("Follow")
        self._follow.setCheckable(True)
        self._follow.setChecked(True)
        self._follow.setToolTip("Keep the newest time in view (F)")
        self._fit.setText("Whole run")
        self._fit.setToolTip("Show all of the run (Home, or a double click on the lanes)")
        self._read_out.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._read_out.setTextFormat(Qt.TextFormat.PlainText)
        head = QHBoxLayout()
        head.setContentsMargins(12, 4, 8, 0)
        head.addWidget(self._legend, 1)
        head.addWidget(self._follow, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self._fit, 0, Qt.AlignmentFlag.AlignTop)
        foot = QHBoxLayout()
        foot.setContentsMargins(12, 0, 8, 4)
        foot.addWidget(self._read_out, 1)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(head)
        scroll = QScrollArea()
        scroll.setWidget(self.lanes)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        layout.addWidget(scroll, 1)
        layout.addLayout(foot)

    def _connect(self) -> None:
        session, view = self.session, self.session.view
        session.records_appended.connect(self.mark_news)
        session.run_started.connect(self._on_run_started)
        session.turn_started.connect(self._on_turn_started)
        session.run_finished.connect(self._on_run_finished)
        view.selected_round_changed.connect(self._on_round_selected)
        view.crosshair_changed.connect(self._on_crosshair_changed)
        view.time_range_changed.connect(self._on_time_range_changed)
        self._follow.toggled.connect(self.lanes.set_following)
        self._fit.clicked.connect(self.lanes.fit)
        self.lanes.follow_changed.connect(self._follow.setChecked)
        self.lanes.round_clicked.connect(view.select_round)
        self.lanes.round_step_asked.connect(self._on_round_step_asked)
        self.lanes.crosshair_moved.connect(view.set_crosshair)
        self.lanes.window_changed.connect(self._on_window_changed)
        self.lanes.read_out.connect(self._on_read_out)

    def _why_empty(self) -> tuple[str, str] | None:
        return why_no_run(self.session, "where the time of each round goes")

    def _refresh_body(self) -> None:
        spans = self.session.trace.kind(Kind.SPAN)
        if self._generation != self.session.trace.generation:
            self._on_run_started()
        codes = np.unique(spans["code"][self._n_spans_seen :])
        self._n_spans_seen = len(spans)
        self._phases.update(Phase(int(code)) for code in codes)
        self._legend.show_phases(self._phases)
        self.lanes.sync()
        limits = self.session.trace.time_range()
        self.set_headline(units.duration(limits[1] - limits[0]) if limits is not None else "")

    def _on_run_started(self) -> None:
        self._phases.clear()
        self._n_spans_seen = 0
        self._generation = self.session.trace.generation
        self.lanes.start_over()
        self.mark_stale()

    def _on_run_finished(self) -> None:
        # Who followed the run sees the whole of it now; who looked at a part goes on looking there.
        if self.lanes.is_following:
            self.lanes.fit()
        self._whole_ns = self.session.trace.time_range()
        self.mark_stale()

    def _on_turn_started(self) -> None:
        # The run goes on after its end: whoever sees the whole of it, however that came, follows it again.
        window, whole = self.lanes.window_ns, self._whole_ns
        if whole is not None and window.t0_ns <= whole[0] and whole[1] <= window.t1_ns:
            self.lanes.set_following(True)

    def _on_round_selected(self) -> None:
        self.lanes.set_selected_round(self.session.view.selected_round)

    def _on_round_step_asked(self, step: int) -> None:
        step_round(self.session, step)

    def _on_crosshair_changed(self) -> None:
        self.lanes.set_crosshair(self.session.view.crosshair_ns)

    def _on_time_range_changed(self) -> None:
        limits = self.session.view.time_range_ns
        if limits is not None:
            self.lanes.show_range(*limits)

    def _on_window_changed(self) -> None:
        window = self.lanes.window_ns
        self.session.view.set_time_range((window.t0_ns, window.t1_ns))

    def _on_read_out(self, text: str) -> None:
        self._read_out.setText(text or HINT)

    def _apply_theme(self) -> None:
        self.lanes.set_theme(self.theme)
        self._legend.set_theme(self.theme)
        self._read_out.setStyleSheet(f"color: {self.theme.dim}; background: transparent;")
        for button in (self._follow, self._fit):
            button.setStyleSheet(small_button_style(self.theme))
