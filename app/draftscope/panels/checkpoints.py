"""The Checkpoints panel: what going back costs, in time and in memory, and how the way back was chosen."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QStackedWidget, QTabBar, QVBoxLayout

from draftscope.base.theme import Theme
from draftscope.engine.events import Kind
from draftscope.panels.calibration_rows import why_not_calibrated
from draftscope.panels.checkpoint_choice import CheckpointChoice
from draftscope.panels.checkpoint_memory import CheckpointMemory
from draftscope.panels.checkpoint_times import CheckpointTimes
from draftscope.panels.checkpoint_words import NOTHING_SAVED, badges, headline, why_no_events
from draftscope.panels.event_plot import Event
from draftscope.panels.fallback_list import FallbackList
from draftscope.panels.mechanism_badges import MechanismBadges
from draftscope.panels.page import Page
from draftscope.panels.panel import Panel, why_no_run
from draftscope.panels.panel_style import tab_bar_style
from draftscope.panels.round_step import step_round
from draftscope.panels.time_strips import TimeStrips, strips_of
from draftscope.session.shown_run import ShownRun
from draftscope.trace.checkpoints import CheckpointTable

TABS = (
    ("Times", "Every save and restore, over rounds"),
    ("Spread", "How save and restore times are spread, by mechanism and slot"),
    ("Memory", "Bytes by kind, and how they grow with the slots"),
    ("Calibration", "What each way back costs on this model, and which was taken"),
    ("Fallbacks", "When another way back was taken, and why"),
)
TIMES, SPREAD, MEMORY, CALIBRATION, FALLBACKS = range(len(TABS))


class CheckpointsPanel(Panel):
    """Badges of the ways back over five pages; only the page in front is brought up to date."""

    id: ClassVar[str] = "checkpoints"
    title: ClassVar[str] = "Checkpoints"
    news_per_s: ClassVar[float] = 5.0

    def __init__(self, session: ShownRun, theme: Theme) -> None:
        super().__init__(session, theme)
        self.table = CheckpointTable()
        self.badges = MechanismBadges(theme)
        self.tabs = QTabBar()
        self.times = CheckpointTimes(theme, self.paint_clock)
        self.strips = TimeStrips(theme, self.paint_clock)
        self.memory = CheckpointMemory(theme, self.paint_clock)
        self.choice = CheckpointChoice(theme)
        self.fallbacks = FallbackList(theme)
        self._scroll = QScrollArea()
        self._scroll.setWidget(self.strips)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        contents = (self.times, self._scroll, self.memory, self.choice, self.fallbacks)
        self.pages = tuple(Page(theme, content) for content in contents)
        self._book = QStackedWidget()
        self._build()
        self._connect()
        self._apply_theme()

    def _build(self) -> None:
        for title, means in TABS:
            self.tabs.setTabToolTip(self.tabs.addTab(title), means)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideRight)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.tabs.setAccessibleName("Pages of the Checkpoints panel")
        for page in self.pages:
            self._book.addWidget(page)
        head = QHBoxLayout()
        head.setContentsMargins(10, 6, 8, 2)
        head.addWidget(self.badges, 1)
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 0, 8, 0)
        bar.addWidget(self.tabs, 1)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(2)
        layout.addLayout(head)
        layout.addLayout(bar)
        layout.addWidget(self._book, 1)

    def _connect(self) -> None:
        session = self.session
        session.records_appended.connect(self.mark_news)
        session.run_started.connect(self._on_run_started)
        session.run_finished.connect(self.mark_stale)
        session.view.selected_round_changed.connect(self.mark_stale)
        self.tabs.currentChanged.connect(self._on_tab_changed)
        self.times.changed.connect(self.mark_stale)
        self.times.plot.event_clicked.connect(self._on_event_clicked)
        self.times.plot.x_clicked.connect(self._on_x_clicked)
        self.times.plot.step_asked.connect(self._on_step_asked)
        self.fallbacks.round_clicked.connect(session.view.select_round)

    def show_fallbacks(self) -> None:
        """Turn to the page of the fallbacks."""
        self.tabs.setCurrentIndex(FALLBACKS)

    def _why_empty(self) -> tuple[str, str] | None:
        if self.session.model is not None or self.session.trace.n_records:
            return None
        return why_no_run(self.session, "what going back after a rejected draft costs")

    def _refresh_body(self) -> None:
        self.table.update(self.session.trace)
        model = self.session.model
        n_fallbacks = len(self.session.trace.kind(Kind.FALLBACK))
        if model is not None:
            self.badges.show_badges(badges(model))
            self.set_headline(headline(model, self.table, n_fallbacks))
        self.tabs.setTabText(FALLBACKS, f"Fallbacks ({n_fallbacks:,})" if n_fallbacks else "Fallbacks")
        index = self.tabs.currentIndex()
        self._book.setCurrentIndex(index)
        refresh_page = (
            self._refresh_times,
            self._refresh_spread,
            self._refresh_memory,
            self._refresh_choice,
            self._refresh_fallbacks,
        )[index]
        refresh_page(self.pages[index])

    def _refresh_times(self, page: Page) -> None:
        if page.show_content(why_no_events(self.session, self.table)):
            self.times.show_times(self.table, self.session.model, self.session.view.selected_round)

    def _refresh_spread(self, page: Page) -> None:
        if page.show_content(why_no_events(self.session, self.table)):
            self.strips.show_strips(*strips_of(self.table))

    def _refresh_memory(self, page: Page) -> None:
        model, uses = self.session.model, self.session.memory
        reason = None
        if model is None or not uses:
            reason = ("The memory is not known", "This engine has not told how many bytes its contexts take, by kind.")
        if page.show_content(reason) and model is not None:
            self.memory.show_memory(uses, model.n_slots)

    def _refresh_choice(self, page: Page) -> None:
        model = self.session.model
        if model is None:
            reason: tuple[str, str] | None = ("No model is loaded", "What each way back costs is timed on a model.")
        elif not model.speculation.is_active:
            reason = ("Nothing is drafted", f"{model.speculation.reason} No way back is needed then.")
        else:
            reason = None if model.way_back.calibration else why_not_calibrated(model.way_back)
        if page.show_content(reason) and model is not None:
            self.choice.show_calibration(model.way_back)

    def _refresh_fallbacks(self, page: Page) -> None:
        trace = self.session.trace
        records = trace.kind(Kind.FALLBACK)
        reason = None if len(records) else self._why_no_fallbacks()
        if page.show_content(reason):
            self.fallbacks.show_fallbacks(records, trace.generation)

    def _why_no_fallbacks(self) -> tuple[str, str]:
        model = self.session.model
        if model is not None and not model.speculation.is_active:
            return "Nothing is drafted", f"{model.speculation.reason} {NOTHING_SAVED}"
        not_run = why_no_run(self.session, "whether another way back had to be taken")
        return not_run or ("No fallbacks", "Every save and restore of this run was done by the mechanism in use.")

    def _on_run_started(self) -> None:
        self.times.plot.view.enableAutoRange(x=True)
        self.mark_stale()

    def _on_tab_changed(self, index: int) -> None:
        self._book.setCurrentIndex(index)
        self.mark_stale()

    def _on_event_clicked(self, event: Event) -> None:
        self.session.view.select_round(event.round)

    def _on_x_clicked(self, x: float) -> None:
        self.session.view.select_round(max(round(x), 0))

    def _on_step_asked(self, step: int) -> None:
        step_round(self.session, step)

    def _apply_theme(self) -> None:
        theme = self.theme
        self.tabs.setStyleSheet(tab_bar_style(theme))
        self._scroll.setStyleSheet(f"QScrollArea {{ background: {theme.panel}; }}")
        for part in (self.badges, self.times, self.strips, self.memory, self.choice, self.fallbacks):
            part.set_theme(theme)
        for page in self.pages:
            page.set_theme(theme)
