"""The calibration page of the Checkpoints panel."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.protocol import WayBack
from draftscope.panels.calibration_rows import COLUMNS, calibration_note, calibration_rows
from draftscope.panels.figure_table import FigureTable
from draftscope.panels.fonts import figure_font


class CheckpointChoice(QScrollArea):
    """The table of the ways back, and under it what was taken and why."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.table = FigureTable(theme, "Calibration of the ways back")
        self._note = QLabel()
        self._note.setWordWrap(True)
        self._note.setFont(figure_font(0.95))
        self._note.setTextFormat(Qt.TextFormat.PlainText)
        self._host = QWidget()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("What each way back costs on this model")
        layout = QVBoxLayout(self._host)
        layout.setContentsMargins(6, 2, 6, 6)
        layout.setSpacing(6)
        layout.addWidget(self.table)
        layout.addWidget(self._note)
        layout.addStretch(1)
        self.setWidget(self._host)
        self.set_theme(theme)

    @property
    def words(self) -> str:
        """Table and note as text."""
        return f"{self.table.words}\n{self._note.text()}"

    def show_calibration(self, way: WayBack) -> None:
        """Show the table of a calibration."""
        self.table.show_table(COLUMNS, calibration_rows(way))
        self._note.setText(calibration_note(way))

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self.table.set_theme(theme)
        self.setStyleSheet(f"QScrollArea {{ background: {theme.panel}; }}")
        self._host.setStyleSheet(f".QWidget {{ background: {theme.panel}; }}")
        self._note.setStyleSheet(f"color: {theme.dim}; background: transparent; padding: 0 6px;")
