"""How far an export is, and where it is when it is done: one page of the export dialog."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QProgressBar, QVBoxLayout, QWidget

from draftscope.base import units
from draftscope.session.export_job import ExportJob


class ExportProgress(QWidget):
    """A sentence, the path, and a bar that goes when the export has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.sentence = QLabel()
        self.path = QLabel()
        self.path.setWordWrap(True)
        self.path.setTextFormat(Qt.TextFormat.PlainText)
        self.path.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.path.setProperty("isDim", True)
        self.bar = QProgressBar()
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress of the export")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.sentence)
        layout.addWidget(self.path)
        layout.addWidget(self.bar)

    def begin(self, n_records: int, path: Path) -> None:
        """An export of so many records begins."""
        self.sentence.setText(f"Writing {n_records:,} records …")
        self.path.setText(str(path))
        self.bar.setValue(0)
        self.bar.show()

    def tell(self, fraction: float) -> None:
        """How far it is; ``fraction`` in [0, 1]."""
        self.bar.setValue(round(fraction * 1000))

    def finish(self, job: ExportJob) -> None:
        """It is written."""
        self.sentence.setText(f"Done: {units.bytes_text(job.size_bytes)} are written.")
        self.bar.hide()
