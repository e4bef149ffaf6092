"""The key to the markers of the slots."""

from __future__ import annotations

from collections.abc import Sequence

from pyqtgraph.graphicsItems.ScatterPlotItem import Symbols
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.fonts import figure_font

MARK = 7
GAP = 12


class SlotMarkers(QWidget):
    """A marker and a number for each slot, as many as there is room for."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._slots: tuple[int, ...] = ()
        self._font = figure_font(0.92)
        self.setAccessibleName("Key to the markers of the slots")
        self.setToolTip("The marker of each slot's points; their colour is that of save or restore")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def show_slots(self, slots: Sequence[int]) -> None:
        """Explain these slots."""
        if tuple(slots) != self._slots:
            self._slots = tuple(slots)
            self.setAccessibleDescription(", ".join(f"slot {slot}" for slot in slots))
            self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """One row."""
        return QSize(80, round(QFontMetricsF(self._font).height()) + 4)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Marker and number, from the left."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._font)
        metrics = QFontMetricsF(self._font)
        x, middle = float(MARK), self.height() / 2
        for rank, slot in enumerate(self._slots):
            text = f"slot {slot}"
            taken = MARK + metrics.horizontalAdvance(text)
            if x + taken + (GAP if rank + 1 < len(self._slots) else 0) > self.width():
                painter.setPen(QColor(self._theme.dim))
                painter.drawText(QPointF(x, middle + metrics.ascent() / 2 - 1), "…")
                return
            self._draw_marker(painter, QPointF(x, middle), slot)
            painter.setPen(QColor(self._theme.dim))
            drop = (metrics.ascent() - metrics.descent()) / 2
            painter.drawText(QPointF(x + MARK, middle + drop), text)
            x += taken + GAP

    def _draw_marker(self, painter: QPainter, place: QPointF, slot: int) -> None:
        painter.save()
        painter.translate(place)
        painter.scale(MARK, MARK)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.dim))
        painter.drawPath(Symbols[self._theme.slot_marker(slot)])
        painter.restore()
