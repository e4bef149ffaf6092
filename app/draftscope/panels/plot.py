"""A line plot in the look of the program, on pyqtgraph: styled axes, lines that are made once, labels at their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from draftscope.base.theme import Theme, mix
from draftscope.panels.fonts import figure_font
from draftscope.panels.label_places import spread
from draftscope.panels.paint_clock import PaintClock

TickFormat = Callable[[float], str]


class EndLabel(NamedTuple):
    """A label at the end of a line: the line's last value, the text, and its colour."""

    y: float
    text: str
    colour: str


class EndLabels(pg.GraphicsWidget):  # type: ignore[misc]
    """The strip right of a plot that names each line at the height where it ends; names never overlap."""

    def __init__(self, view: pg.ViewBox) -> None:
        super().__init__()
        self._view = view
        self._labels: tuple[EndLabel, ...] = ()
        self._font = figure_font()
        view.sigRangeChanged.connect(self._on_range_changed)
        self.setFixedWidth(8)

    def show_labels(self, labels: Sequence[EndLabel]) -> None:
        """Show these; the strip is as wide as the widest."""
        if tuple(labels) == self._labels:
            return
        self._labels = tuple(labels)
        metrics = QFontMetricsF(self._font)
        widest = max((metrics.horizontalAdvance(label.text) for label in labels), default=0.0)
        width = round(widest) + 14
        if width != round(self.size().width()):
            self.setFixedWidth(width)
        self.update()

    @property
    def shown(self) -> tuple[EndLabel, ...]:
        """The labels that have room; where some have none, the last one says how many."""
        n_fit = max(int(self.size().height() / QFontMetricsF(self._font).height()), 1)
        if len(self._labels) <= n_fit:
            return self._labels
        rest = self._labels[n_fit - 1 :]
        return (*self._labels[: n_fit - 1], EndLabel(rest[0].y, f"+ {len(rest)}", rest[0].colour))

    def places(self) -> list[float]:
        """Heights of the middles of the labels shown, in pixels from the top, in their order."""
        height = self.size().height()
        low, high = self._view.viewRange()[1]
        wanted = [(high - label.y) / max(high - low, 1e-12) * height for label in self.shown]
        line = QFontMetricsF(self._font).height()
        return spread(wanted, line, line / 2, height - line / 2)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw the names."""
        painter.setFont(self._font)
        metrics = QFontMetricsF(self._font)
        drop = (metrics.ascent() - metrics.descent()) / 2
        for label, middle in zip(self.shown, self.places(), strict=True):
            painter.setPen(QColor(label.colour))
            painter.drawText(QPointF(8, middle + drop), label.text)

    def _on_range_changed(self, *_: object) -> None:
        self.update()


class Axis(pg.AxisItem):  # type: ignore[misc]
    """An axis whose ticks are written by a function and may be kept to whole numbers."""

    def __init__(self, orientation: str, write: TickFormat, *, is_whole: bool = False) -> None:
        super().__init__(orientation)
        self._write = write
        self._is_whole = is_whole
        self.setStyle(tickFont=figure_font(0.92), tickLength=-4, maxTextLevel=0, autoExpandTextSpace=True)

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Texts of the ticks."""
        return [self._write(value * scale) for value in values]

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> Any:  # noqa: N802, N803
        """Distances between ticks; at least 1 where only whole numbers mean something."""
        levels = super().tickSpacing(minVal, maxVal, size)
        if not self._is_whole:
            return levels
        return [(max(step, 1.0), offset) for step, offset in levels]


