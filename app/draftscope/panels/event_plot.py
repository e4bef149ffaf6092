"""The plot of single saves and restores over rounds: a point each, time on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent
from PySide6.QtWidgets import QToolTip

from draftscope.base import units
from draftscope.base.theme import MARKERS, Theme
from draftscope.engine.events import Kind, Mechanism
from draftscope.panels.decades import Span, log_us, span_around, tick_text, ticks, unit_of
from draftscope.panels.fonts import figure_font
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.plot import Axis, Plot
from draftscope.trace.checkpoints import EventSeries
from draftscope.trace.fallback_words import MECHANISMS
from draftscope.trace.thinning import Raster, one_a_cell

POINT = 5
"""Size of a point in pixels; one is drawn a cell of this size."""

REACH = 9.0
"""Pixels from a point at which the pointer still means it."""

HINT = "Wheel zooms, drag pans, a click selects the round, a double click shows all"

PHASE_OF = {Kind.SAVE: "save", Kind.RESTORE: "restore"}


class Event(NamedTuple):
    """A save or restore as it is drawn; ``place``: in the series of its kind."""

    kind: Kind
    place: int
    round: int
    slot: int
    mechanism: Mechanism
    duration_us: float
    size_bytes: int

    @property
    def words(self) -> str:
        """All of it, for a tooltip."""
        size = f" · {units.bytes_text(self.size_bytes)}" if self.size_bytes else ""
        what = f"{PHASE_OF[self.kind]} · slot {self.slot} · round {self.round}"
        return f"{what} · {MECHANISMS[self.mechanism]} · {units.duration(self.duration_us * 1e3)}{size}"


class _Shown(NamedTuple):
    """Points on the screen: kind of each, and its place in the series of its kind."""

    kind: NDArray[np.uint8]
    place: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]


_NOTHING = _Shown(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


class DecadeAxis(Axis):
    """The vertical axis: powers of ten in one unit."""

    def __init__(self) -> None:
        super().__init__("left", str)

    def tickValues(self, minVal: float, maxVal: float, size: float) -> Any:  # noqa: N802, N803
        """Places of the ticks, all of one level."""
        places = [tick.place for tick in ticks(Span(minVal, maxVal))]
        return [(1.0, places)]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        """Texts of the ticks, in the unit of the view."""
        unit = unit_of(Span(*self.range))
        return [tick_text(value, unit) for value in values]


class AlikePoints(pg.ScatterPlotItem):  # type: ignore[misc]
    """Points that all look the same; pyqtgraph asks for the look of each, which takes longer than to draw them."""

    def updateSpots(self, dataSet: NDArray[Any] | None = None) -> None:  # noqa: N802, N803
        """Find the one look in the item's picture of symbols, for all points."""
        points = self.data if dataSet is None else dataSet
        if len(points):
            look = tuple(self.opts[name] for name in ("symbol", "size", "pen", "brush"))
            points["sourceRect"] = self.fragmentAtlas[[look]][0]
            self._updateMaxSpotSizes(data=points[:1])
        self.invalidate()


