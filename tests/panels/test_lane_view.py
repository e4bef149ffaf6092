"""The lanes of the timeline: following, zooming, panning, measuring, reading out, selecting."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from draftscope.base.theme import DARK
from draftscope.engine.events import Kind, empty_records
from draftscope.panels.lane_view import LaneView
from draftscope.panels.paint_clock import PaintClock
from draftscope.trace.store import TraceStore
from tests.panels.made_run import RunMaker

# The offscreen platform warns that it has no window manager to tell sizes to.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def store() -> TraceStore:
    """Sixty rounds of four slots."""
    made = TraceStore()
    maker = RunMaker()
    maker.prompt()
    maker.rounds(60)
    made.append(maker.records())
    return made


@pytest.fixture
def lanes(store: TraceStore, qtbot: QtBot) -> Iterator[LaneView]:
    """Lanes of 800 by 200 pixels."""
    view = LaneView(store, DARK, PaintClock())
    qtbot.addWidget(view)
    view.resize(800, 200)
    view.show()
    view.sync()
    yield view
    view.close()


def test_that_following_keeps_the_newest_in_view(lanes: LaneView, store: TraceStore) -> None:
    limits = store.time_range()
    assert limits is not None
    assert lanes.window_ns.t0_ns <= limits[1] <= lanes.window_ns.t1_ns


def test_that_panning_ends_following(lanes: LaneView, qtbot: QtBot) -> None:
    told: list[bool] = []
    lanes.follow_changed.connect(told.append)
    QTest.keyClick(lanes, Qt.Key.Key_Left)
    assert told == [False]
    before = lanes.window_ns
    lanes.sync()
    assert lanes.window_ns == before


def test_that_home_shows_the_whole_run(lanes: LaneView, store: TraceStore, qtbot: QtBot) -> None:
    QTest.keyClick(lanes, Qt.Key.Key_Home)
    limits = store.time_range()
    assert limits is not None
    assert lanes.window_ns.t0_ns < limits[0]
    assert lanes.window_ns.t1_ns > limits[1]


def test_that_plus_and_minus_zoom(lanes: LaneView, qtbot: QtBot) -> None:
    before = lanes.window_ns.span_ns
    QTest.keyClick(lanes, Qt.Key.Key_Plus)
    assert lanes.window_ns.span_ns < before
    QTest.keyClick(lanes, Qt.Key.Key_Minus)
    assert lanes.window_ns.span_ns == pytest.approx(before, rel=1e-6)


def test_that_a_click_selects_the_round_under_it(lanes: LaneView, store: TraceStore, qtbot: QtBot) -> None:
    spans = store.spans_in(2, 0, 2**62)
    span = spans[spans["round"] == 40][1]
    place = lanes._geometry()
    lanes.fit()
    x = place.left + lanes.window_ns.x_of(int(span["t_start_ns"] + span["duration_ns"] // 2))
    y = place.lane_top(place.lanes.index(2)) + 3
    with qtbot.waitSignal(lanes.round_clicked) as clicked:
        QTest.mouseClick(lanes, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, QPoint(round(x), y))
    assert clicked.args == [40]


def test_that_shift_and_drag_measures_without_panning(lanes: LaneView, qtbot: QtBot) -> None:
    before = lanes.window_ns
    shift = Qt.KeyboardModifier.ShiftModifier
    left = lanes._geometry().left
    QTest.mousePress(lanes, Qt.MouseButton.LeftButton, shift, QPoint(left + 100, 60))
    QTest.mouseMove(lanes, QPoint(left + 300, 60))
    QTest.mouseRelease(lanes, Qt.MouseButton.LeftButton, shift, QPoint(left + 300, 60))
    assert lanes.measure_ns is not None
    length = lanes.measure_ns[1] - lanes.measure_ns[0]
    assert length == pytest.approx(200 * before.span_ns / before.width, rel=0.02)
    assert lanes.window_ns == before
    QTest.keyClick(lanes, Qt.Key.Key_Escape)
    assert lanes.measure_ns is None


def test_that_the_span_under_the_pointer_is_read_out(lanes: LaneView, store: TraceStore) -> None:
    spans = store.spans_in(-1, 0, 2**62)
    span = spans[spans["round"] == 30][0]
    lanes.fit()
    place = lanes._geometry()
    told: list[str] = []
    lanes.read_out.connect(told.append)
    lanes._point_at(lanes.window_ns.x_of(int(span["t_start_ns"]) + 300_000), place.lane_top(0) + 3)
    assert told[0].startswith("engine · draft step 1 · round 30 · 4 tokens · 1 graph run")


def test_that_an_operation_is_marked_on_its_lane_and_read_out_before_the_spans(qtbot: QtBot) -> None:
    store, maker = TraceStore(), RunMaker()
    maker.rounds(4)
    records = maker.records()
    operation = empty_records(1)
    operation["kind"], operation["code"], operation["slot"], operation["round"] = Kind.OPERATION, 4, 2, -1
    operation["t_start_ns"] = int(records["t_start_ns"].max())
    store.append(np.concatenate([records, operation]))
    lanes = LaneView(store, DARK, PaintClock())
    qtbot.addWidget(lanes)
    lanes.resize(800, 200)
    lanes.show()
    lanes.fit()
    place, told = lanes._geometry(), []
    lanes.read_out.connect(told.append)
    x = lanes.window_ns.x_of(int(operation["t_start_ns"][0]))
    lanes._point_at(x, place.lane_top(3) + 3)
    assert told == ["slot 2 · slot cleared"]
    lanes._point_at(x, place.lane_top(2) + 3)
    assert "cleared" not in told[1]
    picture = lanes.grab().toImage()
    at = round(place.left + x)
    assert picture.pixelColor(at + 1, place.lane_top(3) + 1).name() == DARK.text
    assert picture.pixelColor(at + 1, place.lane_top(2) + 1).name() != DARK.text
    lanes.close()


def test_that_lanes_are_painted_in_the_colours_of_their_phases(lanes: LaneView, store: TraceStore) -> None:
    span = store.spans_in(-1, 0, 2**62)[0]
    lanes.fit()
    place = lanes._geometry()
    x = place.left + lanes.window_ns.x_of(int(span["t_start_ns"] + span["duration_ns"] // 2))
    picture = lanes.grab().toImage()
    assert picture.pixelColor(round(x), place.lane_top(0) + 5).name() == DARK.phase("prompt")


def test_that_fifty_thousand_spans_pan_within_a_frame(qtbot: QtBot) -> None:
    store, maker = TraceStore(), RunMaker()
    maker.rounds(2_300)
    store.append(maker.records())
    view = LaneView(store, DARK, PaintClock())
    qtbot.addWidget(view)
    view.resize(1200, 240)
    view.show()
    view.fit()
    view.grab()
    spent = []
    for step in (5, -5, 5, -5, 5):
        view._pan(step)
        started = time.perf_counter()
        view.grab()
        spent.append(time.perf_counter() - started)
    view.close()
    assert sorted(spent)[2] < 0.120
