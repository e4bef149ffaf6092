"""Paints lines of a token view."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from draftscope.base.theme import Theme, readable
from draftscope.engine.events import Origin
from draftscope.panels.fonts import fixed_font
from draftscope.panels.script import Style
from draftscope.panels.token_flow import TokenFlow
from draftscope.panels.token_layout import Fragment
from draftscope.panels.transcript import REJECTED_SCALE, Transcript

LINE_SPACING = 1.45
BAR = 3
"""Width in pixels of the bar beside what a person said."""


@dataclass(frozen=True, slots=True)
class TokenMetrics:
    """Sizes in pixels of a cell of the grid and of a line."""

    cell: float
    line: int
    ascent: float
    descent: float


class TokenPainter:
    """Holds pens, brushes and fonts of a theme; draws one line at a time.

    How a token came is told by colour and form: accepted ones have a wash that deepens with the draft position and an
    underline each, rejected ones are small and struck.
    """

    def __init__(self, theme: Theme) -> None:
        self.font: QFont = fixed_font()
        self._small_font = fixed_font(REJECTED_SCALE)
        self._bold_font = fixed_font()
        self._bold_font.setBold(True)
        metrics = QFontMetricsF(self.font)
        line = round(metrics.height() * LINE_SPACING)
        self.metrics = TokenMetrics(metrics.horizontalAdvance("0"), line, metrics.ascent(), metrics.descent())
        self.selected_round: int | None = None
        self.hovered_token: int | None = None
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self.background = QColor(theme.panel)
        self._washes = [QColor(theme.accepted_wash(position)) for position in range(1, 9)]
        self._text = QPen(QColor(theme.text))
        self._dim = QPen(QColor(theme.dim))
        self._bad = QPen(QColor(theme.bad))
        self._bad_selected = QPen(QColor(readable(theme.bad, theme.selection_wash, theme.text)))
        self._underline = QPen(QColor(theme.ok), 1.0)
        self._selection = QColor(theme.selection_wash)
        self._outline = QColor(theme.accent)
        self._hover = QPen(QColor(theme.dim), 1.0)
        self._message = QColor(theme.raised)
        self._bar = QColor(theme.line)
        self._accent = QPen(QColor(readable(theme.accent, theme.raised, theme.text)))

    def draw_message(self, painter: QPainter, box: QRect) -> None:
        """Draw the surface of what a person said, a line of it."""
        painter.fillRect(box, self._message)
        painter.fillRect(QRect(box.left(), box.top(), BAR, box.height()), self._bar)

    def draw_line(self, painter: QPainter, transcript: Transcript, line: int, left: float, top: float) -> None:
        """Draw the fragments of a line whose box begins at ``left``, ``top``."""
        previous: int | None = None
        place = QPointF(left, top)
        for part in transcript.lines[line]:
            if part.token < 0:
                self._draw_mark(painter, transcript.mark(part.token).style, part, place)
            else:
                self._draw_token(painter, transcript.flow, part, place, begins=part.token != previous)
            previous = part.token

    def _draw_mark(self, painter: QPainter, style: Style, part: Fragment, place: QPointF) -> None:
        pen = {Style.PLAIN: self._text, Style.ERROR: self._bad, Style.ACTION: self._accent}.get(style, self._dim)
        self._draw_text(painter, part, place, pen, self._bold_font if style is Style.NAME else self.font)
        if style is Style.ACTION and part.token == self.hovered_token:
            box = self._box(part, place)
            painter.drawLine(QPointF(box.left(), box.bottom() - 1.5), QPointF(box.right(), box.bottom() - 1.5))

    def _draw_token(self, painter: QPainter, flow: TokenFlow, part: Fragment, place: QPointF, *, begins: bool) -> None:
        origin = flow.origins[part.token]
        is_selected = self.selected_round is not None and flow.rounds[part.token] == self.selected_round
        box = self._box(part, place)
        if origin == Origin.ACCEPTED:
            painter.fillRect(box, self._washes[min(flow.draft_position(part.token), len(self._washes)) - 1])
        elif is_selected:
            painter.fillRect(box, self._selection)
        if origin == Origin.REJECTED:
            pen = self._bad_selected if is_selected else self._bad
            self._draw_text(painter, part, place, pen, self._small_font)
            middle = round(place.y() + self._baseline() - self.metrics.ascent * REJECTED_SCALE * 0.32) + 0.5
            if not part.text.isspace() or flow.texts[part.token].isspace():
                painter.drawLine(QPointF(box.left(), middle), QPointF(box.right(), middle))
        elif part.text:
            self._draw_text(painter, part, place, self._text, self.font)
        if origin == Origin.ACCEPTED:
            painter.setPen(self._underline)
            bottom = box.bottom() - 0.5
            # A gap of two pixels where a token begins keeps neighbours apart.
            painter.drawLine(QPointF(box.left() + (2 if begins else 0), bottom), QPointF(box.right(), bottom))
        if is_selected:
            painter.fillRect(QRectF(box.left(), box.bottom() - 2, box.width(), 2), self._outline)
            painter.fillRect(QRectF(box.left(), box.top(), box.width(), 1), self._outline)
        if part.token == self.hovered_token:
            painter.setPen(self._hover)
            painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))

    def _draw_text(self, painter: QPainter, part: Fragment, place: QPointF, pen: QPen, font: QFont) -> None:
        painter.setPen(pen)
        painter.setFont(font)
        painter.drawText(place + QPointF(part.x * self.metrics.cell, self._baseline()), part.text)

    def _baseline(self) -> float:
        """From the top of a line to the base of its letters."""
        height = self.metrics.ascent + self.metrics.descent
        return round((self.metrics.line - height) / 2 + self.metrics.ascent)

    def _box(self, part: Fragment, place: QPointF) -> QRectF:
        x0 = round(place.x() + part.x * self.metrics.cell)
        x1 = round(place.x() + (part.x + part.width) * self.metrics.cell)
        margin = 2
        return QRectF(x0, place.y() + margin, x1 - x0, self.metrics.line - 2 * margin)
