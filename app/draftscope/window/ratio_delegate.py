"""Paints what a ratio may be by chance as a bar beside 1, on one logarithmic scale for all rows."""

from __future__ import annotations

import math
from typing import NamedTuple

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from draftscope.base.theme import Theme

RATIO_ROLE = Qt.ItemDataRole.UserRole + 1

REACH = math.log(2.0)
"""The scale goes from half to double; what lies beyond is drawn at its ends."""


class RatioMark(NamedTuple):
    """A ratio with its interval, NaN where there is none. ``tone``: '' or a colour of the theme (ok, bad)."""

    ratio: float
    low: float
    high: float
    tone: str


class RatioDelegate(QStyledItemDelegate):
    """A line at 1, the interval as a bar, the ratio as a point."""

    def __init__(self, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._theme = theme

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Paint a row."""
        super().paint(painter, option, index)
        mark = index.data(RATIO_ROLE)
        if not isinstance(mark, RatioMark) or math.isnan(mark.ratio):
            return
        room = QRectF(option.rect).adjusted(8, 0, -8, 0)
        middle = room.center().y()
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._theme.faint), 1))
        painter.drawLine(QPointF(room.center().x(), room.top()), QPointF(room.center().x(), room.bottom()))
        colour = QColor(getattr(self._theme, mark.tone) if mark.tone else self._theme.dim)
        if not math.isnan(mark.low):
            left, right = place(mark.low, room), place(mark.high, room)
            bar = QColor(colour)
            bar.setAlphaF(0.35)
            painter.fillRect(QRectF(left, middle - 3, max(right - left, 1.5), 6), bar)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawEllipse(QPointF(place(mark.ratio, room), middle), 3.2, 3.2)
        painter.restore()


def place(ratio: float, room: QRectF) -> float:
    """Where a ratio lies within a row's room: 1 in the middle."""
    share = min(max(math.log(ratio) / REACH, -1.0), 1.0) if ratio > 0 else -1.0
    return room.center().x() + share * room.width() / 2
