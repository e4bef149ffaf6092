"""Grouped bars: the share accepted at each draft position, one bar a slot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.panels.fonts import figure_font
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.plot import slot_brush, whole_pixels

SCALE_WIDTH = 46
"""Pixels left of the bars, for the scale; plots above them take the same."""

TOP = 18
RIGHT = 10
BAR_MAX = 44


class PositionBar(NamedTuple):
    """What one bar shows: the share is accepted / drafted at that position, NaN when nothing was drafted there."""

    slot: int
    position: int
    accepted: int
    drafted: int
    share: float


class PositionBars(QWidget):
    """Draws the bars, y from 0 to 100 %; the slot's number stands under each bar, its share above."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._clock = clock
        self._theme = theme
        self._bars: tuple[PositionBar, ...] = ()
        self._boxes: list[tuple[QRectF, PositionBar]] = []
        self._font = figure_font(0.92)
        self._line = round(QFontMetricsF(self._font).height())
        self.setMinimumHeight(110)
        self.setAccessibleName("Acceptance by draft position")

    def show_bars(self, bars: Sequence[PositionBar]) -> None:
        """Show these bars; does nothing when they are shown already."""
        if tuple(bars) != self._bars:
            self._bars = tuple(bars)
            self.setAccessibleDescription("; ".join(bar_words(bar) for bar in self._bars))
            self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for three groups of four bars."""
        return QSize(320, 170)

    def event(self, event: QEvent) -> bool:
        """Tell a bar's counts under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            place = QPointF(event.pos())
            tip = next((bar_words(bar) for box, bar in self._boxes if box.contains(place)), "")
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Grid and scale, then group by group."""
        with self._clock:
            self._paint()

    def _paint(self) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.panel))
        painter.setFont(self._font)
        area = QRectF(SCALE_WIDTH, TOP, self.width() - SCALE_WIDTH - RIGHT, self.height() - TOP - 2 * self._line - 8)
        self._draw_scale(painter, area)
        self._boxes = []
        positions = sorted({bar.position for bar in self._bars})
        for rank, position in enumerate(positions):
            width = area.width() / len(positions)
            group = QRectF(area.left() + width * rank, area.top(), width, area.height())
            self._draw_group(painter, group, [bar for bar in self._bars if bar.position == position])
            below = area.bottom() + 4 + 1.5 * self._line
            self._centre(painter, group.center().x(), below, ordinal(position), self._theme.dim)

    def _draw_scale(self, painter: QPainter, area: QRectF) -> None:
        metrics = QFontMetricsF(self._font)
        step = 25 if area.height() > 4 * self._line * 1.2 else 50
        for percent in range(0, 101, step):
            y = round(area.bottom() - area.height() * percent / 100) + 0.5
            painter.setPen(QPen(QColor(self._theme.line), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            text = f"{percent} %"
            painter.setPen(QColor(self._theme.dim))
            drop = (metrics.ascent() - metrics.descent()) / 2
            painter.drawText(QPointF(area.left() - 8 - metrics.horizontalAdvance(text), y + drop), text)

    def _draw_group(self, painter: QPainter, group: QRectF, bars: list[PositionBar]) -> None:
        width = min(group.width() * 0.8 / len(bars), BAR_MAX)
        left = group.center().x() - width * len(bars) / 2
        has_room = width > QFontMetricsF(self._font).horizontalAdvance("100 %") + 2
        for rank, bar in enumerate(bars):
            share = 0.0 if math.isnan(bar.share) else bar.share
            column = QRectF(left + rank * width, group.top(), width - max(width * 0.1, 1), group.height())
            box = whole_pixels(column.adjusted(0, group.height() * (1 - share), 0, 0))
            painter.setPen(QPen(QColor(self._theme.slot(bar.slot)), 1) if bar.slot >= 4 else Qt.PenStyle.NoPen)
            painter.setBrush(slot_brush(self._theme, bar.slot))
            painter.drawRect(box)
            self._boxes.append((column, bar))
            text = "none" if math.isnan(bar.share) else units.percent(share)
            if has_room:
                self._centre(painter, box.center().x(), box.top() - self._line / 2 - 1, text, self._theme.text)
            if width > self._line * 0.6:
                self._centre(
                    painter,
                    box.center().x(),
                    group.bottom() + 3 + self._line / 2,
                    str(bar.slot),
                    self._theme.slot_text(bar.slot),
                )

    def _centre(self, painter: QPainter, x: float, y: float, text: str, colour: str) -> None:
        metrics = QFontMetricsF(self._font)
        painter.setPen(QColor(colour))
        place = QPointF(x - metrics.horizontalAdvance(text) / 2, y + (metrics.ascent() - metrics.descent()) / 2)
        painter.drawText(place, text)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th ..."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def bar_words(bar: PositionBar) -> str:
    """A bar's counts in a sentence."""
    if bar.drafted == 0:
        return f"Slot {bar.slot} drafted nothing at the {ordinal(bar.position)} position."
    return (
        f"Slot {bar.slot}, {ordinal(bar.position)} position: accepted in {bar.accepted} of {bar.drafted} rounds that"
        f" drafted so far ({units.percent(bar.share)})."
    )
