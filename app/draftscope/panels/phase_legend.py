"""The key to the phase colours: those that the run has had."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.events import Phase
from draftscope.panels.fonts import figure_font
from draftscope.panels.span_words import PHASE_MEANS, PHASE_WORDS

CHIP = 9
GAP = 14


class PhaseLegend(QWidget):
    """A chip and a name for each phase, in the order of a round; wraps when it has to."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._phases: tuple[Phase, ...] = ()
        self._font = figure_font()
        self._line = round(QFontMetricsF(self._font).height()) + 4
        self.setAccessibleName("Key to the phase colours")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def show_phases(self, phases: set[Phase]) -> None:
        """Explain these phases."""
        wanted = tuple(phase for phase in PHASE_WORDS if phase in phases)
        if wanted != self._phases:
            self._phases = wanted
            self.setAccessibleDescription(", ".join(PHASE_WORDS[phase] for phase in wanted))
            self.updateGeometry()
            self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """All phases in one row."""
        return QSize(120, self._line)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """The narrower, the more rows."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """Height of the rows at a width."""
        places = self._places(width)
        return round(places[-1].bottom()) if places else self._line

    def event(self, event: QEvent) -> bool:
        """Say what a phase is, under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            point = QPointF(event.pos())
            pairs = zip(self._places(self.width()), self._phases, strict=True)
            tip = next((PHASE_MEANS[phase] for box, phase in pairs if box.contains(point)), "")
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw chips and names."""
        painter = QPainter(self)
        painter.setFont(self._font)
        metrics = QFontMetricsF(self._font)
        for box, phase in zip(self._places(self.width()), self._phases, strict=True):
            chip = QRectF(round(box.left()), round(box.center().y() - CHIP / 2), CHIP, CHIP)
            painter.fillRect(chip, QColor(self._theme.phase(phase.name.lower())))
            painter.setPen(QColor(self._theme.dim))
            base = box.center().y() + (metrics.ascent() - metrics.descent()) / 2
            painter.drawText(QPointF(chip.right() + 5, base), PHASE_WORDS[phase])

    def _places(self, width: int) -> list[QRectF]:
        metrics = QFontMetricsF(self._font)
        places, x, y = [], 0.0, 0.0
        for phase in self._phases:
            taken = CHIP + 5 + metrics.horizontalAdvance(PHASE_WORDS[phase])
            if x > 0 and x + taken > width:
                x, y = 0.0, y + self._line
            places.append(QRectF(x, y, taken, self._line))
            x += taken + GAP
        return places
