"""The key to the token colours: how a token came to be, told once for all cards."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from draftscope.base.theme import Theme
from draftscope.panels.fonts import figure_font

GAP = 16
PAD = 5


class TokenLegend(QWidget):
    """Sampled, accepted at draft position 1 to ``n_positions``, rejected; drawn as the tokens are."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._n_positions = 0
        self._font = figure_font()
        self.setAccessibleName("Key to the token colours")
        self.show_positions(3)

    def show_positions(self, n_positions: int) -> None:
        """Explain as many draft positions as can occur; 0 leaves out what speculation adds."""
        if n_positions != self._n_positions:
            self._n_positions = n_positions
            self.setAccessibleDescription(
                "Plain text is sampled from the target. A green wash is accepted from the draft, deeper the further in"
                " the draft. Small struck text was drafted and rejected."
            )
            self.updateGeometry()
            self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as its words."""
        metrics = QFontMetricsF(self._font)
        words = sum(metrics.horizontalAdvance(text) + 2 * PAD for text, _ in self._words())
        return QSize(round(words) + GAP * 4, round(metrics.height()) + 8)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw the words one after another."""
        painter = QPainter(self)
        painter.setFont(self._font)
        metrics = QFontMetricsF(self._font)
        x = 0.0
        for text, style in self._words():
            width = metrics.horizontalAdvance(text)
            box = QRectF(x, 3, width + 2 * PAD, self.height() - 6)
            self._draw_word(painter, box, text, style)
            x = box.right() + (1 if style > 0 else GAP / 2)

    def _words(self) -> list[tuple[str, int]]:
        """Texts and styles: 0 plain, n > 0 accepted at n, -1 rejected, -2 a remark."""
        if self._n_positions == 0:
            return [("sampled", 0)]
        accepted = [(str(position), position) for position in range(1, min(self._n_positions, 8) + 1)]
        return [("sampled", 0), ("accepted at draft position", -2), *accepted, ("rejected", -1)]

    def _draw_word(self, painter: QPainter, box: QRectF, text: str, style: int) -> None:
        colour = {-1: self._theme.bad, -2: self._theme.dim}.get(style, self._theme.text)
        if style > 0:
            painter.fillRect(box, QColor(self._theme.accepted_wash(style)))
            painter.setPen(QPen(QColor(self._theme.ok), 1))
            painter.drawLine(QPointF(box.left(), box.bottom() - 0.5), QPointF(box.right() - 1, box.bottom() - 0.5))
        metrics = QFontMetricsF(self._font)
        painter.setPen(QColor(colour))
        base = box.center().y() + (metrics.ascent() - metrics.descent()) / 2
        painter.drawText(QPointF(box.left() + PAD, base), text)
        if style == -1:
            middle = round(base - metrics.ascent() * 0.32) + 0.5
            painter.drawLine(QPointF(box.left() + PAD, middle), QPointF(box.right() - PAD, middle))
