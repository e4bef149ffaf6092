"""Large runs: what is gone through for a picture depends on its pixels, not on the records. Counted, not timed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from draftscope.base.theme import THEMES
from draftscope.engine.events import ENGINE_TRACK, Kind
from draftscope.panels.acceptance import AcceptancePanel
from draftscope.panels.checkpoints import CheckpointsPanel
from draftscope.panels.lane_view import CROWD
from draftscope.panels.output import TOKENS_A_FRAME, OutputPanel
from draftscope.panels.panel import Panel
from draftscope.panels.span_raster import phase_row, phase_row_of_many
from draftscope.panels.timeline import TimelinePanel
from draftscope.trace import checkpoints
from draftscope.trace.span_times import LaneTimes
from draftscope.trace.store import TraceStore
from tests.panels.made_session import MadeSession, made_model
from tests.trace.synthetic import PIECES, make_many, make_records

N_RECORDS = 100_000


@pytest.fixture
def session() -> MadeSession:
    """A run of a hundred thousand records that has ended."""
    session = MadeSession()
    session.take_model(made_model())
    session.begin_run(4)
    session.receive(make_many(N_RECORDS))
    session.end_run()
    return session


def shown(qtbot: QtBot, panel: Panel) -> None:
    qtbot.addWidget(panel)
    panel.resize(900, 400)
    panel.show()
    panel.refresh()
    qtbot.waitExposed(panel)


def test_the_timeline_of_a_whole_run_goes_through_few_spans(
    qtbot: QtBot, session: MadeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = TimelinePanel(session, THEMES[0])  # type: ignore[arg-type]
    found: list[int] = []
    spans_in = TraceStore.spans_in

    def counted(store: TraceStore, *window: int) -> np.ndarray:  # type: ignore[type-arg]
        spans = spans_in(store, *window)  # type: ignore[arg-type]
        found.append(len(spans))
        return spans

    monkeypatch.setattr(TraceStore, "spans_in", counted)
    shown(qtbot, panel)
    lanes = panel.lanes
    lanes.fit()
    for _ in range(30):
        lanes._zoom(1.3, 300.0)
        lanes._pan(40)
        lanes.grab()
    assert found, "close enough, single spans are drawn"
    assert max(found) <= CROWD * lanes.window_ns.width
    assert len(session.trace.kind(Kind.SPAN)) > 5 * 5 * CROWD * lanes.window_ns.width


def test_pixels_from_sums_are_those_from_all_spans() -> None:
    store = TraceStore()
    store.append(make_records(400))
    t0, t1 = store.time_range() or (0, 1)
    n_pixels = 500
    t1 = t0 + -(-(t1 - t0) // n_pixels) * n_pixels  # so that pixels begin at whole nanoseconds
    for slot in (ENGINE_TRACK, 0, 2):
        spans = store.spans_in(slot, t0, t1)
        times = LaneTimes()
        times.append(spans)
        phases, cover = phase_row(spans, t0, t1, n_pixels)
        of_many, cover_of_many = phase_row_of_many(times, t0, t1, n_pixels)
        np.testing.assert_allclose(cover_of_many, cover, atol=1e-6)
        # Where two phases share a pixel to a millionth, either may have it.
        assert np.count_nonzero(of_many != phases) == 0


def test_panning_the_checkpoints_panel_computes_no_figure_again(
    qtbot: QtBot, session: MadeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = CheckpointsPanel(session, THEMES[0])  # type: ignore[arg-type]
    shown(qtbot, panel)
    assert panel.times.plot.n_drawn < len(session.trace.kind(Kind.SAVE)) / 2
    computed: list[int] = []
    timing_of = checkpoints.timing_of
    monkeypatch.setattr(checkpoints, "timing_of", lambda us: (computed.append(len(us)), timing_of(us))[1])
    plot = panel.times.plot
    for _ in range(5):
        plot.view.scaleBy(x=0.7)
        panel.refresh()
    assert computed == []
    most = (plot.view.width() / 5 + 1) * (plot.view.height() / 5 + 1)
    assert 0 < plot.n_drawn <= 2 * most


def test_a_figure_is_computed_again_when_events_have_come(session: MadeSession) -> None:
    table = checkpoints.CheckpointTable()
    table.update(session.trace)
    before = table.timing(Kind.SAVE)
    assert before is not None
    session.trace.append(make_records(50))
    table.update(session.trace)
    after = table.timing(Kind.SAVE)
    assert after is not None
    assert after.n == before.n + 200


def test_lines_over_rounds_have_as_many_points_as_pixels_can_show(qtbot: QtBot, session: MadeSession) -> None:
    panel = AcceptancePanel(session, THEMES[0])  # type: ignore[arg-type]
    shown(qtbot, panel)
    image: QImage = panel.grab().toImage()
    assert not image.isNull()
    for line in lines_of(panel):
        x, _ = line.getData()
        assert len(x) <= 4 * panel.over_rounds.width() < len(line.xData) * 4


def lines_of(panel: AcceptancePanel) -> Iterator[object]:
    yield from panel.over_rounds._lines.values()


def test_the_output_of_a_large_run_comes_over_many_frames(qtbot: QtBot, session: MadeSession) -> None:
    session.pieces.add(PIECES)
    panel = OutputPanel(session, THEMES[0])  # type: ignore[arg-type]
    shown(qtbot, panel)
    flows = [card.view.flow for card in panel.cards.values()]
    n_all = len(session.trace.kind(Kind.TOKEN))
    n_shown, n_frames = sum(len(flow) for flow in flows), 1
    assert 0 < n_shown <= TOKENS_A_FRAME < n_all / 10
    while panel.is_stale:
        panel.refresh()
        n_before, n_shown, n_frames = n_shown, sum(len(flow) for flow in flows), n_frames + 1
        assert n_shown - n_before <= TOKENS_A_FRAME
    assert n_shown == n_all
    assert n_frames == -(-n_all // TOKENS_A_FRAME)
