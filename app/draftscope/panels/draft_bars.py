"""The first draft step from the saved, the restored and the would-have-been row, side by side, token by token."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme, mix
from draftscope.panels.fonts import figure_font
from draftscope.panels.paint_clock import PaintClock

COLUMNS = ("saved row", "restored row", "without the hook")
MARGIN = 10
MOST_TOKENS = 10


class TokenShare(NamedTuple):
    """A token as text and its probability from each of the three rows."""

    text: str
    shares: tuple[float, float, float]


class DraftBars(QWidget):
    """A line a token, a column a row; the likeliest of each column is in bold."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._clock = clock
        self._theme = theme
        self._tokens: tuple[TokenShare, ...] = ()
        self._font = figure_font(0.95)
        self._bold = figure_font(0.95, is_bold=True)
        self._line = QFontMetricsF(self._font).height() + 4
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._fit()

    def show_tokens(self, tokens: list[TokenShare]) -> None:
        """Show the likeliest of these tokens, by the largest of their three probabilities."""
        ordered = sorted(tokens, key=lambda token: (-token.shares[0], -max(token.shares)))
        needed = [tokens[int(np.argmax([token.shares[row] for token in tokens]))] for row in range(3) if tokens]
        shown = [token for token in ordered if token not in needed][: max(MOST_TOKENS - len(needed), 0)]
        self._tokens = tuple(token for token in ordered if token in needed or token in shown)
        self.setAccessibleName(self.words)
        self._fit()
        self.update()

    @property
    def words(self) -> str:
        """All that it shows, a token a line."""
        return "\n".join(
            f"{token.text}: {', '.join(units.percent(share) for share in token.shares)}" for token in self._tokens
        )

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as its lines."""
        return QSize(300, self.height())

    def _fit(self) -> None:
        self.setFixedHeight(round((len(self._tokens) + 1) * self._line + 8))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the columns' names, then the tokens."""
        with self._clock:
            painter = QPainter(self)
            metrics = QFontMetricsF(self._font)
            longest = max((metrics.horizontalAdvance(token.text) for token in self._tokens), default=0.0)
            left = min(longest, self.width() * 0.28) + MARGIN + 8
            width = (self.width() - left - MARGIN) / len(COLUMNS)
            painter.setFont(self._font)
            painter.setPen(QColor(self._theme.dim))
            for column, name in enumerate(COLUMNS):
                text = metrics.elidedText(name, Qt.TextElideMode.ElideRight, width - 8)
                painter.drawText(QPointF(left + column * width, metrics.ascent() + 2), text)
            for number, token in enumerate(self._tokens, 1):
                self._draw_token(painter, token, number * self._line + 4, left, width)

    def _draw_token(self, painter: QPainter, token: TokenShare, top: float, left: float, width: float) -> None:
        theme, metrics = self._theme, QFontMetricsF(self._font)
        baseline = top + (self._line + metrics.ascent() - metrics.descent()) / 2
        painter.setFont(self._font)
        painter.setPen(QColor(theme.text))
        text = metrics.elidedText(token.text, Qt.TextElideMode.ElideRight, left - MARGIN - 8)
        painter.drawText(QPointF(MARGIN, baseline), text)
        for column, share in enumerate(token.shares):
            is_top = share == max(other.shares[column] for other in self._tokens)
            x, room = left + column * width, width - 8 - metrics.horizontalAdvance("100 % ")
            colour = theme.accent if is_top else mix(theme.panel, theme.dim, 0.55)
            bar = QRectF(x, top + 3, max(room * share, 1.0), self._line - 6)
            painter.fillRect(bar, QColor(colour))
            painter.setFont(self._bold if is_top else self._font)
            painter.setPen(QColor(theme.text if is_top else theme.dim))
            percent = "< 1 %" if 0 < share < 0.005 else units.percent(share)
            painter.drawText(QPointF(bar.right() + 4, baseline), percent)
