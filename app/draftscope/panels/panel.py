"""What every panel is: a widget that knows when it is out of date and is drawn by the window's one clock."""

from __future__ import annotations

import time
from typing import ClassVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.empty_state import EmptyState
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.panel_style import panel_style
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState


class Panel(QWidget):
    """A view of the session. Subclasses build ``self.body`` and say what fills it.

    The window calls ``refresh`` when the panel is visible and stale; nothing is drawn or derived at other times. A
    subclass implements ``_refresh_body`` and ``_apply_theme``, and ``_why_empty`` for the time when there is nothing.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    surface: ClassVar[str] = "panel"
    """Name of the theme's surface that the panel lies on."""
    news_per_s: ClassVar[float] = 20.0
    """How often news of the run is drawn at most: not faster than it can be read, since the engine needs the machine.
    What the user does is drawn in the next frame."""

    headline_changed = Signal(str)
    """The figure that the dock shows beside the panel's title; '' for none."""

    def __init__(self, session: ShownRun, theme: Theme) -> None:
        super().__init__()
        self.session = session
        self.theme = theme
        self.headline = ""
        self._is_stale = True
        self._has_news = False
        self._next_news_s = 0.0
        self.setObjectName(f"panel_{self.id}")
        self.setAccessibleName(self.title)
        self.paint_clock = PaintClock()
        self.body = QWidget(self)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.empty = EmptyState(theme, self)
        self._stack = QStackedLayout(self)
        self._stack.setContentsMargins(0, 0, 0, 0)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.body)
        self._fill_background()
        session.state_changed.connect(self.mark_stale)
        session.model_changed.connect(self.mark_stale)

    @property
    def is_stale(self) -> bool:
        """Whether something that the panel shows has changed since it was last refreshed."""
        return self._is_stale or (self._has_news and time.monotonic() >= self._next_news_s)

    def mark_stale(self, *_: object) -> None:
        """Note that something changed; the next tick of the clock draws it if the panel can be seen."""
        self._is_stale = True

    def mark_news(self) -> None:
        """Note that the run went on; a tick draws it when it is time again (``news_per_s``)."""
        self._has_news = True

    def refresh(self) -> None:
        """Bring the panel up to date. Cheap when little has changed.

        The time taken goes into the session's meter, with that of the paintings since the last refresh.
        """
        started = time.perf_counter_ns()
        self._is_stale = self._has_news = False
        self._next_news_s = time.monotonic() + 1 / self.news_per_s
        reason = self._why_empty()
        if reason is not None:
            self.empty.explain(*reason)
            self.set_headline("")
        else:
            self._refresh_body()
        self._stack.setCurrentWidget(self.empty if reason is not None else self.body)
        spent = time.perf_counter_ns() - started + self.paint_clock.take_ns()
        self.session.meter.add_draw(self.id, spent)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of another theme, at once."""
        self.theme = theme
        self.empty.set_theme(theme)
        self._fill_background()
        self._apply_theme()
        self.mark_stale()
        self.update()

    def _fill_background(self) -> None:
        self.setStyleSheet(panel_style(self.objectName(), self.theme, self.surface))

    def set_headline(self, text: str) -> None:
        """Announce the panel's figure when it differs from the last one."""
        if text != self.headline:
            self.headline = text
            self.headline_changed.emit(text)

    def _why_empty(self) -> tuple[str, str] | None:
        """Title and explanation when there is nothing to show, else None."""
        raise NotImplementedError

    def _refresh_body(self) -> None:
        raise NotImplementedError

    def _apply_theme(self) -> None:
        raise NotImplementedError


def why_no_model(would_show: str) -> tuple[str, str]:
    """What an empty panel says before any model; ``would_show`` ends '... to see ...'."""
    return "No model is loaded", f"Open a GGUF file or run the demo to see {would_show}."


def why_no_run(session: ShownRun, would_show: str) -> tuple[str, str] | None:
    """Why no run has left anything to show yet, or None when one has; ``would_show`` ends '... to see ...'."""
    if session.trace.n_records > 0:
        return None
    match session.state:
        case SessionState.NO_MODEL:
            return why_no_model(would_show)
        case SessionState.LOADING:
            return "The model is loading", f"Press Run afterwards to see {would_show}."
        case SessionState.ENGINE_DIED:
            return "The engine has stopped", "It left no records. Start it again, then run."
        case SessionState.RUNNING | SessionState.STOPPING:
            return "The run has begun", "The first records are on their way."
        case SessionState.SAVED:
            return "The trace is empty", f"It has no records, so it cannot show {would_show}."
        case _:
            return "Nothing has run yet", f"Press Run or write to a slot to see {would_show}."
