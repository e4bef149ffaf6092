"""The Checkpoints panel: its figures are those of the records, each page fills or says why not, a click selects."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from draftscope.base import units
from draftscope.base.theme import DARK, LIGHT, MIN_TEXT_CONTRAST, THEMES, contrast_ratio
from draftscope.engine.events import FallbackReason, Kind, Mechanism, Records
from draftscope.engine.fake_report import report_of
from draftscope.engine.protocol import (
    CheckpointMode,
    CommandId,
    ContextSettings,
    DecodeCounts,
    Finished,
    MemoryUse,
    ModelReport,
    ModelSettings,
    RunReport,
)
from draftscope.panels.checkpoint_words import badges, timing_words
from draftscope.panels.checkpoints import CALIBRATION, FALLBACKS, MEMORY, SPREAD, TIMES, CheckpointsPanel
from draftscope.panels.decades import Span, span_around, ticks
from draftscope.panels.memory_rows import growth
from draftscope.session.state import SessionState
from draftscope.trace.checkpoints import CheckpointTable
from draftscope.trace.tracefile import read_trace
from tests.panels.made_session import MadeSession
from tests.trace.synthetic import make_many, make_records, record

# The offscreen platform warns that it has no window manager to tell sizes to.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")

MOST_POINTS = 6_000
"""Points drawn at most on a panel of this size, however many events there are."""

Make = Callable[[MadeSession], CheckpointsPanel]


@pytest.fixture
def make(qtbot: QtBot) -> Iterator[Make]:
    """Makes panels that are shown, and closes them."""
    made: list[CheckpointsPanel] = []

    def make_panel(session: MadeSession) -> CheckpointsPanel:
        panel = CheckpointsPanel(session, DARK)  # type: ignore[arg-type]
        made.append(panel)
        qtbot.addWidget(panel)
        panel.resize(560, 380)
        panel.show()
        panel.refresh()
        return panel

    yield make_panel
    for panel in made:
        panel.close()


def model(path: str = "fake:hybrid", checkpoint: CheckpointMode = CheckpointMode.AUTO, n_slots: int = 4) -> ModelReport:
    """The report of a scripted model."""
    return report_of(ModelSettings(path), ContextSettings(n_slots=n_slots, checkpoint=checkpoint), 1.0)


def session_with(records: Records | None, loaded: ModelReport | None = None) -> MadeSession:
    """A session in a run that has left these records; None: nothing has run."""
    session = MadeSession()
    session.take_model(loaded or model(checkpoint=CheckpointMode.HOST))
    if records is not None:
        session.begin_run(4)
        session.receive(records)
    return session


def turn_to(panel: CheckpointsPanel, page: int) -> None:
    """Bring a page to the front and up to date."""
    panel.tabs.setCurrentIndex(page)
    panel.refresh()


def shown_text(panel: CheckpointsPanel) -> str:
    """What the labels in view say."""
    return "\n".join(label.text() for label in panel.findChildren(QLabel) if label.isVisible())


# ---- figures


def test_title_and_figures_are_the_medians_of_the_records(make: Make) -> None:
    records = make_records(60)
    panel = make(session_with(records))
    saves, restores = (records[records["kind"] == kind]["duration_ns"] for kind in (Kind.SAVE, Kind.RESTORE))
    expected = f"host · save {units.duration(np.median(saves))} · restore {units.duration(np.median(restores))}"
    assert panel.headline.startswith(expected)
    for kind, word in ((Kind.SAVE, "save"), (Kind.RESTORE, "restore")):
        assert f"{word} {timing_words(panel.table.timing(kind))}" in panel.times.words


def test_its_medians_are_those_of_run_json_for_the_same_run(make: Make, tmp_path: Path) -> None:
    trace = tmp_path / "run.dscope"
    command = [sys.executable, "-m", "draftscope.cli.main", "run", "demo", "--checkpoint", "host", "--slots", "2"]
    command += ["--max-tokens", "40", "--temp", "0", "--trace", str(trace), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    checkpoints = json.loads(done.stdout)["checkpoints"]
    panel = make(session_with(read_trace(trace).store.in_order()))
    for kind, name in ((Kind.SAVE, "save_us"), (Kind.RESTORE, "restore_us")):
        timing = panel.table.timing(kind)
        assert timing is not None
        assert timing._asdict() == {
            "n": checkpoints[name]["n"],
            "median_us": checkpoints[name]["median"],
            "p99_us": checkpoints[name]["p99"],
        }
        assert units.duration(timing.median_us * 1e3) in panel.headline
    turn_to(panel, SPREAD)
    single = [strip for strip in panel.strips.strips if strip.slot is not None]
    told = [(strip.kind.name.lower(), strip.slot, strip.timing.median_us) for strip in single]
    assert told == [(row["kind"], row["slot"], row["median"]) for row in checkpoints["timings"]]


def test_every_event_of_a_short_run_is_drawn_where_it_belongs(make: Make) -> None:
    events = [
        record(Kind.SAVE, slot=slot, code=Mechanism.COW, round=10 * slot, duration_ns=4_000 * 3**slot, size_bytes=64)
        for slot in range(4)
    ]
    panel = make(session_with(np.concatenate(events)))
    drawn = panel.times.plot.drawn_events()
    assert [(event.round, event.slot, event.duration_us) for event in drawn] == [
        (10 * slot, slot, 4.0 * 3**slot) for slot in range(4)
    ]
    assert "slot 2 · round 20 · copy on write · 36.0 µs · 64" in drawn[2].words


def test_the_points_of_one_slot_can_be_seen_alone(make: Make) -> None:
    panel = make(session_with(make_records(30)))
    panel.times.show_slot(2)
    assert panel.is_stale
    panel.refresh()
    assert {event.slot for event in panel.times.plot.drawn_events()} == {2}
    assert timing_words(panel.table.timing(Kind.SAVE, None, 2)) in panel.times.words


def test_strips_have_median_p99_and_all_events_of_each_slot(make: Make) -> None:
    records = make_records(60)
    panel = make(session_with(records))
    turn_to(panel, SPREAD)
    strips = panel.strips.strips
    assert [(strip.kind, strip.slot) for strip in strips[:5]] == [(Kind.SAVE, slot) for slot in (None, 0, 1, 2, 3)]
    for strip in strips:
        durations = panel.table.durations_us(strip.kind, strip.mechanism, strip.slot)
        assert strip.timing.n == len(durations) == sum(strip.counts)
        assert strip.timing.median_us == pytest.approx(np.median(durations))
    assert "checkpoints in host memory, save · all slots: median" in panel.strips.accessibleDescription()


def test_a_hundred_thousand_events_are_drawn_as_what_can_be_told_apart(make: Make) -> None:
    records = make_many(800_000)
    panel = make(session_with(records))
    n_events = sum(len(panel.table.series(kind)) for kind in (Kind.SAVE, Kind.RESTORE))
    assert n_events > 100_000
    assert 500 < panel.times.plot.n_drawn < MOST_POINTS
    spent = []
    for _ in range(5):
        panel.mark_stale()
        started = time.perf_counter()
        panel.refresh()
        spent.append(time.perf_counter() - started)
    assert sorted(spent)[2] < 0.2


def test_zooming_in_brings_back_what_was_left_out(make: Make, qtbot: QtBot) -> None:
    panel = make(session_with(make_many(100_000)))
    in_view = [event for event in panel.times.plot.drawn_events() if 100 <= event.round <= 120]
    panel.times.plot.view.setXRange(99.5, 120.5, padding=0)
    panel.refresh()
    zoomed = panel.times.plot.drawn_events()
    assert {event.round for event in zoomed} <= set(range(99, 122))
    assert len(zoomed) > 2 * len(in_view)


# ---- selection


def test_a_click_on_an_event_selects_its_round_everywhere(make: Make, qtbot: QtBot) -> None:
    session = session_with(make_records(40))
    panel = make(session)
    plot = panel.times.plot
    wanted = next(event for event in plot.drawn_events() if event.round == 17)
    place = plot.view.mapViewToScene(QPointF(wanted.round, np.log10(wanted.duration_us)))
    with qtbot.waitSignal(session.view.selected_round_changed):
        qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=plot.mapFromScene(place))
    assert session.view.selected_round == 17
    panel.refresh()
    ringed = plot._picked.getData()[0]
    assert set(ringed.tolist()) == {17.0}


def test_a_round_that_is_selected_elsewhere_is_marked_here(make: Make) -> None:
    session = session_with(make_records(40))
    panel = make(session)
    session.view.select_round(9)
    assert panel.is_stale
    panel.refresh()
    assert panel.times.plot._marker.isVisible()
    assert panel.times.plot._marker.value() == 9
    session.view.select_round(None)
    panel.refresh()
    assert not panel.times.plot._marker.isVisible()


def test_the_ring_is_around_events_too_that_were_left_out(make: Make) -> None:
    records = make_many(100_000)
    session = session_with(records)
    panel = make(session)
    session.view.select_round(300)
    panel.refresh()
    here = records[np.isin(records["kind"], (Kind.SAVE, Kind.RESTORE)) & (records["round"] == 300)]
    assert len(panel.times.plot._picked.getData()[0]) == len(here) > 4
    panel.times.show_slot(1)
    panel.refresh()
    assert len(panel.times.plot._picked.getData()[0]) == np.count_nonzero(here["slot"] == 1)


def test_arrow_keys_go_from_round_to_round(make: Make, qtbot: QtBot) -> None:
    session = session_with(make_records(40))
    panel = make(session)
    session.view.select_round(9)
    qtbot.keyClick(panel.times.plot, Qt.Key.Key_Right)
    assert session.view.selected_round == 10


# ---- states


def test_without_a_model_it_says_what_would_fill_it(make: Make) -> None:
    panel = make(MadeSession())
    assert panel.empty.isVisible()
    assert "going back after a rejected draft" in panel.empty.text


def test_before_a_run_the_times_ask_for_one_and_the_rest_is_there(make: Make) -> None:
    panel = make(session_with(None, model()))
    assert "Press Run or write to a slot to see how long states take" in shown_text(panel)
    assert panel.headline == "cow"
    turn_to(panel, CALIBRATION)
    assert "Taken: copy on write." in panel.choice.words
    turn_to(panel, MEMORY)
    assert "saved states" in panel.memory.table.words
    turn_to(panel, FALLBACKS)
    assert "Press Run" in shown_text(panel)


def test_plain_kv_removal_needs_no_checkpoints_and_says_so(make: Make) -> None:
    records = make_records(40, mechanism=Mechanism.KV_REMOVAL)
    panel = make(session_with(records, model("fake:plain")))
    text = shown_text(panel)
    assert "No checkpoints are needed" in text
    drops = records[records["kind"] == Kind.RESTORE]["duration_ns"]
    assert f"{units.duration(np.median(drops))} in the median of {len(drops)}" in text
    assert panel.headline == "none needed: plain KV removal"


def test_without_drafts_the_reason_is_told(make: Make) -> None:
    panel = make(session_with(None, model("fake:dense")))
    for page in (TIMES, SPREAD, CALIBRATION, FALLBACKS):
        turn_to(panel, page)
        assert "has no MTP layers" in shown_text(panel)
    assert panel.headline == "speculation is off"


def test_native_rollback_shows_its_restores_and_why_there_are_no_saves(make: Make) -> None:
    panel = make(session_with(make_records(40, mechanism=Mechanism.ROLLBACK), model("fake:model")))
    assert "No saves: with native rollback" in panel.times.words
    assert {event.kind for event in panel.times.plot.drawn_events()} == {Kind.RESTORE}
    assert panel.headline.startswith("rollback · restore ")
    turn_to(panel, SPREAD)
    assert {strip.kind for strip in panel.strips.strips} == {Kind.RESTORE}


def test_a_new_run_takes_the_place_of_the_old_one(make: Make) -> None:
    session = session_with(make_records(40))
    panel = make(session)
    session.begin_run(4)
    panel.refresh()
    assert "The run has begun" in shown_text(panel)
    session.receive(record(Kind.SAVE, slot=0, code=Mechanism.HOST, round=0, duration_ns=5_000))
    panel._next_news_s = 0.0
    assert panel.is_stale
    panel.refresh()
    assert panel.times.plot.n_drawn == 1
    assert "save 5.00 µs" in panel.headline


# ---- ways back, calibration, memory, fallbacks


def test_a_badge_for_each_context_says_what_was_asked_granted_and_why(make: Make) -> None:
    panel = make(session_with(None, model()))
    assert panel.badges.words == "target copy on write automatic; draft drops its tail"
    refused = badges(model(checkpoint=CheckpointMode.ROLLBACK))[0]
    assert (refused.way, refused.how, refused.is_warning) == ("host checkpoints", "instead of native rollback", True)
    assert "0 granted of 3 asked for" in refused.means
    granted = badges(model("fake:model"))[0]
    assert granted.way == "native rollback, 3 of 3 steps"
    assert not granted.is_warning


def test_the_calibration_marks_what_was_taken_and_says_why_others_could_not_be(make: Make) -> None:
    loaded = model()
    panel = make(session_with(None, loaded))
    turn_to(panel, CALIBRATION)
    lines = panel.choice.words.split("\n")
    timed = {way.mechanism: way for way in loaded.way_back.calibration}
    assert [line.split(" | ")[0] for line in lines[1:5]] == ["rollback", "cow", "device", "host"]
    assert panel.choice.table.marked == ("cow",)
    assert timed["rollback"].why in lines[1]
    assert units.figure(timed["cow"].save_us) in lines[2]
    assert f"{timed['host'].round_us:,.0f}" in lines[4]
    assert "The calibration took 212 ms." in lines[5]


def test_without_a_calibration_the_page_says_why(make: Make) -> None:
    asked = make(session_with(None, model(checkpoint=CheckpointMode.HOST)))
    turn_to(asked, CALIBRATION)
    assert "You asked for checkpoints in host memory" in shown_text(asked)
    plain = make(session_with(None, model("fake:plain")))
    turn_to(plain, CALIBRATION)
    assert "There was nothing to choose" in shown_text(plain)


def test_memory_is_told_by_kind_for_a_slot_and_for_all(make: Make) -> None:
    loaded = model(checkpoint=CheckpointMode.HOST)
    panel = make(session_with(None, loaded))
    turn_to(panel, MEMORY)
    rows = dict(line.split(" | ", 1) for line in panel.memory.table.words.split("\n")[1:])
    for use, name in zip(
        loaded.memory[:5], ("weights", "keys and values", "recurrent states", "saved states"), strict=False
    ):
        total = units.bytes_text(use.host_bytes)
        assert total in rows[name]
        if use.kind != "weights":
            assert rows[name].startswith(units.bytes_text(use.host_bytes / 4))


def test_memory_at_the_end_of_a_run_takes_the_place_of_that_at_its_beginning(make: Make) -> None:
    session = session_with(make_records(10))
    panel = make(session)
    report = RunReport(DecodeCounts(), 0, 0, 0, 1.0, memory=(MemoryUse("checkpoints", 3 * 2**20, 5 * 2**20),))
    session._record.finish(Finished(CommandId(0), (), report))
    turn_to(panel, MEMORY)
    assert "saved states | 2.00 MiB | 8.00 MiB | 3.00 MiB | 5.00 MiB" in panel.memory.table.words


def test_memory_grows_with_the_slots_as_predicted_and_is_measured_where_it_is() -> None:
    memory = (MemoryUse("weights", 999, 0), MemoryUse("kv", 90, 10, 120), MemoryUse("draft", 40, 0))
    bars = growth(memory, 4)
    assert [(bar.n_slots, bar.is_measured) for bar in bars] == [(1, False), (2, False), (4, True), (8, False)]
    assert [dict(bar.parts) for bar in bars] == [
        {"kv": 30, "draft": 10},
        {"kv": 60, "draft": 20},
        {"kv": 100, "draft": 40},
        {"kv": 240, "draft": 80},
    ]
    assert [bar.n_slots for bar in growth(memory, 6)] == [1, 2, 4, 6, 8]
    assert growth((), 4) == []


def test_fallbacks_are_listed_with_their_reasons_and_a_click_selects_the_round(make: Make, qtbot: QtBot) -> None:
    columns = {"code": FallbackReason.NO_MEMORY, "n": Mechanism.DEVICE, "m": Mechanism.HOST}
    records = [record(Kind.FALLBACK, slot=2, round=round_id, **columns) for round_id in (14, 30)]
    session = session_with(np.concatenate(records))
    panel = make(session)
    assert panel.tabs.tabText(FALLBACKS) == "Fallbacks (2)"
    assert panel.headline == "host · 2 fallbacks"
    turn_to(panel, FALLBACKS)
    why = "there was no room on the device for a checkpoint, so host memory is used."
    assert panel.fallbacks.sentences() == [f"Slot 2, round 30: {why}", f"Slot 2, round 14: {why}"]
    assert f"2 × T{why[1:]}" in shown_text(panel)
    listed = panel.fallbacks.list
    qtbot.mouseClick(listed.viewport(), Qt.MouseButton.LeftButton, pos=listed.visualItemRect(listed.item(1)).center())
    assert session.view.selected_round == 14


def test_thousands_of_fallbacks_are_counted_and_the_newest_listed(make: Make) -> None:
    made = record(Kind.FALLBACK, code=FallbackReason.RESTORE_FAILED, n=Mechanism.HOST)
    records = np.repeat(made, 2_000)
    records["round"] = np.arange(2_000)
    panel = make(session_with(records))
    turn_to(panel, FALLBACKS)
    assert len(panel.fallbacks.sentences()) == 300
    assert panel.fallbacks.sentences()[0].startswith("Slot 0, round 1999:")
    text = shown_text(panel)
    assert "2,000 × The saved state could not be put back" in text
    assert "1,700 older ones are not listed" in text


# ---- looks


@pytest.mark.parametrize("page", range(5))
def test_every_page_takes_another_theme(make: Make, page: int) -> None:
    records = np.concatenate([make_records(40), record(Kind.FALLBACK, code=4, n=4, m=5, slot=1, round=3)])
    panel = make(session_with(records, dataclasses.replace(model(), n_slots=4)))
    turn_to(panel, page)
    before = panel.grab().toImage()
    panel.set_theme(LIGHT)
    panel.refresh()
    after = panel.grab().toImage()
    for x, y in ((1, 1), (4, panel.height() - 6), (panel.width() // 2, panel.height() - 6)):
        assert before.pixelColor(x, y).lightness() < 70
        assert after.pixelColor(x, y).lightness() > 180


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_phases_can_be_read_as_text(theme: type[DARK]) -> None:  # type: ignore[valid-type]
    for phase in ("save", "restore"):
        assert contrast_ratio(theme.phase_text(phase), theme.panel) >= MIN_TEXT_CONTRAST  # type: ignore[attr-defined]


def test_pages_have_names_for_screen_readers_and_turn_with_the_keyboard(make: Make, qtbot: QtBot) -> None:
    panel = make(session_with(make_records(10)))
    assert panel.accessibleName() == "Checkpoints"
    assert panel.tabs.accessibleName()
    for widget in (panel.times.plot, panel.strips, panel.memory, panel.choice, panel.fallbacks.list):
        assert widget.accessibleName(), widget
    qtbot.keyClick(panel.tabs, Qt.Key.Key_Right)
    assert panel.tabs.currentIndex() == SPREAD


def test_only_the_page_in_front_is_worked_on(make: Make) -> None:
    panel = make(session_with(make_records(10)))
    assert panel.strips.strips == ()
    assert panel.session.state is SessionState.RUNNING


@pytest.mark.parametrize(
    ("low_us", "high_us", "texts"),
    [
        (4.0, 6.0, ["2 µs", "5 µs", "10 µs"]),
        (1.0, 20_000.0, ["1 µs", "10 µs", "100 µs", "1,000 µs", "10,000 µs"]),
        (2_000.0, 90_000.0, ["2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms"]),
        (0.04, 0.3, ["0.05 µs", "0.1 µs", "0.2 µs"]),
    ],
)
def test_the_scale_of_times_is_written_in_one_unit(low_us: float, high_us: float, texts: list[str]) -> None:
    assert [tick.text for tick in ticks(span_around(low_us, high_us))] == texts


def test_a_band_of_equal_times_still_has_a_scale() -> None:
    span = span_around(7.0, 7.0)
    assert isinstance(span, Span)
    assert span.high - span.low >= 1.0
    assert CheckpointTable().timing(Kind.SAVE) is None
