"""Shows a saved trace in the places of the live run, which goes on behind it, and goes back to that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QStackedWidget

from draftscope.panels.output import OutputPanel
from draftscope.panels.panel import Panel
from draftscope.session.opened_trace import OpenedTrace
from draftscope.session.opened_traces import OpenedTraces
from draftscope.session.session import Session
from draftscope.session.shown_run import ShownRun
from draftscope.window.docks import Docks
from draftscope.window.frame_clock import FrameClock
from draftscope.window.notices import ProgressNotice
from draftscope.window.panel_rows import DOCKED
from draftscope.window.trace_bar import TraceBar

if TYPE_CHECKING:
    from draftscope.window.appearance import Appearance


class TraceView(QObject):
    """A second set of panels, made for each trace that is opened and gone when it is closed.

    The panels of the live run stay where they are, out of sight, where they neither draw nor derive.
    """

    changed = Signal()
    """``shown`` is another run."""

    def __init__(
        self, session: Session, docks: Docks, middle: QStackedWidget, clock: FrameClock, appearance: Appearance
    ) -> None:
        super().__init__(middle)
        self.traces = OpenedTraces(session.exports, self)
        self.bar = TraceBar()
        self.progress = ProgressNotice(self.traces.cancel)
        self.panels: list[Panel] = []
        self._session = session
        self._docks = docks
        self._middle = middle
        self._clock = clock
        self._appearance = appearance
        self.traces.progressed.connect(self._on_progressed)
        self.traces.reading_ended.connect(self.progress.hide)
        self.traces.opened.connect(self._on_opened)
        self.bar.back_asked.connect(self.back)
        session.run_started.connect(self._on_live_run_started)
        clock.ticked.connect(self._on_ticked)

    @property
    def opened(self) -> OpenedTrace | None:
        """The trace that is shown; None while the live run is."""
        return self.traces.current

    @property
    def shown(self) -> ShownRun:
        """What is on the screen."""
        return self.traces.current or self._session

    @property
    def output(self) -> Panel | None:
        """The output of the trace that is shown."""
        return self.panels[0] if self.panels else None

    def open(self, path: Path) -> None:
        """Read a file and show it when that is done."""
        self.progress.tell(f"Opening {path.name}", 0.0)
        self.traces.open(path)

    def back(self) -> None:
        """Show the live run again and forget the trace."""
        if self.opened is None:
            return
        self._docks.show_live()
        self._discard()
        self.traces.close_current()
        self.bar.hide()
        self.changed.emit()

    def close(self) -> None:
        """End the thread that reads, if there is one."""
        self.traces.close()

    def _on_opened(self) -> None:
        opened = self.opened
        assert opened is not None
        self._discard()
        theme = self._appearance.theme
        opened.view.set_show_rejected(self._session.view.show_rejected)
        output = OutputPanel(opened, theme)
        self.panels = [output]
        self._middle.addWidget(output)
        for row in DOCKED:
            panel = row.load()(opened, theme)
            self.panels.append(panel)
            self._docks.show_over_live(panel)
        for panel in self.panels:
            self._clock.add(panel)
        if not opened.is_running:
            opened.run_finished.emit()  # the timeline shows the whole of a run that has ended
        self.bar.tell(opened)
        self.bar.show()
        self.changed.emit()

    def _discard(self) -> None:
        for panel in self.panels:
            self._clock.remove(panel)
            panel.hide()
            panel.setParent(None)
            panel.deleteLater()
        self.panels = []

    def _on_progressed(self, name: str, fraction: float) -> None:
        self.progress.tell(f"Opening {name}", fraction)

    def _on_live_run_started(self) -> None:
        """Somebody has begun a run, which is what they want to see."""
        self.back()

    def _on_ticked(self) -> None:
        self.traces.poll()
        if self.opened is not None:
            self.bar.tell(self.opened)
