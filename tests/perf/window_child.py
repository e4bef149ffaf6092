"""Opens the window as the program does, notes its first paint, runs the demo, notes its first token, and closes it.

Run in a process of its own by ``window``; prints the two moments as JSON, nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import json
import sys
import time

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication

from draftscope.engine.events import Kind
from draftscope.main import main
from draftscope.window.main_window import MainWindow

_REST_MS = 500
_LIMIT_MS = 30_000


class Watch(QObject):
    """Sees the window's first paint, then clicks on the demo and waits for its first token on the screen."""

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self._app = app
        self.moments: dict[str, int] = {}
        app.installEventFilter(self)
        QTimer.singleShot(_LIMIT_MS, self, self._give_up)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Note the first paint of the main window."""
        if event.type() is QEvent.Type.Paint and isinstance(watched, MainWindow):
            self._app.removeEventFilter(self)
            # After the paint events of this turn, so that what is measured has been drawn.
            QTimer.singleShot(0, self, lambda: self._on_painted(watched))
        return False

    def _on_painted(self, window: MainWindow) -> None:
        self.moments["painted_ns"] = time.monotonic_ns()
        QTimer.singleShot(_REST_MS, self, lambda: self._click(window))

    def _click(self, window: MainWindow) -> None:
        self.moments["clicked_ns"] = time.monotonic_ns()
        window.clock.ticked.connect(lambda: self._look(window))
        window.actions_by_id["demo"].trigger()

    def _look(self, window: MainWindow) -> None:
        if "token_ns" not in self.moments and len(window.session.trace.kind(Kind.TOKEN)):
            self.moments["token_ns"] = time.monotonic_ns()
            window.close()

    def _give_up(self) -> None:
        self._app.exit(1)


if __name__ == "__main__":
    watch = Watch(QApplication(["draftscope"]))
    code = main([])
    print(json.dumps(watch.moments))
    sys.exit(code)
