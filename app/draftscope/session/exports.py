"""One export at a time, watched from the frame clock."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.session.export_job import ExportJob
from draftscope.session.run_record import TraceSnapshot


class Exports(QObject):
    """Starts an export, tells how far it is, and ends it; ``poll`` is called by the session's.

    Attributes:
        is_watched: a dialog shows how the export goes, so nobody else need.
    """

    progressed = Signal(float)
    """Fraction in [0, 1]."""
    ended = Signal(object)
    """Carries the ``ExportJob``: written, failed (``error``) or cancelled."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._current: ExportJob | None = None
        self._fraction = -1.0
        self.is_watched = False

    @property
    def is_running(self) -> bool:
        """Whether an export is being written."""
        return self._current is not None

    def start(self, snapshot: TraceSnapshot, format_id: str, path: Path, *, with_text: bool) -> bool:
        """Begin to write in a format of ``trace.export.formats``; False when something is being written already."""
        if self._current is not None:
            return False
        self._current = ExportJob(snapshot, format_id, path, with_text=with_text)
        self._fraction = -1.0
        self._current.start()
        return True

    def cancel(self) -> None:
        """Ask the export to stop; ``ended`` comes when it has."""
        if self._current is not None:
            self._current.cancel()

    def poll(self) -> None:
        """Tell what has changed since the last call."""
        export = self._current
        if export is None:
            return
        if export.fraction != self._fraction:
            self._fraction = export.fraction
            self.progressed.emit(export.fraction)
        if export.is_done:
            export.join()
            self._current = None
            self.ended.emit(export)

    def close(self) -> None:
        """Cancel what is being written and wait until its thread has ended."""
        if self._current is not None:
            self._current.cancel()
            self._current.join()
            self._current = None
