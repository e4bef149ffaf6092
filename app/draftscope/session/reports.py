"""One report at a time, written in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.trace.trace import Trace


class Reports(QObject):
    """Writes a report of a run and tells when that is done."""

    ended = Signal(object, str)
    """Carries the ``Path`` and why it could not be written, '' when it was."""
    _written = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thread: threading.Thread | None = None
        self._path = Path()
        self._written.connect(self._on_written)

    @property
    def is_running(self) -> bool:
        """Whether a report is being written."""
        return self._thread is not None

    def start(self, make_trace: Callable[[], Trace], path: Path, *, with_text: bool) -> None:
        """Begin to write, unless one is being written. ``make_trace`` is called in the thread."""
        if self._thread is not None:
            return
        self._path = path
        work = (make_trace, path, with_text)
        self._thread = threading.Thread(target=self._work, args=work, name="report", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait until what is being written is done; it takes well under a second."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self, make_trace: Callable[[], Trace], path: Path, with_text: bool) -> None:
        # Imported here: only those who write a report pay for it.
        from draftscope.trace.errors import TraceError
        from draftscope.trace.report import write_report

        try:
            write_report(make_trace(), path, with_text=with_text)
        except TraceError as error:
            self._written.emit(str(error))
        except Exception as error:  # the thread must not end without a word
            self._written.emit(f"The report {path} could not be written: {type(error).__name__}: {error}")
        else:
            self._written.emit("")

    def _on_written(self, error: str) -> None:
        self.close()
        self.ended.emit(self._path, error)
