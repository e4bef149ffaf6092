"""Paints a line of the log: time, level in its colour, text in fixed width."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from draftscope.base.theme import Theme, readable
from draftscope.panels.fonts import fixed_font
from draftscope.panels.log_model import LevelRole, TimeRole

MARGIN = 12


class LogDelegate(QStyledItemDelegate):
    """Rows of one height; times in seconds since ``origin_ns``."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.font = fixed_font(0.95)
        self.origin_ns = 0
        metrics = QFontMetricsF(self.font)
        self._cell = metrics.horizontalAdvance("0")
        self.row_height = round(metrics.height()) + 4
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        names = {"debug": theme.dim, "info": theme.accent, "warning": theme.warn, "error": theme.bad}
        self._levels = {level: QColor(readable(colour, theme.panel, theme.text)) for level, colour in names.items()}

    def width_of(self, n_characters: int) -> int:
        """Width of a row whose text has so many characters, in pixels."""
        return round(2 * MARGIN + (21 + n_characters) * self._cell)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw the three columns."""
        rect: QRect = option.rect
        state = option.state
        theme = self._theme
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, QColor(theme.selection_wash))
        painter.setFont(self.font)
        middle = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
        seconds = (int(index.data(TimeRole)) - self.origin_ns) / 1e9
        level = str(index.data(LevelRole))
        columns = (
            (f"{seconds:9.3f} s", QColor(theme.dim), 0, 11),
            (level, self._levels.get(level, QColor(theme.text)), 12, 8),
            (str(index.data(Qt.ItemDataRole.DisplayRole)), QColor(theme.text), 21, 10_000),
        )
        for text, colour, first, n_columns in columns:
            painter.setPen(colour)
            x = rect.left() + MARGIN + round(first * self._cell)
            painter.drawText(QRect(x, rect.top(), round(n_columns * self._cell), rect.height()), middle, text)
