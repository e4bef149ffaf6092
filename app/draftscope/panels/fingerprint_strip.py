"""The slot's recent hidden rows by position: which one drafting must go on from, and which one it does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from draftscope.base.theme import Theme, mix, readable
from draftscope.engine.probes import UNKNOWN_POSITION, ZERO_ROW
from draftscope.panels.fonts import figure_font
from draftscope.panels.paint_clock import PaintClock

MARGIN = 8


class FingerprintStrip(QWidget):
    """A cell a position, the newest at the right; rows that are none of them have a cell of their own."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._clock = clock
        self._theme = theme
        self._positions: tuple[int, ...] = ()
        self._expected = self._in_use = self._without = UNKNOWN_POSITION
        self._font = figure_font(0.9)
        self._line = QFontMetricsF(self._font).height()
        self.setFixedHeight(round(3.6 * self._line))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(
            "Each hidden row of the slot has a digest, by which the row in use is recognised: the position that it"
            " belongs to is named, not guessed."
        )

    @property
    def words(self) -> str:
        """What it shows."""
        if self._in_use == self._expected:
            return f"The row in use is that of position {self._expected:,}, as expected."
        found = {ZERO_ROW: "a row of zeros", UNKNOWN_POSITION: "none of the slot's known rows"}
        named = found.get(self._in_use, f"that of position {self._in_use:,}")
        return f"The row in use is {named}, expected was that of position {self._expected:,}."

    def show_rows(self, fingerprints: NDArray[np.int64], expected: int, in_use: int, without: int) -> None:
        """Show the positions of fingerprints, int64 (R, 2), and which of them are meant."""
        known = {int(position) for position in fingerprints[:, 0]}
        others = {position for position in (expected, in_use, without) if position >= 0}
        self._positions = tuple(sorted(known | others))
        self._expected, self._in_use, self._without = expected, in_use, without
        self.setAccessibleName(self.words)
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as there is room."""
        return QSize(240, self.height())

    def cells(self) -> tuple[int, ...]:
        """What has a cell: as many positions as fit, those that are meant among them, and rows that are no position."""
        extra = tuple(dict.fromkeys(code for code in (self._in_use, self._without) if code < 0))
        n_fit = max(int((self.width() - 2 * MARGIN) // self._cell_width()) - len(extra), 3)
        meant = {position for position in (self._expected, self._in_use, self._without) if position >= 0}
        kept = set(self._positions[-n_fit:])
        if not meant <= kept:
            around = sorted(self._positions, key=lambda p: (p not in meant, abs(p - self._expected)))
            kept = set(around[:n_fit])
        return (*sorted(kept), *extra)

    def _cell_width(self) -> float:
        widest = max((f"{position}" for position in (*self._positions[-1:], 888)), key=len)
        return QFontMetricsF(self._font).horizontalAdvance(widest + "unk"[: max(0, 7 - len(widest))]) + 8

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw cells, numbers and the names of those that are meant."""
        with self._clock:
            painter = QPainter(self)
            painter.setFont(self._font)
            cells, width = self.cells(), self._cell_width()
            for index, position in enumerate(cells):
                box = QRectF(MARGIN + index * width, 1.1 * self._line, width - 3, 1.3 * self._line)
                self._draw_cell(painter, box, position)
            self._draw_names(painter, cells, width)

    def _draw_cell(self, painter: QPainter, box: QRectF, position: int) -> None:
        theme = self._theme
        is_right = self._in_use == self._expected
        ground, pen = theme.raised, QPen(QColor(theme.line), 1)
        if position == self._in_use:
            ground = mix(theme.panel, theme.ok if is_right else theme.warn, 0.45)
            pen = QPen(QColor(theme.ok if is_right else theme.warn), 1.5)
        elif position == self._expected:
            pen = QPen(QColor(theme.ok), 1.5)
        elif position == self._without:
            pen = QPen(QColor(theme.dim), 1, Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.setBrush(QColor(ground))
        painter.drawRoundedRect(box, 3, 3)
        names = {ZERO_ROW: "zeros", UNKNOWN_POSITION: "other"}
        painter.setPen(QColor(theme.text if position in (self._in_use, self._expected) else theme.dim))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, names.get(position, str(position)))

    def _draw_names(self, painter: QPainter, cells: tuple[int, ...], width: float) -> None:
        """In use over its cell, expected and without the hook under theirs."""
        theme, is_right = self._theme, self._in_use == self._expected
        in_use = readable(theme.ok if is_right else theme.warn, theme.panel, theme.text)
        expected = readable(theme.ok, theme.panel, theme.text)
        self._name(painter, cells, width, self._in_use, "in use", 0.95 * self._line, in_use)
        below = 3.35 * self._line
        if is_right:
            self._name(painter, cells, width, self._without, "without the hook", below, theme.dim)
            return
        self._name(painter, cells, width, self._expected, "expected", below, expected)
        gap = abs(cells.index(self._without) - cells.index(self._expected)) if self._without in cells else 0
        if self._without not in (self._in_use, self._expected) and gap * width > 120:
            self._name(painter, cells, width, self._without, "without the hook", below, theme.dim)

    def _name(
        self, painter: QPainter, cells: tuple[int, ...], width: float, position: int, text: str, y: float, colour: str
    ) -> None:
        if position not in cells:
            return
        room = QFontMetricsF(self._font).horizontalAdvance(text)
        middle = MARGIN + (cells.index(position) + 0.5) * width - 1.5
        x = min(max(middle - room / 2, 2), self.width() - room - 2)
        painter.setPen(QColor(colour))
        painter.drawText(QPointF(x, y), text)
