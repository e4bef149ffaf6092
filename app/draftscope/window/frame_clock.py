"""The one clock that everything on the screen is drawn by."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from draftscope.panels.panel import Panel
from draftscope.session.session import Session

BUSY_MS = 16
"""60 Hz while the engine works or an export is written."""

MAX_SHARE = 0.5
"""Most of one processor that frames may take: where drawing is slow, they become fewer, not the engine slower."""

SLOWEST_MS = 100

IDLE_MS = 50
"""20 Hz else: a dead engine is still noticed at once, and a laptop stays cool."""


class FrameClock(QObject):
    """Each tick takes what the engine sent, then refreshes the panels that can be seen and are out of date."""

    ticked = Signal()
    """After the panels were refreshed."""

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._panels: list[Panel] = []
        self._frame_ms = 0.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.tick)
        session.state_changed.connect(self._set_pace)

    def add(self, panel: Panel) -> None:
        """Draw this panel, too."""
        self._panels.append(panel)

    def remove(self, panel: Panel) -> None:
        """Draw this panel no more."""
        self._panels.remove(panel)

    def start(self) -> None:
        """Start ticking."""
        self._set_pace()
        self._timer.start()

    def stop(self) -> None:
        """Tick no more."""
        self._timer.stop()

    def tick(self) -> None:
        """One frame."""
        started = time.perf_counter()
        self._session.poll()
        for panel in self._panels:
            # A dock behind another tab is not hidden, but nothing of it can be seen.
            if panel.is_stale and panel.isVisible() and not panel.visibleRegion().isEmpty():
                panel.refresh()
        self.ticked.emit()
        # A running mean over some ten frames, so that one slow frame does not make the picture stutter.
        self._frame_ms += 0.1 * ((time.perf_counter() - started) * 1e3 - self._frame_ms)
        self._set_pace()

    def _set_pace(self) -> None:
        is_busy = self._session.state.is_busy or self._session.exports.is_running
        interval = min(max(BUSY_MS if is_busy else IDLE_MS, round(self._frame_ms / MAX_SHARE)), SLOWEST_MS)
        if self._timer.interval() != interval:
            self._timer.setInterval(interval)
