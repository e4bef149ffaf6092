"""The heat map of restores over dimensions: how far each row is from the saved one, the newest at the bottom."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.panels.fonts import figure_font
from draftscope.panels.heat_colours import HeatScale, draw_legend, image_of, legend_width, palette, scale_for
from draftscope.panels.paint_clock import PaintClock

MOST_COLUMNS = 512
"""Columns at most; a column of several dimensions has the largest difference of them."""

ROW_HEIGHT = 3
"""Least height of a restore in pixels."""

MOST_RESTORES = 200


class MapRow(NamedTuple):
    """A restore: its place in the table, how it is named, and |difference| by column, float32 (C,)."""

    place: int
    label: str
    differences: NDArray[np.float32]


def by_column(differences: NDArray[np.float32]) -> NDArray[np.float32]:
    """|differences| of E dimensions in at most ``MOST_COLUMNS`` columns, the largest of each: float32 (C,)."""
    sizes = np.abs(differences)
    per_column = -(-len(sizes) // MOST_COLUMNS)
    if per_column <= 1:
        return sizes
    padded = np.zeros(-(-len(sizes) // per_column) * per_column, np.float32)
    padded[: len(sizes)] = sizes
    columns: NDArray[np.float32] = padded.reshape(-1, per_column).max(axis=1)
    return columns


class DifferenceMap(QWidget):
    """One image, made anew when rows or colours change; a click tells the restore."""

    restore_clicked = Signal(int)
    """Carries its place in the restore table."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._clock = clock
        self._theme = theme
        self._rows: tuple[MapRow, ...] = ()
        self._width = 1
        self._selected = -1
        self._scale: HeatScale = scale_for(0.0)
        self._font = figure_font(0.9)
        self.setAccessibleName("Differences by restore and dimension")

    @property
    def rows(self) -> tuple[MapRow, ...]:
        """The restores drawn, oldest first."""
        return self._rows

    @property
    def n_fit(self) -> int:
        """Restores that there is room for."""
        return min(max(int(self._area().height()) // ROW_HEIGHT, 1), MOST_RESTORES)

    def show_rows(self, rows: tuple[MapRow, ...], width: int, selected: int) -> None:
        """Show these restores of rows with ``width`` dimensions; ``selected``: a place, or -1."""
        self._rows, self._width, self._selected = rows, max(width, 1), selected
        self._scale = scale_for(
            max((float(np.nan_to_num(row.differences).max(initial=0.0)) for row in rows), default=0.0)
        )
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def _area(self) -> QRectF:
        metrics = QFontMetricsF(self._font)
        left = metrics.horizontalAdvance("r 00000 s0") + 10
        right = legend_width(self._font) + 14
        return QRectF(self.rect()).adjusted(left, 6, -right, -2 * metrics.height() - 2)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw image, names, axis and legend."""
        with self._clock:
            painter = QPainter(self)
            area = self._area()
            if not self._rows or area.width() < 10:
                return
            shades = self._scale.shades(np.stack([row.differences for row in self._rows]))
            painter.drawImage(self._image_area(area), image_of(shades, palette(self._theme)))
            self._draw_names(painter, area)
            self._draw_axis(painter, area)
            legend = QRectF(area.right() + 12, area.top(), legend_width(self._font), area.height())
            draw_legend(painter, legend, self._scale, self._theme, self._font)

    def _image_area(self, area: QRectF) -> QRectF:
        """Few restores do not fill it: rows are at most some lines of text high."""
        line = QFontMetricsF(self._font).height()
        height = min(area.height(), len(self._rows) * 2 * line)
        return QRectF(area.left(), area.bottom() - height, area.width(), height)

    def _draw_names(self, painter: QPainter, area: QRectF) -> None:
        metrics, image = QFontMetricsF(self._font), self._image_area(area)
        height = image.height() / len(self._rows)
        every = max(1, -(-int(metrics.height() * 1.2) // max(int(height), 1)))
        drop = (metrics.ascent() - metrics.descent()) / 2
        painter.setFont(self._font)
        for index, row in enumerate(self._rows):
            is_selected = row.place == self._selected
            y = image.top() + (index + 0.5) * height
            if is_selected:
                painter.setPen(QPen(QColor(self._theme.text), 1))
                painter.drawRect(QRectF(image.left() - 1, y - height / 2 - 1, image.width() + 1, height + 1))
            elif (len(self._rows) - 1 - index) % every:
                continue
            painter.setPen(QColor(self._theme.text if is_selected else self._theme.dim))
            x = image.left() - 6 - metrics.horizontalAdvance(row.label)
            if not is_selected and self._is_near_selected(index, height, metrics.height()):
                continue
            painter.drawText(QPointF(x, y + drop), row.label)

    def _is_near_selected(self, index: int, height: float, line: float) -> bool:
        """Whether its name would run into that of the selected restore."""
        places = [row.place for row in self._rows]
        return self._selected in places and abs(places.index(self._selected) - index) * height < line

    def _draw_axis(self, painter: QPainter, area: QRectF) -> None:
        metrics = QFontMetricsF(self._font)
        painter.setPen(QColor(self._theme.dim))
        y = area.bottom() + metrics.ascent() + 3
        n_ticks = max(2, min(9, int(area.width() // 70)))
        for tick in range(n_ticks):
            dimension = round((self._width - 1) * tick / (n_ticks - 1))
            text = f"{dimension:,}"
            room = metrics.horizontalAdvance(text)
            x = area.left() + area.width() * dimension / self._width
            painter.drawText(QPointF(min(max(x - room / 2, area.left()), area.right() - room), y), text)
        text = "dimension of the hidden row"
        painter.drawText(QPointF(area.center().x() - metrics.horizontalAdvance(text) / 2, y + metrics.height()), text)

    def _row_at(self, place: QPointF) -> MapRow | None:
        image = self._image_area(self._area())
        if not self._rows or not image.contains(place):
            return None
        index = int((place.y() - image.top()) / image.height() * len(self._rows))
        return self._rows[min(index, len(self._rows) - 1)]

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell the restore under the pointer."""
        row = self._row_at(event.position())
        if row is not None and event.button() == Qt.MouseButton.LeftButton:
            self.restore_clicked.emit(row.place)

    def event(self, event: QEvent) -> bool:
        """Tell what the pointer is on."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self._words_at(event.pos()), self)
            return True
        return super().event(event)

    def _words_at(self, place: QPoint) -> str:
        row = self._row_at(QPointF(place))
        if row is None:
            return "Each line is a restore, each column a dimension; a click selects the restore"
        image, n = self._image_area(self._area()), len(row.differences)
        column = min(int((place.x() - image.left()) / image.width() * n), n - 1)
        per_column = -(-self._width // n)
        first, last = column * per_column, min((column + 1) * per_column, self._width) - 1
        where = f"dimension {first}" if first == last else f"dimensions {first} to {last}"
        largest = float(row.differences[column])
        return f"{row.label}, {where}: " + (f"up to {units.figure(largest)}" if largest else "equal")
