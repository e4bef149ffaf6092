"""The Engine panel: what was loaded and granted, what the run counted, and what the tool itself costs."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QVBoxLayout

from draftscope.base.theme import Theme
from draftscope.panels.engine_facts import (
    context_section,
    death_section,
    meter_section,
    model_section,
    run_section,
    saved_section,
    speculation_section,
)
from draftscope.panels.fact_list import FactList, Section
from draftscope.panels.panel import Panel, why_no_model
from draftscope.panels.run_counters import RunCounters
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState

PANEL_TITLES = {
    "output": "output",
    "acceptance": "acceptance",
    "timeline": "timeline",
    "checkpoints": "checkpoints",
    "engine": "engine",
    "log": "log",
}


class EnginePanel(Panel):
    """Sections of facts; each has its definition in the tooltip."""

    id: ClassVar[str] = "engine"
    title: ClassVar[str] = "Engine"
    news_per_s: ClassVar[float] = 4.0

    def __init__(self, session: ShownRun, theme: Theme) -> None:
        super().__init__(session, theme)
        self.facts = FactList(theme)
        self.facts.setAccessibleName("Facts about the engine")
        self._counters = RunCounters()
        # Rates over the last second fall to 0 though nothing happens any more: look once more then.
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(1_100)
        self._later.timeout.connect(self.mark_stale)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.facts)
        session.records_appended.connect(self.mark_news)
        session.run_started.connect(self.mark_stale)
        session.run_finished.connect(self.mark_stale)
        self._apply_theme()

    def _why_empty(self) -> tuple[str, str] | None:
        if self.session.model is None and self.session.death is None:
            if self.session.state == SessionState.LOADING:
                return "The model is loading", "What the engine granted is shown here when it is done."
            if self.session.state is not SessionState.SAVED:
                return why_no_model("what is granted and what a run costs")
        return None

    def _refresh_body(self) -> None:
        self.facts.show_sections(self._sections())
        if self.session.meter.records_per_s > 0:
            self._later.start()
        model = self.session.model
        if self.session.death is not None:
            self.set_headline("stopped" if self.session.state is SessionState.ENGINE_DIED else "started again")
        elif model is not None:
            self.set_headline(model.way_back.granted if model.speculation.is_active else "no speculation")

    def _sections(self) -> list[Section]:
        session = self.session
        sections = []
        if session.saved_facts:
            sections.append(saved_section(session.saved_facts))
        if session.death is not None:
            sections.append(death_section(session.death, is_back=session.state is not SessionState.ENGINE_DIED))
        if session.model is not None:
            sections.append(context_section(session.model))
            sections.append(speculation_section(session.model))
        report = session.run_report
        if report is not None:
            sections.append(run_section(report, is_final=True))
        elif session.trace.n_records > 0:
            self._counters.update(session.trace)
            sections.append(run_section(self._counters.report(session.trace), is_final=False))
        if session.model is not None:
            sections.append(model_section(session.model))
        if not session.saved_facts:
            sections.append(meter_section(session.meter, PANEL_TITLES))
        return sections

    def _apply_theme(self) -> None:
        self.facts.set_theme(self.theme)
