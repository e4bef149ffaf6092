"""What the window tells of an export while its dialog is not there: how far it is, and where the file is."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QDesktopServices

from draftscope.session.export_job import ExportJob
from draftscope.session.exports import Exports
from draftscope.window.notices import Notice, NoticeArea, Offer, ProgressNotice


def show_in_folder(path: Path) -> None:
    """Open the folder that a file lies in, or the folder itself, in the system's file manager."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path if path.is_dir() else path.parent)))


class ExportNotices(QObject):
    """Follows ``exports``; says nothing while a dialog does."""

    def __init__(self, exports: Exports, area: NoticeArea, parent: QObject) -> None:
        super().__init__(parent)
        self._exports = exports
        self._area = area
        self.progress = ProgressNotice(exports.cancel)
        area.add_progress(self.progress)
        exports.progressed.connect(self._on_progressed)
        exports.ended.connect(self._on_ended)

    def _on_progressed(self, fraction: float) -> None:
        if self._exports.is_watched:
            self.progress.hide()
        else:
            self.progress.tell("Exporting the run", fraction)

    def _on_ended(self, job: ExportJob) -> None:
        self.progress.hide()
        if self._exports.is_watched:
            return
        if job.error:
            hint = "Choose another place, then export again."
            self._area.show_notice(Notice(f"The run could not be exported to {job.path}.", hint, job.error))
        elif not job.is_cancelled:
            from draftscope.trace.export.formats import BY_ID

            offers = [Offer("Show in folder", lambda: show_in_folder(job.path))]
            hint = BY_ID[job.format_id].sentence
            self._area.show_notice(Notice(f"Exported to {job.path}.", hint, "", offers, tone="ok"))
