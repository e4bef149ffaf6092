"""The lanes of the timeline: what is drawn, and what pointer and keys do to it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.engine.events import ENGINE_TRACK, Kind
from draftscope.panels.lane_paint import LaneGeometry, LanePainter
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.span_search import operation_near, round_extent, span_near
from draftscope.panels.span_words import span_words
from draftscope.panels.time_window import TimeWindow, fitted
from draftscope.trace.operation_words import operation_words
from draftscope.trace.span_times import SpanTimes
from draftscope.trace.store import TraceStore

FOLLOWED_NS = 400_000_000
"""Length of the window while it follows a run, until the reader zooms."""

CLICK_PIXELS = 4
"""The pointer may move this far between press and release of a click."""

CROWD = 2
"""Spans a pixel from which a lane is drawn from sums of times: hardly one is then wide enough for a line of its own."""

REACH_PIXELS = 3
"""A span this near to the pointer is read out."""


class LaneView(QWidget):
    """A lane for the engine's shared decodes and one a slot, over a window of time.

    Wheel zooms at the pointer, drag pans, shift-drag measures, click selects the round; arrows, plus and minus, Home,
    F and Escape do the same from the keyboard.
    """

    window_changed = Signal()
    follow_changed = Signal(bool)
    round_clicked = Signal(int)
    round_step_asked = Signal(int)
    crosshair_moved = Signal(object)
    """Time under the pointer in nanoseconds, or None when it left."""
    read_out = Signal(str)

    def __init__(self, store: TraceStore, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._clock = clock
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setMinimumHeight(90)
        self.setAccessibleName("Timeline lanes")
        self._store = store
        self._times = SpanTimes()
        self._theme = theme
        self._painter = LanePainter(theme)
        self.window_ns = TimeWindow(0, FOLLOWED_NS, 100)
        self.is_following = True
        self.selected_round: int | None = None
        self.crosshair_ns: int | None = None
        self.measure_ns: tuple[int, int] | None = None
        self._pressed: QPointF | None = None
        self._dragged_from: TimeWindow | None = None
        self._is_measuring = False
        self._images_key: object = None
        self._images: list[QImage] = []

    # ---- the window of time

    def sync(self) -> None:
        """Take in what the store got: move with it when following, and repaint."""
        limits = self._store.time_range()
        if limits is None:
            return
        self.setMinimumHeight(self._painter.least_height(len(self._lanes())))
        if self.is_following:
            shorter = limits[1] - limits[0] < self.window_ns.span_ns
            width = self._geometry().width
            moved = TimeWindow(self.window_ns.t0_ns, self.window_ns.t1_ns, width).following(limits[1])
            if shorter:
                moved = TimeWindow(limits[0], limits[0] + moved.span_ns, width)
            self._set_window(moved)
        self.update()

    def fit(self) -> None:
        """Show the whole run."""
        limits = self._store.time_range()
        if limits is not None:
            self.set_following(False)
            self._set_window(fitted(*limits, self._geometry().width))

    def start_over(self) -> None:
        """Forget window, measure and selection: a new run begins."""
        self.window_ns = TimeWindow(0, FOLLOWED_NS, self._geometry().width)
        self.measure_ns = None
        self.set_following(True)

    def set_following(self, follows: bool) -> None:
        """Keep the newest time in view, or stay."""
        if follows != self.is_following:
            self.is_following = follows
            self.follow_changed.emit(follows)
            self.sync()

    def show_range(self, t0_ns: int, t1_ns: int) -> None:
        """Show this range of time, given by another view."""
        if (t0_ns, t1_ns) != (self.window_ns.t0_ns, self.window_ns.t1_ns):
            self.set_following(False)
            self._set_window(TimeWindow(t0_ns, t1_ns, self._geometry().width))

    def set_crosshair(self, t_ns: int | None) -> None:
        """Show the crosshair at a time, or hide it."""
        if t_ns != self.crosshair_ns:
            self.crosshair_ns = t_ns
            self.update()

    def set_selected_round(self, selected: int | None) -> None:
        """Mark a round."""
        if selected != self.selected_round:
            self.selected_round = selected
            self.update()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self._painter.set_theme(theme)
        self.update()

    def _set_window(self, window: TimeWindow) -> None:
        limits = self._store.time_range()
        if limits is not None:
            window = window.kept_near(*limits)
        if window != self.window_ns:
            self.window_ns = window
            self.update()
            self.window_changed.emit()

    def _zoom(self, factor: float, x: float) -> None:
        limits = self._store.time_range()
        if limits is None:
            return
        longest = max(round((limits[1] - limits[0]) * 1.1), FOLLOWED_NS)
        at = float(self._geometry().width) if self.is_following else x
        self._set_window(self.window_ns.zoomed(factor, at, longest))

    def _pan(self, pixels: float) -> None:
        self.set_following(False)
        self._set_window(self.window_ns.panned(pixels))

    # ---- painting

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for five lanes."""
        return QSize(600, 200)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the window over the new width."""
        super().resizeEvent(event)
        self.window_ns = TimeWindow(self.window_ns.t0_ns, self.window_ns.t1_ns, self._geometry().width)

    def _lanes(self) -> tuple[int, ...]:
        return (int(ENGINE_TRACK), *self._store.slots())

    def _geometry(self) -> LaneGeometry:
        return self._painter.geometry(self._lanes(), self.width(), self.height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Axis, lanes with the spans in view, then selection, measure and crosshair."""
        with self._clock:
            self._paint()

    def _paint(self) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.panel))
        place, window = self._geometry(), self.window_ns
        limits = self._store.time_range()
        if limits is None:
            return
        self._painter.draw_axis(painter, place, window, limits[0])
        self._painter.draw_names(painter, place)
        for rank, image in enumerate(self._lane_images(place, window)):
            self._painter.draw_lane(painter, place, rank, image)
            operations = self._store.operations_in(place.lanes[rank], window.t0_ns, window.t1_ns)
            self._painter.draw_operations(painter, place, rank, operations, window)
        self._draw_marks(painter, place, window, limits[0])
        if self.hasFocus():
            painter.setPen(QColor(self._theme.accent))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _lane_images(self, place: LaneGeometry, window: TimeWindow) -> list[QImage]:
        """Images of the lanes; made again only when window, records or theme changed, not when the pointer moves."""
        store, ratio = self._store, self.devicePixelRatioF()
        key = (window, store.generation, len(store.kind(Kind.SPAN)), place.lanes, ratio, self._theme)
        if key != self._images_key:
            self._images_key = key
            self._times.update(store)
            self._images = [self._lane_image(slot, window, ratio) for slot in place.lanes]
        return self._images

    def _lane_image(self, slot: int, window: TimeWindow, ratio: float) -> QImage:
        times = self._times.lane(slot)
        if times.n_in(window.t0_ns, window.t1_ns) > CROWD * window.width:
            return self._painter.crowded_image(times, window, ratio)
        return self._painter.lane_image(self._store.spans_in(slot, window.t0_ns, window.t1_ns), window, ratio)

    def _draw_marks(self, painter: QPainter, place: LaneGeometry, window: TimeWindow, origin_ns: int) -> None:
        extent = None if self.selected_round is None else round_extent(self._store, self.selected_round)
        if extent is not None:
            self._painter.draw_selection(painter, place, window.x_of(extent[0]), window.x_of(extent[1]))
        if self.measure_ns is not None:
            t0, t1 = self.measure_ns
            text = units.duration(abs(t1 - t0))
            self._painter.draw_measure(painter, place, window.x_of(t0), window.x_of(t1), text)
        if self.crosshair_ns is not None and window.t0_ns <= self.crosshair_ns <= window.t1_ns:
            text = units.duration(self.crosshair_ns - origin_ns)
            self._painter.draw_crosshair(painter, place, window.x_of(self.crosshair_ns), text)

    # ---- pointer

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Zoom at the pointer; sideways, or with Shift, pan."""
        delta = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier or abs(delta.x()) > abs(delta.y()):
            self._pan((delta.x() or delta.y()) / 2)
        elif delta.y():
            self._zoom(1.2 ** (delta.y() / 120), event.position().x() - self._geometry().left)
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Begin to pan, or with Shift to measure."""
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._pressed = event.position()
        self._dragged_from = self.window_ns
        self._is_measuring = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if self._is_measuring:
            t_ns = self.window_ns.t_of(event.position().x() - self._geometry().left)
            self.measure_ns = (t_ns, t_ns)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Pan, measure, or move the crosshair and read out the span under it."""
        x = event.position().x() - self._geometry().left
        if self._pressed is not None and self._dragged_from is not None:
            moved = event.position().x() - self._pressed.x()
            if self._is_measuring and self.measure_ns is not None:
                self.measure_ns = (self.measure_ns[0], self.window_ns.t_of(x))
            elif abs(moved) > CLICK_PIXELS:
                self.set_following(False)
                self._set_window(self._dragged_from.panned(moved))
        self._point_at(x, event.position().y())
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """End of a drag; where the pointer hardly moved, a click that selects the round."""
        if self._pressed is None:
            return
        moved = event.position() - self._pressed
        was_measuring, self._pressed, self._is_measuring = self._is_measuring, None, False
        if abs(moved.x()) > CLICK_PIXELS or abs(moved.y()) > CLICK_PIXELS:
            return
        if was_measuring:
            self.measure_ns = None
        found = self._span_at(event.position().x() - self._geometry().left, event.position().y())
        if found is not None and found[0] >= 0:
            self.round_clicked.emit(found[0])
        self.update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Show the whole run."""
        self.fit()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Take the crosshair away."""
        self.crosshair_moved.emit(None)
        self.read_out.emit("")

    def _point_at(self, x: float, y: float) -> None:
        is_inside = 0 <= x <= self._geometry().width
        self.crosshair_moved.emit(self.window_ns.t_of(x) if is_inside else None)
        found = self._span_at(x, y)
        self.read_out.emit(found[1] if found is not None else "")

    def _span_at(self, x: float, y: float) -> tuple[int, str] | None:
        """Round and words of the operation or span under a point of the lanes, or of the nearest within reach."""
        slot = self._geometry().lane_at(y)
        if slot is None:
            return None
        t_ns = self.window_ns.t_of(x)
        reach = self.window_ns.t_of(x + REACH_PIXELS) - t_ns
        operation = operation_near(self._store, slot, t_ns, reach)
        if operation is not None:  # they are few, and lie over the spans
            took = int(operation["duration_ns"])
            words = operation_words(operation)
            return int(operation["round"]), f"{words} · {units.duration(took)}" if took else words
        span = span_near(self._store, slot, t_ns, reach)
        if span is None:
            return None
        return int(span["round"]), f"{span_words(span)} · {units.duration(int(span['duration_ns']))}"

    # ---- keyboard

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Arrows pan and step through rounds, plus and minus zoom, Home fits, F follows, Escape ends a measure."""
        width = self._geometry().width
        match event.key():
            case Qt.Key.Key_Left:
                self._pan(width / 10)
            case Qt.Key.Key_Right:
                self._pan(-width / 10)
            case Qt.Key.Key_Up:
                self.round_step_asked.emit(-1)
            case Qt.Key.Key_Down:
                self.round_step_asked.emit(1)
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self._zoom(1.5, width / 2)
            case Qt.Key.Key_Minus:
                self._zoom(1 / 1.5, width / 2)
            case Qt.Key.Key_Home:
                self.fit()
            case Qt.Key.Key_F:
                self.set_following(not self.is_following)
            case Qt.Key.Key_Escape if self.measure_ns is not None:
                self.measure_ns = None
                self.update()
            case _:
                super().keyPressEvent(event)