class EventPlot(Plot):
    """Points in the colour of their phase, their marker by slot; what would overlap is drawn once."""

    event_clicked = Signal(object)
    """Carries the ``Event`` that was clicked."""
    range_changed = Signal()
    """Another stretch of rounds is in view, so other points are to be drawn."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        self._items: dict[tuple[Kind, int], AlikePoints] = {}
        self._series: Mapping[Kind, EventSeries] = {}
        self._slot: int | None = None
        self._shown = _NOTHING
        self._extent: pg.PlotDataItem | None = None
        self._picked: pg.ScatterPlotItem | None = None
        super().__init__(theme, Axis("bottom", "{:.0f}".format, is_whole=True), DecadeAxis(), clock)
        # Points are thinned by what is in view, so the whole run's extent needs an item of its own, which nobody sees.
        self._extent = self.plot(pen=pg.mkPen(0, 0, 0, 0))
        self._picked = pg.ScatterPlotItem(size=POINT + 5, brush=None, pxMode=True)
        self._picked.setZValue(10)
        self.addItem(self._picked, ignoreBounds=True)
        self.setAccessibleName("Save and restore times over rounds")
        self.getPlotItem().setLimits(xMin=-0.5, minXRange=4.0)
        self.view.sigXRangeChanged.connect(self._on_x_range_changed)
        self._restyle()

    @property
    def n_drawn(self) -> int:
        """Points on the screen."""
        return len(self._shown.x)

    def drawn_events(self) -> list[Event]:
        """The events whose points are on the screen."""
        return [self._event(position) for position in range(self.n_drawn)]

    def show_events(self, series: Mapping[Kind, EventSeries], slot: int | None = None) -> None:
        """Draw what of these series is in view; of one slot, or of all."""
        self._series, self._slot = series, slot
        full = [columns for columns in series.values() if len(columns)]
        if not full:
            self._draw(_NOTHING)
            return
        rounds = [(int(columns.round.view[0]), int(columns.round.view[-1])) for columns in full]
        times = [(float(columns.duration_us.view.min()), float(columns.duration_us.view.max())) for columns in full]
        span = span_around(min(low for low, _ in times), max(high for _, high in times))
        first, last = min(low for low, _ in rounds) - 0.5, max(high for _, high in rounds) + 0.5
        assert self._extent is not None
        self._extent.setData([first, last], [span.low, span.low])
        self.view.setYRange(*span, padding=0.0)
        self.view.updateAutoRange()
        self._fit_scale(span)
        self._draw(self._thin(span, slot))

    def _fit_scale(self, span: Span) -> None:
        metrics = QFontMetricsF(figure_font(0.92))
        widest = max((metrics.horizontalAdvance(tick.text) for tick in ticks(span)), default=0.0)
        axis = self.getPlotItem().getAxis("left")
        if axis.width() != round(widest) + 14:
            axis.setWidth(round(widest) + 14)

    def _thin(self, span: Span, slot: int | None) -> _Shown:
        x0, x1 = self.view.viewRange()[0]
        width, height = max(self.view.width(), POINT), max(self.view.height(), POINT)
        raster = Raster(x0, x1, *span, max(int(width / POINT), 1), max(int(height / POINT), 1))
        parts = []
        for kind, columns in self._series.items():
            in_view = slice(*np.searchsorted(columns.round.view, (x0, x1), "left").tolist())
            x, us = columns.round.view[in_view], columns.duration_us.view[in_view]
            y = np.log10(np.maximum(us, 1e-3))
            wanted = np.arange(len(x)) if slot is None else np.flatnonzero(columns.slot.view[in_view] == slot)
            chosen = wanted[one_a_cell(x[wanted], y[wanted], raster)]
            kinds = np.full(len(chosen), kind, np.uint8)
            parts.append(_Shown(kinds, chosen + in_view.start, x[chosen].astype(np.float64), y[chosen]))
        return _Shown(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _draw(self, shown: _Shown) -> None:
        self._shown = shown
        used = set()
        for kind, columns in self._series.items():
            of_kind = shown.kind == kind
            markers = columns.slot.view[shown.place[of_kind]] % len(MARKERS)
            for marker in np.unique(markers).tolist():
                used.add((kind, marker))
                chosen = markers == marker
                self._item(kind, marker).setData(x=shown.x[of_kind][chosen], y=shown.y[of_kind][chosen])
        for key in set(self._items) - used:
            self._items[key].setData(x=[], y=[])

    def _item(self, kind: Kind, marker: int) -> AlikePoints:
        if (kind, marker) not in self._items:
            item = AlikePoints(size=POINT, pen=None, symbol=MARKERS[marker], pxMode=True)
            item.setBrush(QColor(self._theme.phase(PHASE_OF[kind])))
            self._items[kind, marker] = item
            self.addItem(item, ignoreBounds=True)
        return self._items[kind, marker]

    def mark_round(self, round_id: int | None) -> None:
        """Mark the selected round: a line, and a ring around each of its events, those that were left out too."""
        self.mark_x(round_id)
        found: list[float] = []
        if round_id is not None:
            for columns in self._series.values():
                here = slice(*np.searchsorted(columns.round.view, (round_id, round_id + 1)).tolist())
                times, slots = columns.duration_us.view[here], columns.slot.view[here]
                found.extend((times if self._slot is None else times[slots == self._slot]).tolist())
        assert self._picked is not None
        self._picked.setData(x=[round_id] * len(found), y=[log_us(us) for us in found])

    def event_at(self, place: QPointF) -> Event | None:
        """The event whose point lies nearest to a place of the scene, within reach."""
        if self.n_drawn == 0:
            return None
        pixel = self.view.viewPixelSize()
        point = self.view.mapSceneToView(place)
        away = np.hypot((self._shown.x - point.x()) / pixel[0], (self._shown.y - point.y()) / pixel[1])
        nearest = int(np.argmin(away))
        return self._event(nearest) if away[nearest] <= REACH else None

    def _event(self, position: int) -> Event:
        kind, index = Kind(int(self._shown.kind[position])), int(self._shown.place[position])
        columns = self._series[kind]
        return Event(
            kind,
            index,
            int(columns.round.view[index]),
            int(columns.slot.view[index]),
            Mechanism(int(columns.mechanism.view[index])),
            float(columns.duration_us.view[index]),
            int(columns.size_bytes.view[index]),
        )

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        """Tell what the pointer is on."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            found = self.event_at(self.mapToScene(event.pos()))
            QToolTip.showText(event.globalPos(), found.words if found else HINT, self)
            return True
        return bool(super().viewportEvent(event))

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        super().set_theme(theme)
        self._restyle()

    def _restyle(self) -> None:
        for (kind, _), item in self._items.items():
            item.setBrush(QColor(self._theme.phase(PHASE_OF[kind])))
        if self._picked is not None:
            self._picked.setPen(pg.mkPen(self._theme.text, width=1.5))

    def _on_clicked(self, event: MouseClickEvent) -> None:
        found = self.event_at(event.scenePos())
        if event.button() == Qt.MouseButton.LeftButton and not event.double() and found is not None:
            self.event_clicked.emit(found)
        else:
            super()._on_clicked(event)

    def _on_x_range_changed(self) -> None:
        self.range_changed.emit()
