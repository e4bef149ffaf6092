"""The recurrent layers after a restore: conv and delta-net part of each, equal or how far off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.panels.fonts import figure_font
from draftscope.panels.heat_colours import draw_legend, image_of, legend_width, palette, scale_for
from draftscope.panels.paint_clock import PaintClock
from draftscope.trace.restore_verdict import PARTS

MARGIN = 10
MAX_CELL = 40.0


class LayerMap(QWidget):
    """Two lines of cells, a layer a column; the legend has the colours."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._clock = clock
        self._theme = theme
        self._layers: NDArray[np.float64] = np.zeros((0, 2, 2))
        self._font = figure_font(0.9)
        self._line = QFontMetricsF(self._font).height()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def show_layers(self, layers: NDArray[np.float64]) -> None:
        """Show max |d| and rms of the two parts of each layer, float64 (L, 2, 2)."""
        self._layers = layers
        self.setAccessibleName(self.words)
        self.update()

    @property
    def words(self) -> str:
        """The layers that differ, a line each; one line where none does."""
        if not self._layers[:, :, 0].any():
            return f"{len(self._layers)} recurrent layers, conv and delta-net part of each equal"
        found = np.argwhere(~(self._layers[:, :, 0] == 0)).tolist()
        return "\n".join(self._cell_words(layer, part) for layer, part in found)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as there is room."""
        return QSize(300, round(7 * self._line))

    def _area(self) -> QRectF:
        names = max(QFontMetricsF(self._font).horizontalAdvance(name) for name in PARTS)
        left, right = MARGIN + names + 8, legend_width(self._font) + 14
        room = QRectF(self.rect()).adjusted(left, self._line + 6, -right, -self._line - 8)
        n = max(len(self._layers), 1)
        cell = min(room.width() / n, MAX_CELL)
        return QRectF(room.left(), room.top(), cell * n, min(room.height(), 2 * MAX_CELL))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw cells, names and legend."""
        if not len(self._layers):
            return
        with self._clock:
            painter = QPainter(self)
            area = self._area()
            sizes = self._layers[:, :, 0].T
            scale = scale_for(float(np.nan_to_num(sizes).max(initial=0.0)))
            painter.drawImage(area, image_of(scale.shades(sizes), palette(self._theme)))
            self._blank_unknown(painter, area)
            self._draw_grid(painter, area)
            self._draw_names(painter, area)
            height = min(max(area.height(), 8 * self._line), self.height() - area.top() - 4)
            legend = QRectF(self.width() - legend_width(self._font) - 4, area.top(), legend_width(self._font), height)
            draw_legend(painter, legend, scale, self._theme, self._font)

    def _blank_unknown(self, painter: QPainter, area: QRectF) -> None:
        """Parts that could not be compared have no colour of the scale."""
        width, height = area.width() / len(self._layers), area.height() / 2
        painter.setFont(self._font)
        painter.setPen(QColor(self._theme.dim))
        for layer, part in np.argwhere(np.isnan(self._layers[:, :, 0])).tolist():
            cell = QRectF(area.left() + layer * width, area.top() + part * height, width, height)
            painter.fillRect(cell, QColor(self._theme.raised))
            painter.drawText(cell, Qt.AlignmentFlag.AlignCenter, "?")

    def _draw_grid(self, painter: QPainter, area: QRectF) -> None:
        painter.setPen(QPen(QColor(self._theme.panel), 1))
        n = len(self._layers)
        for index in range(n + 1):
            x = area.left() + area.width() * index / n
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
        middle = area.center().y()
        painter.drawLine(QPointF(area.left(), middle), QPointF(area.right(), middle))

    def _draw_names(self, painter: QPainter, area: QRectF) -> None:
        metrics = QFontMetricsF(self._font)
        drop = (metrics.ascent() - metrics.descent()) / 2
        painter.setFont(self._font)
        painter.setPen(QColor(self._theme.dim))
        for part, name in enumerate(PARTS):
            y = area.top() + area.height() * (part + 0.5) / 2 + drop
            painter.drawText(QPointF(area.left() - 8 - metrics.horizontalAdvance(name), y), name)
        n = len(self._layers)
        width = area.width() / n
        every = max(1, -(-int(metrics.horizontalAdvance("00") + 6) // max(int(width), 1)))
        for layer in range(0, n, every):
            box = QRectF(area.left() + layer * width, area.top() - self._line - 2, width, self._line)
            painter.drawText(box.adjusted(-8, 0, 8, 0), Qt.AlignmentFlag.AlignCenter, str(layer))
        painter.drawText(QPointF(area.left(), area.bottom() + metrics.ascent() + 4), "recurrent layers, counted from 0")

    def event(self, event: QEvent) -> bool:
        """Tell what the pointer is on."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            area, place = self._area(), QPointF(event.pos())
            words = ""
            if len(self._layers) and area.contains(place):
                layer = int((place.x() - area.left()) / area.width() * len(self._layers))
                words = self._cell_words(min(layer, len(self._layers) - 1), int(place.y() > area.center().y()))
            QToolTip.showText(event.globalPos(), words, self)
            return True
        return super().event(event)

    def _cell_words(self, layer: int, part: int) -> str:
        largest, rms = self._layers[layer, part]
        name = f"Recurrent layer {layer}, {PARTS[part]} part"
        if np.isnan(largest):
            return f"{name}: could not be compared"
        return (
            f"{name}: equal"
            if largest == 0
            else f"{name}: off by up to {units.figure(largest)}, rms {units.figure(rms)}"
        )
