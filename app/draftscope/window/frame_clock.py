"""The one clock that everything on the screen is drawn by."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from draftscope.panels.panel import Panel
from draftscope.session.session import Session

BUSY_MS = 16
"""60 Hz while the engine works or an export is written."""

IDLE_MS = 50
"""20 Hz else: a dead engine is still noticed at once, and a laptop stays cool."""


class FrameClock(QObject):
    """Each tick takes what the engine sent, then refreshes the panels that can be seen and are out of date."""

    ticked = Signal()
    """After the panels were refreshed."""

    def __init__(self, session: Session, panels: Sequence[Panel], parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._panels = tuple(panels)
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.tick)
        session.state_changed.connect(self._set_pace)

    def start(self) -> None:
        """Start ticking."""
        self._set_pace()
        self._timer.start()

    def stop(self) -> None:
        """Tick no more."""
        self._timer.stop()

    def tick(self) -> None:
        """One frame."""
        self._session.poll()
        for panel in self._panels:
            # A dock behind another tab is not hidden, but nothing of it can be seen.
            if panel.is_stale and panel.isVisible() and not panel.visibleRegion().isEmpty():
                panel.refresh()
        self.ticked.emit()
        self._set_pace()

    def _set_pace(self) -> None:
        is_busy = self._session.state.is_busy or self._session.exports.is_running
        interval = BUSY_MS if is_busy else IDLE_MS
        if self._timer.interval() != interval:
            self._timer.setInterval(interval)
