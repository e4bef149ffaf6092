"""The head of a slot's card: colour chip, name, state and the slot's figures."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.fonts import figure_font

CHIP = 10
MARGIN = 12
GAP = 14


class Figure(NamedTuple):
    """A figure: its value with unit, what it counts (and in short), and how it is defined (for the tooltip)."""

    value: str
    label: str
    short_label: str
    definition: str


class CardHeader(QWidget):
    """One row, or two when the card is too narrow for state and figures side by side.

    Where even the second row is too short for the figures' labels, they are shortened.
    """

    def __init__(self, slot: int, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._slot = slot
        self._theme = theme
        self._state = ""
        self._figures: tuple[Figure, ...] = ()
        self._places: list[tuple[QRectF, str]] = []
        self._bold = figure_font(is_bold=True)
        self._plain = figure_font()
        self._row = round(QFontMetricsF(self._bold).height()) + 10
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._fit()

    def show_figures(self, state: str, figures: tuple[Figure, ...]) -> None:
        """Show a state and figures; does nothing when they are shown already."""
        if (state, figures) == (self._state, self._figures):
            return
        self._state, self._figures = state, figures
        self.setAccessibleName(self.words)
        self._fit()
        self.update()

    @property
    def words(self) -> str:
        """All that the header shows, as one line."""
        figures = (f"{figure.value} {figure.label}".strip() for figure in self._figures)
        return ", ".join((f"Slot {self._slot}", self._state, *figures))

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Wide enough for the name, as high as its rows."""
        return QSize(160, self._row)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Take one row or two, by the width."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """Tell a figure's definition under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            tip = next((text for box, text in self._places if box.contains(QPointF(event.pos()))), "")
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Chip, name and state from the left; figures from the right, or on the second row."""
        painter = QPainter(self)
        self._draw_chip(painter)
        x = float(MARGIN + CHIP + 8)
        x = self._draw(painter, x, 0, f"Slot {self._slot}", is_bold=True) + 8
        is_wide = self._is_wide()
        room = self.width() - MARGIN - x - (self._figures_width() + GAP if is_wide else 0)
        state = QFontMetricsF(self._plain).elidedText(self._state, Qt.TextElideMode.ElideRight, max(room, 0))
        self._draw(painter, x, 0, state, is_bold=False)
        self._draw_figures(painter, self.width() - MARGIN - self._figures_width() if is_wide else MARGIN, is_wide)

    def _draw_chip(self, painter: QPainter) -> None:
        box = QRectF(MARGIN, (self._row - CHIP) / 2, CHIP, CHIP)
        colour = QColor(self._theme.slot(self._slot))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._slot < len(self._theme.slots):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawRoundedRect(box, 2, 2)
        else:
            painter.setPen(QPen(colour, 2.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(box.adjusted(1.25, 1.25, -1.25, -1.25), 2, 2)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _draw_figures(self, painter: QPainter, x: float, is_wide: bool) -> None:
        self._places = []
        row = 0 if is_wide else 1
        is_short = not is_wide and self._figures_width() + 2 * MARGIN > self.width()
        for figure in self._figures:
            start = x
            x = self._draw(painter, x, row, figure.value, is_bold=True)
            label = figure.short_label if is_short else figure.label
            if label:
                x = self._draw(painter, x + 4, row, label, is_bold=False)
            self._places.append((QRectF(start, row * self._row, x - start, self._row), figure.definition))
            x += GAP if not is_short else GAP * 0.6

    def _draw(self, painter: QPainter, x: float, row: int, text: str, *, is_bold: bool) -> float:
        font = self._bold if is_bold else self._plain
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        painter.setPen(QColor(self._theme.text if is_bold else self._theme.dim))
        # The second row stands a little closer to the first than a row's height would put it.
        top = row * (self._row - 6)
        painter.drawText(QPointF(x, top + (self._row + metrics.ascent() - metrics.descent()) / 2), text)
        return x + metrics.horizontalAdvance(text)

    def _figures_width(self) -> float:
        bold, plain = QFontMetricsF(self._bold), QFontMetricsF(self._plain)
        widths = (
            bold.horizontalAdvance(f.value) + (4 + plain.horizontalAdvance(f.label) if f.label else 0)
            for f in self._figures
        )
        return sum(widths) + GAP * max(len(self._figures) - 1, 0)

    def _is_wide(self) -> bool:
        name = QFontMetricsF(self._bold).horizontalAdvance(f"Slot {self._slot}")
        state = QFontMetricsF(self._plain).horizontalAdvance(self._state)
        left = MARGIN + CHIP + 8 + name + 8 + state + GAP
        return not self._figures or left + self._figures_width() + MARGIN <= self.width()

    def _fit(self) -> None:
        self.setFixedHeight(self._row if self._is_wide() else 2 * self._row - 6)
