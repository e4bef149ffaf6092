"""How times are spread: a strip for each mechanism, phase and slot, on one logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.engine.events import Kind, Mechanism
from draftscope.panels.decades import Span, figure_in, log_us, span_around, ticks, unit_of
from draftscope.panels.fonts import figure_font
from draftscope.panels.paint_clock import PaintClock
from draftscope.trace.checkpoints import CheckpointTable, Timing
from draftscope.trace.fallback_words import MECHANISMS

N_BINS = 72
MARGIN = 12
GAP = 12

WORDS = {Kind.SAVE: "save", Kind.RESTORE: "restore"}


class Strip(NamedTuple):
    """One strip: what of, median and 99th percentile, and events a bin of the scale. ``slot`` None: all slots."""

    kind: Kind
    mechanism: Mechanism
    slot: int | None
    timing: Timing
    counts: tuple[int, ...]

    @property
    def name(self) -> str:
        """What the strip is of, beside its mechanism."""
        return f"{WORDS[self.kind]} · {'all slots' if self.slot is None else f'slot {self.slot}'}"

    def figures(self, unit: units.TimeUnit) -> str:
        """Median and 99th percentile, in the unit of the scale."""
        return f"{figure_in(self.timing.median_us, unit)} · {figure_in(self.timing.p99_us, unit)} {unit[0]}"

    @property
    def words(self) -> str:
        """All of it in a sentence."""
        timing = self.timing
        median, p99 = (units.duration(us * 1e3) for us in (timing.median_us, timing.p99_us))
        return f"{MECHANISMS[self.mechanism]}, {self.name}: median {median}, 99th percentile {p99}, of {timing.n:,}."


def strips_of(table: CheckpointTable) -> tuple[Span, list[Strip]]:
    """The strips of a run on the scale that holds them all: by mechanism, saves first, all slots before each one."""
    groups = table.groups()
    everything = [table.durations_us(kind) for kind in WORDS]
    times = np.concatenate(everything)
    span = span_around(float(times.min()), float(times.max())) if len(times) else Span(0.0, 1.0)
    strips: list[Strip] = []
    for mechanism in table.mechanisms():
        for kind in WORDS:
            slots = [group.slot for group in groups if group.kind == kind and group.mechanism == mechanism]
            wanted = [None, *slots] if len(slots) > 1 else slots
            strips.extend(_strip(table, kind, mechanism, slot, span) for slot in wanted)
    return span, strips


def _strip(table: CheckpointTable, kind: Kind, mechanism: Mechanism, slot: int | None, span: Span) -> Strip:
    durations = table.durations_us(kind, mechanism, slot)
    timing = table.timing(kind, mechanism, slot)
    assert timing is not None
    counts, _ = np.histogram(np.log10(np.maximum(durations, 1e-3)), N_BINS, span)
    return Strip(kind, mechanism, slot, timing, tuple(counts.tolist()))


class TimeStrips(QWidget):
    """Draws the strips under their scale; the light line is the median, the short one the 99th percentile."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._theme = theme
        self._clock = clock
        self._span = Span(0.0, 1.0)
        self._font = figure_font(0.92)
        self._bold = figure_font(0.92, is_bold=True)
        self._line = round(QFontMetricsF(self._font).height())
        self._row = self._line + 6
        self.strips: tuple[Strip, ...] = ()
        self._places: list[tuple[QRectF, Strip]] = []
        self.setAccessibleName("Save and restore times, by mechanism and slot")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_strips(self, span: Span, strips: Sequence[Strip]) -> None:
        """Show these; does nothing when they are shown already."""
        if (span, tuple(strips)) == (self._span, self.strips):
            return
        self._span, self.strips = span, tuple(strips)
        self.setAccessibleDescription(" ".join(strip.words for strip in self.strips))
        self.updateGeometry()
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as all strips."""
        n_titles = len({strip.mechanism for strip in self.strips})
        return QSize(320, self._line + 10 + n_titles * (self._row + 4) + len(self.strips) * self._row)

    def event(self, event: QEvent) -> bool:
        """Tell a strip's figures under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            place = QPointF(event.pos())
            tip = next((strip.words for box, strip in self._places if box.contains(place)), "")
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Scale, then mechanism by mechanism."""
        with self._clock:
            self._paint()

    def _paint(self) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.panel))
        painter.setFont(self._font)
        metrics = QFontMetricsF(self._font)
        unit = unit_of(self._span)
        left = MARGIN + max((metrics.horizontalAdvance(strip.name) for strip in self.strips), default=60.0) + GAP
        right = (
            MARGIN + max((metrics.horizontalAdvance(strip.figures(unit)) for strip in self.strips), default=60.0) + GAP
        )
        area = QRectF(left, self._line + 8, max(self.width() - left - right, 20.0), self.height() - self._line - 10)
        self._draw_scale(painter, area)
        self._places = []
        top, mechanism = area.top(), None
        for strip in self.strips:
            if strip.mechanism != mechanism:
                mechanism = strip.mechanism
                painter.setFont(self._bold)
                self._text(painter, MARGIN, top + self._row / 2 + 2, MECHANISMS[mechanism], self._theme.text)
                painter.setFont(self._font)
                top += self._row + 4
            self._draw_strip(painter, QRectF(area.left(), top, area.width(), self._row), strip)
            top += self._row

    def _draw_scale(self, painter: QPainter, area: QRectF) -> None:
        metrics = QFontMetricsF(self._font)
        figures = "median · p99"
        figures_x = self.width() - MARGIN - metrics.horizontalAdvance(figures)
        self._text(painter, figures_x, 4 + self._line / 2, figures, self._theme.dim)
        free_from = 0.0
        for tick in ticks(self._span):
            x = round(self._x(tick.place, area)) + 0.5
            painter.setPen(QPen(QColor(self._theme.line), 1))
            painter.drawLine(QPointF(x, area.top() - 3), QPointF(x, area.bottom()))
            width = metrics.horizontalAdvance(tick.text)
            if x - width / 2 > free_from and x + width / 2 < figures_x - 8:
                self._text(painter, x - width / 2, 4 + self._line / 2, tick.text, self._theme.dim)
                free_from = x + width / 2 + 6

    def _draw_strip(self, painter: QPainter, box: QRectF, strip: Strip) -> None:
        theme, middle = self._theme, box.center().y()
        self._text(painter, MARGIN, middle, strip.name, theme.text if strip.slot is None else theme.dim)
        figures = strip.figures(unit_of(self._span))
        x = self.width() - MARGIN - QFontMetricsF(self._font).horizontalAdvance(figures)
        self._text(painter, x, middle, figures, theme.text)
        colour = QColor(theme.phase(WORDS[strip.kind]))
        most, width = max(*strip.counts, 1), box.width() / N_BINS
        for rank, count in enumerate(strip.counts):
            if count:
                # The square root keeps single events visible beside a crowd.
                height = max((box.height() - 5) * (count / most) ** 0.5, 2.0)
                x = round(box.left() + rank * width)
                bar = QRectF(x, round(box.bottom() - 2 - height), max(round(width), 2), round(height))
                painter.fillRect(bar, colour)
        self._mark(painter, box, strip.timing.median_us, theme.text, full=True)
        self._mark(painter, box, strip.timing.p99_us, theme.text, full=False)
        self._places.append((QRectF(0, box.top(), self.width(), box.height()), strip))

    def _mark(self, painter: QPainter, box: QRectF, duration_us: float, colour: str, *, full: bool) -> None:
        x = round(self._x(log_us(duration_us), box)) + 0.5
        painter.setPen(QPen(QColor(colour), 1, Qt.PenStyle.SolidLine if full else Qt.PenStyle.DotLine))
        painter.drawLine(QPointF(x, box.top() + 1), QPointF(x, box.bottom() - 1))

    def _x(self, place: float, area: QRectF) -> float:
        return area.left() + area.width() * (place - self._span.low) / (self._span.high - self._span.low)

    def _text(self, painter: QPainter, x: float, middle: float, text: str, colour: str) -> None:
        metrics = QFontMetricsF(painter.font())
        painter.setPen(QColor(colour))
        painter.drawText(QPointF(x, middle + (metrics.ascent() - metrics.descent()) / 2), text)
