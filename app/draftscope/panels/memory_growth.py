"""How the memory of the slots grows with their number: a bar for each number, in parts by kind."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.panels.fonts import figure_font
from draftscope.panels.memory_rows import PHASE_OF_KIND, Growth
from draftscope.panels.paint_clock import PaintClock

MARGIN = 6
GAP = 10
PREDICTED_OPACITY = 0.28
"""Of the ground of a bar that is predicted; over it lies a hatching."""


class MemoryGrowth(QWidget):
    """Bars from the left, the total at the right; the measured one is solid and has its name in bold."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._theme = theme
        self._clock = clock
        self._font = figure_font(0.95)
        self._bold = figure_font(0.95, is_bold=True)
        self._row = round(QFontMetricsF(self._font).height()) + 8
        self.bars: tuple[Growth, ...] = ()
        self.setAccessibleName("Memory of the slots, by their number")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_bars(self, bars: Sequence[Growth]) -> None:
        """Show these; does nothing when they are shown already."""
        if tuple(bars) != self.bars:
            self.bars = tuple(bars)
            self.setAccessibleDescription(" ".join(bar.words for bar in self.bars))
            self.updateGeometry()
            self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """A row a bar."""
        return QSize(320, max(len(self.bars), 1) * self._row)

    def event(self, event: QEvent) -> bool:
        """Tell a bar's parts under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            rank = int(event.pos().y() // self._row)
            tip = self.bars[rank].words if 0 <= rank < len(self.bars) else ""
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Bar by bar."""
        with self._clock:
            painter = QPainter(self)
            painter.fillRect(self.rect(), QColor(self._theme.panel))
            bold = QFontMetricsF(self._bold)
            left = MARGIN + max((bold.horizontalAdvance(_name(bar)) for bar in self.bars), default=0.0) + GAP
            right = MARGIN + max((bold.horizontalAdvance(_total(bar)) for bar in self.bars), default=0.0) + GAP
            most = max((bar.total_bytes for bar in self.bars), default=1) or 1
            for rank, bar in enumerate(self.bars):
                width = max(self.width() - left - right, 20.0)
                box = QRectF(left, rank * self._row + 3, width, self._row - 6)
                self._draw_bar(painter, box, bar, most)

    def _draw_bar(self, painter: QPainter, box: QRectF, bar: Growth, most: int) -> None:
        painter.setFont(self._bold if bar.is_measured else self._font)
        colour = self._theme.text if bar.is_measured else self._theme.dim
        self._text(painter, MARGIN, box, _name(bar), colour)
        x = box.left()
        for kind, size in bar.parts:
            end = x + box.width() * size / most
            part = QRectF(round(x), round(box.top()), round(end) - round(x), round(box.height()))
            self._draw_part(painter, part, QColor(self._theme.phase(PHASE_OF_KIND[kind])), bar)
            x = end
        self._text(painter, x + 6, box, _total(bar), colour)

    def _draw_part(self, painter: QPainter, part: QRectF, colour: QColor, bar: Growth) -> None:
        if part.width() < 1:
            return
        if bar.is_measured:
            painter.fillRect(part, colour)
            return
        faded = QColor(colour)
        faded.setAlphaF(PREDICTED_OPACITY)
        painter.fillRect(part, faded)
        painter.fillRect(part, QBrush(colour, Qt.BrushStyle.BDiagPattern))
        painter.setPen(QPen(colour, 1))
        painter.drawRect(part.adjusted(0.5, 0.5, -0.5, -0.5))

    def _text(self, painter: QPainter, x: float, box: QRectF, text: str, colour: str) -> None:
        metrics = QFontMetricsF(painter.font())
        painter.setPen(QColor(colour))
        painter.drawText(QPointF(x, box.center().y() + (metrics.ascent() - metrics.descent()) / 2), text)


def _name(bar: Growth) -> str:
    slots = "1 slot" if bar.n_slots == 1 else f"{bar.n_slots} slots"
    return f"{slots} · {'measured' if bar.is_measured else 'predicted'}"


def _total(bar: Growth) -> str:
    return units.bytes_text(bar.total_bytes)