class Plot(pg.PlotWidget):  # type: ignore[misc]
    """Lines over a shared x axis, one a slot. Drawn without antialiasing, downsampled by peaks, clipped to the view."""

    x_clicked = Signal(float)
    """The plot was clicked at this x."""

    step_asked = Signal(int)
    """The left (-1) or right (1) arrow key was pressed."""

    def __init__(self, theme: Theme, x_axis: Axis, y_axis: Axis, clock: PaintClock) -> None:
        self._clock = clock
        super().__init__(axisItems={"bottom": x_axis, "left": y_axis}, background=theme.panel)
        self._theme = theme
        self._lines: dict[int, pg.PlotDataItem] = {}
        self._rests: dict[int, pg.PlotDataItem] = {}
        item = self.getPlotItem()
        item.setMenuEnabled(False)
        item.hideButtons()
        item.setClipToView(True)
        item.setDownsampling(auto=True, mode="peak")
        item.showGrid(x=False, y=True, alpha=0.35)
        item.layout.setContentsMargins(0, 8, 4, 4)
        self.view = item.getViewBox()
        self.view.setMouseEnabled(x=True, y=False)
        self.view.setDefaultPadding(0.0)
        self.labels = EndLabels(self.view)
        item.layout.addItem(self.labels, 2, 3)
        self._marker = pg.InfiniteLine(angle=90, movable=False)
        self._marker.setVisible(False)
        self.addItem(self._marker, ignoreBounds=True)
        self.scene().sigMouseClicked.connect(self._on_clicked)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.set_theme(theme)

    def set_line(self, slot: int, x: NDArray[np.generic], y: NDArray[np.generic], x_end: float) -> None:
        """Set the points of a slot's line; NaN leaves a gap. A faint rest leads from its end to ``x_end``."""
        if slot not in self._lines:
            self._lines[slot] = self.plot(connect="finite")
            self._rests[slot] = self.plot()
            self._restyle_line(slot)
        self._lines[slot].setData(x, y)
        is_short = len(x) > 0 and x[-1] < x_end
        self._rests[slot].setData([x[-1], x_end] if is_short else [], [y[-1]] * 2 if is_short else [])

    def drop_lines(self, keep: Sequence[int] = ()) -> None:
        """Remove the lines of all slots but those to keep."""
        for slot in [slot for slot in self._lines if slot not in keep]:
            self.removeItem(self._lines.pop(slot))
            self.removeItem(self._rests.pop(slot))

    def mark_x(self, x: float | None) -> None:
        """Show the vertical line of the selection at ``x``, or hide it."""
        self._marker.setVisible(x is not None)
        if x is not None:
            self._marker.setPos(x)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Paint, on the panel's clock."""
        with self._clock:
            super().paintEvent(event)
            if self.hasFocus():
                painter = QPainter(self.viewport())
                painter.setPen(QColor(self._theme.accent))
                painter.drawRect(self.viewport().rect().adjusted(0, 0, -1, -1))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Arrow keys step, plus and minus zoom, Home shows all."""
        match event.key():
            case Qt.Key.Key_Left:
                self.step_asked.emit(-1)
            case Qt.Key.Key_Right:
                self.step_asked.emit(1)
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self.view.scaleBy(x=1 / 1.5)
            case Qt.Key.Key_Minus:
                self.view.scaleBy(x=1.5)
            case Qt.Key.Key_Home:
                self.view.enableAutoRange(x=True)
            case _:
                super().keyPressEvent(event)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.setBackground(theme.panel)
        for name in ("left", "bottom"):
            axis = self.getPlotItem().getAxis(name)
            axis.setPen(pg.mkPen(theme.line))
            axis.setTextPen(pg.mkPen(theme.dim))
        self._marker.setPen(pg.mkPen(theme.accent, width=1, style=Qt.PenStyle.DashLine))
        for slot in self._lines:
            self._restyle_line(slot)

    def _restyle_line(self, slot: int) -> None:
        self._lines[slot].setPen(slot_pen(self._theme, slot))
        faint = mix(self._theme.panel, self._theme.slot(slot), 0.45)
        self._rests[slot].setPen(pg.mkPen(faint, width=1, style=Qt.PenStyle.DotLine))

    def _on_clicked(self, event: MouseClickEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if event.double():
            self.view.enableAutoRange(x=True)
            return
        if self.view.sceneBoundingRect().contains(event.scenePos()):
            self.x_clicked.emit(float(self.view.mapSceneToView(event.scenePos()).x()))


def slot_pen(theme: Theme, slot: int) -> QPen:
    """The pen of a slot's line; one pixel wide, since a wider one costs four times as much to draw."""
    pen = QPen(QColor(theme.slot(slot)), 1)
    pen.setCosmetic(True)
    dash = theme.slot_dash(slot)
    if dash:
        pen.setDashPattern(list(dash))
    return pen


def slot_brush(theme: Theme, slot: int) -> QBrush:
    """The fill of a slot's bars: full for the first four slots, hatched for those that repeat a colour."""
    patterns = (Qt.BrushStyle.SolidPattern, Qt.BrushStyle.Dense4Pattern, Qt.BrushStyle.BDiagPattern)
    style = patterns[min(slot // len(theme.slots), len(patterns) - 1)]
    return QBrush(QColor(theme.slot(slot)), style)


def whole_pixels(box: QRectF) -> QRectF:
    """The box with its edges on whole pixels."""
    left, top, right, bottom = (round(edge) for edge in (box.left(), box.top(), box.right(), box.bottom()))
    return QRectF(left, top, right - left, bottom - top)
