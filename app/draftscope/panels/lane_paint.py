"""Paints the lanes of a timeline, its axis, and what lies over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPen

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.engine.events import ENGINE_TRACK, Phase, Records
from draftscope.panels.fonts import figure_font
from draftscope.panels.span_raster import NOTHING, phase_row, phase_row_of_many, wide_starts
from draftscope.panels.span_words import lane_name
from draftscope.panels.time_window import TimeWindow, ticks_ns
from draftscope.trace.span_times import LaneTimes

RIGHT = 8
GAP_AFTER_ENGINE = 6
LANE_MAX = 30
LANE_MIN = 10
LANES_TOP = 6
LEAST_COVER = 0.45
"""Strength of a pixel with little in it, so that a lone short span is seen."""

MARK_WIDTH = 5
MARK_HEIGHT = 3
"""Pixels of the mark of an operation that took no time."""

SEPARATED_FROM = 5
"""Pixels from which a span gets a line where it begins."""


@dataclass(frozen=True, slots=True)
class LaneGeometry:
    """Places of the lanes in a widget, in pixels."""

    left: int
    top: int
    width: int
    lane_height: int
    pitch: int
    lanes: tuple[int, ...]
    axis_top: int

    def lane_top(self, rank: int) -> int:
        """Top of a lane by its place in ``lanes``."""
        gap = GAP_AFTER_ENGINE if rank > 0 and self.lanes[0] == ENGINE_TRACK else 0
        return self.top + rank * self.pitch + gap

    def lane_at(self, y: float) -> int | None:
        """The slot of the lane at a height, else None."""
        for rank, slot in enumerate(self.lanes):
            if self.lane_top(rank) <= y < self.lane_top(rank) + self.pitch:
                return slot
        return None


class LanePainter:
    """Fonts and colours of a theme, and one method for each layer of the picture."""

    def __init__(self, theme: Theme) -> None:
        self._font = figure_font(0.92)
        self._metrics = QFontMetricsF(self._font)
        self._axis_height = round(self._metrics.height()) + 14
        self._least_pitch = max(round(self._metrics.height()) + 1, LANE_MIN + 2)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self._colours = np.zeros((len(Phase) + 1, 3), dtype=np.float32)
        for phase in Phase:
            self._colours[phase] = _rgb(theme.phase(phase.name.lower()))
        self._ground = np.array(_rgb(theme.panel), dtype=np.float32)

    def geometry(self, lanes: tuple[int, ...], width: int, height: int) -> LaneGeometry:
        """Fit the lanes into a widget of this size."""
        names = max((self._metrics.horizontalAdvance(lane_name(slot)) for slot in lanes), default=40.0)
        left = round(names) + 18
        room = height - self._axis_height - LANES_TOP - 2 - GAP_AFTER_ENGINE
        pitch = max(min(room // max(len(lanes), 1), LANE_MAX + 6), self._least_pitch)
        lane_height = max(pitch - max(pitch // 5, 2), LANE_MIN)
        axis = self._axis_height
        return LaneGeometry(left, LANES_TOP, max(width - left - RIGHT, 1), lane_height, pitch, lanes, height - axis)

    def least_height(self, n_lanes: int) -> int:
        """The height below which so many lanes no longer fit."""
        return n_lanes * self._least_pitch + self._axis_height + LANES_TOP + 2 + GAP_AFTER_ENGINE

    def draw_axis(self, painter: QPainter, place: LaneGeometry, window: TimeWindow, origin_ns: int) -> None:
        """Grid lines, ticks with times since ``origin_ns``, and the names of the lanes."""
        unit = units.time_unit(max(abs(window.t0_ns - origin_ns), abs(window.t1_ns - origin_ns), 1))
        ticks, step = ticks_ns(window, origin_ns, 90)
        painter.setFont(self._font)
        for tick in ticks:
            x = round(place.left + window.x_of(tick)) + 0.5
            painter.setPen(QPen(QColor(self._theme.line), 1))
            painter.drawLine(QPointF(x, place.top), QPointF(x, place.axis_top + 4))
            text = units.time_tick(tick - origin_ns, step, unit)
            if x + self._metrics.horizontalAdvance(text) / 2 <= place.left + place.width + RIGHT:
                self._centred(painter, x, place.axis_top + 6, text, self._theme.dim)
        painter.setPen(QPen(QColor(self._theme.line), 1))
        right = place.left + place.width
        painter.drawLine(QPointF(place.left, place.axis_top + 0.5), QPointF(right, place.axis_top + 0.5))

    def draw_names(self, painter: QPainter, place: LaneGeometry) -> None:
        """The lanes' names, left of them."""
        painter.setFont(self._font)
        drop = (self._metrics.ascent() - self._metrics.descent()) / 2
        for rank, slot in enumerate(place.lanes):
            text = lane_name(slot)
            x = place.left - 10 - self._metrics.horizontalAdvance(text)
            painter.setPen(QColor(self._theme.dim if slot == ENGINE_TRACK else self._theme.slot_text(slot)))
            painter.drawText(QPointF(x, place.lane_top(rank) + place.lane_height / 2 + drop), text)

    def lane_image(self, spans: Records, window: TimeWindow, ratio: float) -> QImage:
        """The spans of one lane as an image one pixel high, at ``ratio`` device pixels a pixel."""
        n_pixels = max(round(window.width * ratio), 1)
        row = self._row(*phase_row(spans, window.t0_ns, window.t1_ns, n_pixels))
        starts = wide_starts(spans, window.t0_ns, window.t1_ns, n_pixels, round(SEPARATED_FROM * ratio))
        row[starts, :3] = (row[starts, :3] * 0.5 + self._ground[::-1] * 0.5).astype(np.uint8)
        return _image(row)

    def crowded_image(self, times: LaneTimes, window: TimeWindow, ratio: float) -> QImage:
        """The same for a lane of so many spans that hardly one is wide enough for a line where it begins."""
        n_pixels = max(round(window.width * ratio), 1)
        return _image(self._row(*phase_row_of_many(times, window.t0_ns, window.t1_ns, n_pixels)))

    def draw_lane(self, painter: QPainter, place: LaneGeometry, rank: int, image: QImage) -> None:
        """A lane's image, stretched to its height."""
        painter.drawImage(QRectF(place.left, place.lane_top(rank), place.width, place.lane_height), image)

    def draw_operations(
        self, painter: QPainter, place: LaneGeometry, rank: int, operations: Records, window: TimeWindow
    ) -> None:
        """A mark over the lane for each operation on its slot: as wide as it took, and with a foot to be seen by.

        Operations that share a pixel are one mark.
        """
        if len(operations) == 0:
            return
        scale = place.width / (window.t1_ns - window.t0_ns)
        first = np.round((operations["t_start_ns"] - window.t0_ns) * scale).astype(np.int64)
        width = np.maximum(np.round(operations["duration_ns"] * scale), MARK_WIDTH).astype(np.int64)
        top, colour = place.lane_top(rank), QColor(self._theme.text)
        for x, n in sorted({*zip(first.tolist(), width.tolist(), strict=True)}):
            left, right = max(x, 0), min(x + n, place.width)
            if right > left:
                painter.fillRect(QRectF(place.left + left, top, right - left, MARK_HEIGHT), colour)
                painter.fillRect(QRectF(place.left + left, top, 1, place.lane_height), colour)

    def _row(self, phase: NDArray[np.int8], cover: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Pixels of a lane as ARGB32, uint8 (n_pixels, 4) in the order blue, green, red, alpha."""
        strength = np.maximum(cover, LEAST_COVER)[:, np.newaxis]
        colours = self._colours[np.maximum(phase, 0)] * strength + self._ground * (1 - strength)
        row = np.zeros((len(phase), 4), dtype=np.uint8)
        row[:, :3] = colours[:, ::-1]
        row[:, 3] = np.where(phase == NOTHING, 0, 255)
        return row

    def draw_selection(self, painter: QPainter, place: LaneGeometry, x0: float, x1: float) -> None:
        """The band of the selected round, around all lanes."""
        left, right = max(x0, 0.0) + place.left, min(x1, place.width) + place.left
        if right <= left:
            return
        colour = QColor(self._theme.accent)
        bottom = place.lane_top(len(place.lanes) - 1) + place.lane_height + 3
        box = QRectF(round(left) - 0.5, place.top - 3.5, max(round(right - left), 2), bottom - place.top + 3)
        painter.setPen(QPen(colour, 1.5))
        colour.setAlphaF(0.12)
        painter.setBrush(colour)
        painter.drawRect(box)
        painter.setBrush(Qt.BrushStyle.NoBrush)

    def draw_crosshair(self, painter: QPainter, place: LaneGeometry, x: float, text: str) -> None:
        """The line at the pointer, with its time on the axis."""
        x = round(place.left + x) + 0.5
        painter.setPen(QPen(QColor(self._theme.text), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, place.top), QPointF(x, place.axis_top))
        self._tag(painter, x, place.axis_top + 3, text, place)

    def draw_measure(self, painter: QPainter, place: LaneGeometry, x0: float, x1: float, text: str) -> None:
        """The measured stretch, with its length in the middle."""
        left, right = sorted((place.left + x0, place.left + x1))
        colour = QColor(self._theme.text)
        painter.setPen(QPen(colour, 1))
        for x in (left, right):
            painter.drawLine(QPointF(round(x) + 0.5, place.top), QPointF(round(x) + 0.5, place.axis_top))
        colour.setAlphaF(0.10)
        painter.fillRect(QRectF(left, place.top, right - left, place.axis_top - place.top), colour)
        self._tag(
            painter, (left + right) / 2, (place.top + place.axis_top) / 2 - self._metrics.height() / 2, text, place
        )

    def _tag(self, painter: QPainter, x: float, y: float, text: str, place: LaneGeometry) -> None:
        painter.setFont(self._font)
        width = self._metrics.horizontalAdvance(text) + 12
        left = min(max(x - width / 2, place.left), place.left + place.width - width)
        box = QRectF(round(left), round(y), round(width), round(self._metrics.height()) + 4)
        painter.fillRect(box, QColor(self._theme.text))
        painter.setPen(QColor(self._theme.panel))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def _centred(self, painter: QPainter, x: float, top: float, text: str, colour: str) -> None:
        painter.setPen(QColor(colour))
        painter.drawText(QPointF(x - self._metrics.horizontalAdvance(text) / 2, top + self._metrics.ascent()), text)


def _image(row: NDArray[np.uint8]) -> QImage:
    # The first image borrows the memory of row, which ends with this call.
    return QImage(row.data, len(row), 1, 4 * len(row), QImage.Format.Format_ARGB32).copy()


def _rgb(colour: str) -> tuple[int, int, int]:
    parsed = QColor(colour)
    return parsed.red(), parsed.green(), parsed.blue()
