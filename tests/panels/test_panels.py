"""All panels: empty, live and finished states, themes, cost of a refresh, and the shared selection."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from draftscope.base import units
from draftscope.base.theme import DARK, LIGHT
from draftscope.engine.protocol import EngineDied, LogLine, Speculation
from draftscope.panels.acceptance import AcceptancePanel
from draftscope.panels.checkpoints import CheckpointsPanel
from draftscope.panels.engine import EnginePanel
from draftscope.panels.engine_facts import context_section, speculation_section
from draftscope.panels.log import LogPanel
from draftscope.panels.output import OutputPanel, grid_columns
from draftscope.panels.panel import Panel
from draftscope.panels.restore_diffs import RestoreDiffsPanel
from draftscope.panels.timeline import TimelinePanel
from draftscope.session.state import SessionState
from tests.panels.made_session import MadeSession, made_model, running_session

# The offscreen platform warns that it has no window manager to tell sizes to.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")

PANELS = (OutputPanel, AcceptancePanel, TimelinePanel, CheckpointsPanel, EnginePanel, LogPanel, RestoreDiffsPanel)
RUN_PANELS = PANELS[:3]
REFRESH_LIMIT_S = 0.060
"""Several times what it takes at rest: the machine of a test run is not."""

Make = Callable[[type[Panel], MadeSession], Panel]


@pytest.fixture
def make(qtbot: QtBot) -> Iterator[Make]:
    """Makes panels that are shown, and closes them."""
    made: list[Panel] = []

    def make_panel(cls: type[Panel], session: MadeSession) -> Panel:
        panel = cls(session, DARK)  # type: ignore[arg-type]
        made.append(panel)
        qtbot.addWidget(panel)
        panel.resize(640, 420)
        panel.show()
        panel.refresh()
        return panel

    yield make_panel
    for panel in made:
        panel.close()


def texts(widget: QWidget) -> str:
    """All that the labels of a widget say."""
    return "\n".join(label.text() for label in widget.findChildren(QLabel) if label.isVisible())


@pytest.mark.parametrize("cls", PANELS)
def test_without_a_model_a_panel_says_what_would_fill_it(cls: type[Panel], make: Make) -> None:
    panel = make(cls, MadeSession())
    assert panel.empty.isVisible()
    assert len(panel.empty.text) > 30
    assert panel.headline == ""


@pytest.mark.parametrize("cls", RUN_PANELS)
def test_with_a_model_but_no_run_a_panel_asks_for_one(cls: type[Panel], make: Make) -> None:
    session = MadeSession()
    session.take_model(made_model())
    panel = make(cls, session)
    if isinstance(panel, OutputPanel):
        assert sorted(panel.cards) == [0, 1, 2, 3]
        assert all("Run starts the prompts" in texts(card.empty) for card in panel.cards.values())
    else:
        assert "Press Run" in panel.empty.text


@pytest.mark.parametrize("cls", RUN_PANELS)
def test_a_run_fills_a_panel(cls: type[Panel], make: Make) -> None:
    session, _ = running_session()
    assert not make(cls, session).empty.isVisible()


@pytest.mark.parametrize("cls", RUN_PANELS)
def test_new_records_make_a_panel_stale_and_a_refresh_makes_it_fresh(cls: type[Panel], make: Make) -> None:
    session, maker = running_session()
    panel = make(cls, session)
    assert not panel.is_stale
    maker.rounds(1)
    session.receive(maker.records())
    panel._next_news_s = 0.0
    assert panel.is_stale
    panel.refresh()
    assert not panel.is_stale


@pytest.mark.parametrize("cls", RUN_PANELS)
def test_news_waits_its_turn_and_what_the_user_does_does_not(cls: type[Panel], make: Make) -> None:
    session, maker = running_session()
    panel = make(cls, session)
    maker.rounds(1)
    session.receive(maker.records())
    panel._next_news_s = time.monotonic() + 60
    assert not panel.is_stale
    panel.mark_stale()
    assert panel.is_stale


@pytest.mark.parametrize("cls", PANELS)
def test_a_refresh_of_a_long_run_fits_into_a_frame_and_is_metered(cls: type[Panel], make: Make) -> None:
    session, maker = running_session(n_rounds=1_000)
    panel = make(cls, session)
    spent = []
    for _ in range(5):
        maker.rounds(1)
        session.receive(maker.records())
        started = time.perf_counter()
        panel.refresh()
        spent.append(time.perf_counter() - started)
    assert sorted(spent)[2] < REFRESH_LIMIT_S
    assert panel.id in session.meter.draw_ms


@pytest.mark.parametrize("cls", PANELS)
def test_a_panel_takes_another_theme_while_it_runs(cls: type[Panel], make: Make) -> None:
    session, _ = running_session()
    panel = make(cls, session)
    before = panel.grab().toImage()
    panel.set_theme(LIGHT)
    panel.refresh()
    after = panel.grab().toImage()
    assert after.pixelColor(1, 1).lightness() > 200
    assert before.pixelColor(1, 1).lightness() < 60


@pytest.mark.parametrize("cls", PANELS)
def test_a_panel_has_a_name_for_screen_readers(cls: type[Panel], make: Make) -> None:
    assert make(cls, MadeSession()).accessibleName() == cls.title


@pytest.mark.parametrize("cls", RUN_PANELS)
def test_a_second_run_starts_from_nothing(cls: type[Panel], make: Make) -> None:
    session, _ = running_session()
    panel = make(cls, session)
    session.end_run()
    session.begin_run(2)
    panel.refresh()
    if isinstance(panel, OutputPanel):
        assert sorted(panel.cards) == [0, 1, 2, 3]
        assert all(len(card.view.flow) == 0 for card in panel.cards.values())
    else:
        assert panel.empty.isVisible()


def test_a_finished_run_stays_on_the_cards_with_the_reason_of_its_end(make: Make) -> None:
    session, maker = running_session()
    panel = make(OutputPanel, session)
    maker.finish()
    session.receive(maker.records())
    session.end_run()
    panel.refresh()
    assert isinstance(panel, OutputPanel)
    assert "done: token limit" in panel.cards[0].header.words
    assert "accepted" in panel.cards[0].header.words


def test_a_slot_that_was_refused_is_not_said_to_wait(make: Make) -> None:
    session = MadeSession()
    session.take_model(made_model(n_slots=1))
    session.begin_run(1)
    panel = make(OutputPanel, session)
    assert isinstance(panel, OutputPanel)
    assert "waiting" in panel.cards[0].header.words
    session.end_run()
    panel.refresh()
    assert "did not run" in panel.cards[0].header.words


def test_each_card_shows_the_figures_of_its_slot(make: Make) -> None:
    session, _ = running_session()
    panel = make(OutputPanel, session)
    assert isinstance(panel, OutputPanel)
    for slot, card in panel.cards.items():
        acceptance = session.acceptance.slot(slot)
        assert f"{units.figure(acceptance.rate * 100)} % accepted" in card.header.words
        assert f"{units.figure(acceptance.mean_accepted_length)} per round" in card.header.words


def test_a_click_on_a_token_selects_its_round_in_every_panel(make: Make) -> None:
    session, _ = running_session()
    output, timeline = make(OutputPanel, session), make(TimelinePanel, session)
    assert isinstance(output, OutputPanel)
    assert isinstance(timeline, TimelinePanel)
    output.cards[1].view.round_clicked.emit(7)
    assert session.view.selected_round == 7
    assert timeline.lanes.selected_round == 7


def test_a_turn_is_followed_by_whoever_sees_the_whole_run_and_by_nobody_else(make: Make) -> None:
    session, _ = running_session()
    panel = make(TimelinePanel, session)
    assert isinstance(panel, TimelinePanel)
    lanes, followed = panel.lanes, []
    session.end_run()
    for change in (lambda: panel.resize(800, 420), lanes.fit, lambda: QTest.keyClick(lanes, Qt.Key.Key_Plus)):
        lanes.set_following(False)
        change()
        session.turn_started.emit()
        followed.append(lanes.is_following)
        lanes.fit()
    assert followed == [True, True, False]


def test_the_prompt_stands_before_the_text(make: Make) -> None:
    session, _ = running_session()
    panel = make(OutputPanel, session)
    assert isinstance(panel, OutputPanel)
    transcript = panel.cards[0].view.transcript
    line = transcript.lines[0]
    assert "".join(part.text for part in line if part.token < 0) == "Read the file."
    assert next(part.token for part in line if part.token >= 0) == 0


@pytest.mark.parametrize(
    ("n_cards", "width", "columns"), [(1, 900, 1), (2, 900, 2), (4, 900, 2), (8, 1200, 4), (4, 300, 1)]
)
def test_the_grid_follows_the_number_of_cards_and_the_room(n_cards: int, width: int, columns: int) -> None:
    assert grid_columns(n_cards, width, 600) == columns


def test_the_headline_tells_acceptance_and_tokens_per_round(make: Make) -> None:
    session, _ = running_session()
    total = session.acceptance.total()
    expected = f"{units.percent(total.rate)} of drafts · {units.figure(total.mean_accepted_length)} tokens per round"
    assert make(AcceptancePanel, session).headline == expected


def test_a_model_that_does_not_speculate_says_why(make: Make) -> None:
    session = MadeSession()
    session.take_model(made_model(reason="The model has no MTP layers."))
    assert "The model has no MTP layers." in make(AcceptancePanel, session).empty.text


def test_the_acceptance_plot_ends_each_line_with_its_name_apart_from_the_others(make: Make) -> None:
    session, _ = running_session()
    panel = make(AcceptancePanel, session)
    assert isinstance(panel, AcceptancePanel)
    places = sorted(panel.over_rounds.labels.places())
    assert len(places) == 4
    assert all(b - a > 8 for a, b in itertools.pairwise(places))


def test_sixty_four_slots_find_room(make: Make) -> None:
    session, _ = running_session(n_slots=64, n_rounds=4)
    acceptance, timeline = make(AcceptancePanel, session), make(TimelinePanel, session)
    output = make(OutputPanel, session)
    assert isinstance(acceptance, AcceptancePanel)
    assert isinstance(timeline, TimelinePanel)
    assert isinstance(output, OutputPanel)
    assert acceptance.over_rounds.labels.shown[-1].text.startswith("+ ")
    place = timeline.lanes._geometry()
    assert place.lane_top(64) + place.lane_height <= place.axis_top
    assert len(output.cards) == 64
    assert all(card.height() >= 120 for card in output.cards.values())


def test_the_engine_panel_shows_what_was_granted_of_what_was_asked(make: Make) -> None:
    session = MadeSession()
    session.take_model(made_model(n_slots=2, n_slots_asked=6))
    assert "2 granted of 6 asked for" in texts(make(EnginePanel, session))


def test_a_context_beyond_the_trained_one_is_a_warning() -> None:
    def tone(n_ctx: int) -> str:
        section = context_section(replace(made_model(), n_ctx=n_ctx))
        return next(fact.tone for fact in section.facts if fact.name == "Context")

    assert (tone(4096), tone(4097)) == ("", "warn")


@pytest.mark.parametrize(
    ("speculation", "words"),
    [
        (Speculation(True, 1, 3, family="single_head"), "on: up to 3 tokens a round from 1 MTP layer"),
        (Speculation(True, 3, 1, family="chained_heads"), "on: up to 1 token a round from 3 chained MTP heads"),
        (Speculation(True, 4, 5, family="assistant"), "on: up to 5 tokens a round from an assistant of 4 layers"),
    ],
)
def test_the_engine_panel_says_who_drafts(speculation: Speculation, words: str) -> None:
    facts = speculation_section(replace(made_model(), speculation=speculation)).facts
    assert next(fact.value for fact in facts if fact.name == "Drafts").startswith(words)
    assert all(fact.name != "Draft length" for fact in facts)


def test_a_draft_that_is_shorter_than_asked_for_is_explained() -> None:
    speculation = Speculation(True, 3, 3, "This model chains 3 MTP heads.", "chained_heads")
    facts = speculation_section(replace(made_model(), speculation=speculation)).facts
    assert [(fact.value, fact.tone) for fact in facts if fact.name == "Draft length"] == [
        ("This model chains 3 MTP heads.", "warn")
    ]


def test_the_engine_panel_counts_decodes_per_round(make: Make) -> None:
    session, _ = running_session(n_rounds=30)
    shown = texts(make(EnginePanel, session))
    assert "30 (1.00 a round)" in shown
    assert "90 (3.00 a round)" in shown


def test_a_dead_engine_is_explained_and_its_records_stay(make: Make) -> None:
    session, _ = running_session()
    session.death = EngineDied(9, 0, "verify, round 29", ("out of memory",))
    session.state = SessionState.ENGINE_DIED
    session.state_changed.emit()
    shown = texts(make(EnginePanel, session))
    assert "SIGKILL" in shown
    assert "verify, round 29" in shown
    output = make(OutputPanel, session)
    assert isinstance(output, OutputPanel)
    assert "cut off" in output.cards[0].header.words


def test_the_log_filters_by_level_and_text(make: Make) -> None:
    session = MadeSession()
    for index, level in enumerate(("debug", "info", "warning", "error")):
        session.log.append(LogLine(level, f"line {index}", index))
    panel = make(LogPanel, session)
    assert isinstance(panel, LogPanel)
    assert panel.model.rowCount() == 3
    panel._level.setCurrentIndex(2)
    assert [panel.model.line(row).level for row in range(2)] == ["warning", "error"]
    panel._search.setText("LINE 3")
    assert panel.model.rowCount() == 1
    assert panel.headline == "1 of 4 lines"


def test_the_log_takes_each_line_once(make: Make) -> None:
    session = MadeSession()
    session.log.append(LogLine("info", "one", 0))
    panel = make(LogPanel, session)
    session.log.append(LogLine("info", "two", 1))
    session.log_appended.emit()
    panel._next_news_s = 0.0
    assert panel.is_stale
    panel.refresh()
    assert isinstance(panel, LogPanel)
    assert [panel.model.line(row).text for row in range(panel.model.rowCount())] == ["one", "two"]


def test_twenty_thousand_lines_are_logged_within_a_frame_each(make: Make) -> None:
    session = MadeSession()
    session.log.append(LogLine("info", "first", 0))
    panel = make(LogPanel, session)
    for index in range(25_000):
        session.log.append(LogLine("info", f"line {index}", index))
    panel.refresh()
    started = time.perf_counter()
    session.log.append(LogLine("info", "last", 25_000))
    panel.refresh()
    assert time.perf_counter() - started < REFRESH_LIMIT_S
    assert isinstance(panel, LogPanel)
    assert 20_000 <= panel.model.rowCount() <= 21_000
