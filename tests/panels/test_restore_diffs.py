"""The Restore diffs panel: faults are named where they are; filters, selection, copies, live, and many restores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from draftscope.base.paths import demo_model
from draftscope.base.theme import DARK, LIGHT, THEMES
from draftscope.engine.events import Kind
from draftscope.engine.probes import ArrayKind, Fault, ProbeLevel, RestoreKind
from draftscope.panels.heat_colours import palette, scale_for
from draftscope.panels.restore_details import DRAFT, LAYERS, MAP, ROWS, TABS, VERDICT
from draftscope.panels.restore_diffs import RestoreDiffsPanel
from draftscope.panels.restore_model import VERDICT as VERDICT_COLUMN
from draftscope.session.state import SessionState
from draftscope.trace.restore_verdict import Verdict
from draftscope.trace.tracefile import TraceWriter, read_trace
from tests.panels.made_session import MadeSession, made_model
from tests.panels.probed_session import ProbedRun, probed_session
from tests.trace.probed import moment, probe, restore, result

# The offscreen platform warns that it has no window manager to tell sizes to.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")

Make = Callable[[MadeSession], RestoreDiffsPanel]


@pytest.fixture
def make(qtbot: QtBot) -> Iterator[Make]:
    """Makes panels that are shown, and closes them."""
    made: list[RestoreDiffsPanel] = []

    def make_panel(session: MadeSession) -> RestoreDiffsPanel:
        panel = RestoreDiffsPanel(session, DARK)  # type: ignore[arg-type]
        made.append(panel)
        qtbot.addWidget(panel)
        panel.resize(560, 520)
        panel.show()
        panel.refresh()
        return panel

    yield make_panel
    for panel in made:
        panel.close()


def turn_to(panel: RestoreDiffsPanel, page: int) -> None:
    """Bring a page to the front and up to date."""
    panel.details.tabs.setCurrentIndex(page)
    panel.refresh()


def listed(panel: RestoreDiffsPanel) -> list[str]:
    """The verdicts in the list, whole as their tooltips have them."""
    model, role = panel.list.model, Qt.ItemDataRole.ToolTipRole
    return [model.index(row, VERDICT_COLUMN).data(role) for row in range(model.rowCount())]


def shown_text(panel: RestoreDiffsPanel) -> str:
    """What the labels in view say."""
    return "\n".join(label.text() for label in panel.findChildren(QLabel) if label.isVisible())


# ---- nothing to show


def test_it_says_what_makes_a_restore_where_there_is_none(make: Make) -> None:
    session = MadeSession()
    session.take_model(made_model())
    session.begin_run(4)
    session.receive(moment(1_000))
    panel = make(session)
    assert panel.page.empty.text == "No restores yet\nA rejected draft or an edited prompt makes one."
    assert panel.bar.level.isEnabled()
    assert not panel.bar.copy.isEnabled()
    assert "No restores yet" in panel.bar.copy.toolTip()


def test_a_model_that_drafts_nothing_says_why_nothing_is_restored(make: Make) -> None:
    session = MadeSession()
    session.take_model(made_model(reason="This model file has no MTP layers."))
    assert make(session).page.empty.text.startswith("Nothing is drafted\nThis model file has no MTP layers.")


@pytest.mark.parametrize(
    ("level", "path", "page", "title"),
    [
        (ProbeLevel.OFF, "fake:hybrid", VERDICT, "Probing is off"),
        (ProbeLevel.OFF, "fake:hybrid", ROWS, "Probing is off"),
        (ProbeLevel.OFF, "fake:hybrid", MAP, "Probing is off"),
        (ProbeLevel.HIDDEN, "fake:hybrid", DRAFT, "This level does not measure draft logits"),
        (ProbeLevel.LOGITS, "fake:hybrid", LAYERS, "This level does not measure recurrent state"),
        (ProbeLevel.STATE, "fake:plain", LAYERS, "This model has no recurrent layers"),
        (ProbeLevel.HIDDEN, "fake:plain", LAYERS, "This model has no recurrent layers"),
        (ProbeLevel.STATE, "fake:unknown-layout", LAYERS, "This state cannot be read"),
    ],
)
def test_a_page_that_has_nothing_says_what_would_fill_it(
    make: Make, level: ProbeLevel, path: str, page: int, title: str
) -> None:
    panel = make(probed_session(level, path=path))
    turn_to(panel, page)
    assert panel.details.page.empty.isVisible()
    assert panel.details.page.empty.text.startswith(f"{title}\n")


@pytest.mark.parametrize(
    ("n_not_kept", "title"), [(0, "These values are not in the file"), (3, "These values are not kept")]
)
def test_arrays_that_are_not_there_are_missed_and_the_figures_stay(make: Make, n_not_kept: int, title: str) -> None:
    run = ProbedRun(ProbeLevel.STATE)
    session = run.begin()
    session.receive(run.records)
    session.trace._probes.n_not_kept = n_not_kept
    session.receive_arrays([array for array in run.arrays if array.kind is ArrayKind.RESULT])
    panel = make(session)
    for page in (ROWS, MAP, DRAFT, LAYERS):
        turn_to(panel, page)
        assert panel.details.page.empty.text.startswith(f"{title}\n")
    turn_to(panel, VERDICT)
    assert "Equal bit for bit" in panel.details.facts.words


# ---- faults


def test_without_a_fault_everything_is_equal(make: Make) -> None:
    panel = make(probed_session(ProbeLevel.STATE))
    n = len(panel.table)
    assert n > 20
    assert listed(panel) == ["equal"] * n
    assert panel.headline == f"{n} equal"
    assert panel.banner.text == ""
    assert panel.summary.text().startswith(f"{n} restores · {n} equal · ")
    turn_to(panel, ROWS)
    assert panel.details.rows.strip.words.endswith(", as expected.")
    turn_to(panel, MAP)
    assert not any(row.differences.any() for row in panel.details.map.map.rows)
    turn_to(panel, LAYERS)
    assert panel.details.layers.words == "18 recurrent layers, conv and delta-net part of each equal"
    turn_to(panel, DRAFT)
    assert panel.details.draft.effect.text() == "No draft logit changes."


NAMED = {
    Fault.OMIT_HOOK: "row differs: it is the row of position ",
    Fault.ZERO_ROW: "row is zero",
    Fault.STALE_ROW: "row differs: it is the row of position ",
    Fault.SKIP_LAYER: "recurrent layer 5, ",
    Fault.COMPANION_BEHIND: "3 of the MTP context's positions come from ",
}


@pytest.mark.parametrize("fault", NAMED)
def test_a_fault_is_named_by_every_restore_and_by_the_part_that_shows_it(make: Make, fault: Fault) -> None:
    panel = make(probed_session(ProbeLevel.STATE, fault))
    n = len(panel.table)
    assert all(words.startswith(NAMED[fault]) for words in listed(panel))
    assert panel.headline == f"{n} of {n} differ"
    assert panel.banner.text.startswith("Fault in all slots: ")
    assert ("Texts may be wrong." in panel.banner.text) == (fault is Fault.SKIP_LAYER)
    facts, strip = panel.details.facts.words, panel.details.rows.strip
    assert f"{NAMED[fault][0].upper()}{NAMED[fault][1:]}" in facts
    assert "A fault was injected on purpose" in facts
    is_row = fault in (Fault.OMIT_HOOK, Fault.ZERO_ROW, Fault.STALE_ROW)
    turn_to(panel, ROWS)
    assert strip.words.endswith(", as expected.") != is_row
    assert bool(panel.details.rows.plot.named)
    turn_to(panel, MAP)
    assert any(row.differences.any() for row in panel.details.map.map.rows) == is_row
    turn_to(panel, DRAFT)
    assert ("draft logits change" in panel.details.draft.effect.text()) == is_row
    turn_to(panel, LAYERS)
    assert ("equal" in panel.details.layers.words) == (fault is not Fault.SKIP_LAYER)


NAMED_ON_THE_DEMO = NAMED | {
    Fault.SKIP_LAYER: "recurrent layer 5, ",
    Fault.COMPANION_BEHIND: " of the MTP context's positions come",
}


@pytest.mark.parametrize("fault", Fault)
def test_on_the_demo_model_each_fault_is_named_and_without_one_everything_is_equal(make: Make, fault: Fault) -> None:
    panel = make(probed_session(ProbeLevel.STATE, fault, str(demo_model())))
    words, counts = listed(panel), panel.table.n_by_verdict()
    assert len(words) > 5
    assert panel.table.n_unmatched == 0
    assert Verdict.NOT_PROBED not in counts
    if fault is Fault.NONE:
        assert set(counts) <= {Verdict.EQUAL, Verdict.ROUNDING}
        assert panel.rows_in_use.n == panel.rows_in_use.n_right > 20
        return
    # A context is behind only where accepted tokens wait for it; every other fault spoils every restore.
    n_named = sum(NAMED_ON_THE_DEMO[fault] in verdict for verdict in words)
    assert n_named >= (1 if fault is Fault.COMPANION_BEHIND else len(words))
    tried = next(place for place in range(len(words)) if panel.table.probe(place)["n_vocab"])  # type: ignore[index]
    t_start_ns = int(panel.table.probe(tried)["t_start_ns"])  # type: ignore[index]
    tokens = panel.session.trace.array(t_start_ns, ArrayKind.TOP_TOKENS)
    assert tokens is not None
    assert all(panel.session.pieces.piece(token) is not None for token in tokens.tolist())
    panel.list.choose(tried)
    for page in range(len(TABS)):
        turn_to(panel, page)
        assert panel.details.page.empty.isHidden(), TABS[page]


def test_a_recorded_run_is_shown_without_an_engine(make: Make) -> None:
    run = ProbedRun(ProbeLevel.STATE, Fault.STALE_ROW)
    session = MadeSession()
    session.pieces.add(run.pieces)
    session.trace.append(run.records)
    panel = make(session)
    assert panel.details.page.empty.text.endswith("Probing was off when this was recorded.")
    session.trace.append_arrays(run.arrays)
    panel.refresh()
    assert panel.headline == f"{len(panel.table)} of {len(panel.table)} differ"
    for page in range(len(TABS)):
        turn_to(panel, page)
        assert panel.details.page.empty.isHidden(), TABS[page]


def test_a_trace_file_shows_what_the_run_showed(make: Make, tmp_path: Path) -> None:
    run = ProbedRun(ProbeLevel.STATE, Fault.OMIT_HOOK)
    with TraceWriter(tmp_path / "run.dscope", {}) as writer:
        writer.append(run.records)
        writer.append_arrays(run.arrays)
        writer.add_pieces(run.pieces)
    opened = read_trace(tmp_path / "run.dscope")
    live, saved = run.begin(), MadeSession()
    live.receive(run.records)
    live.receive_arrays(run.arrays)
    live.probing.inject(Fault.NONE)  # whose banner takes room from the heat map
    saved.pieces.add(dict(opened.pieces.items()))
    saved.trace.take_over(opened.store)
    panels = [make(session) for session in (live, saved)]
    assert len(listed(panels[0])) > 20
    for look in (listed, lambda panel: panel.summary.text(), lambda panel: panel.bar.cost.text()):
        assert look(panels[0]) == look(panels[1])
    for panel in panels:
        turn_to(panel, MAP)
        turn_to(panel, DRAFT)
    assert panels[0].details.draft.bars.words == panels[1].details.draft.bars.words != ""
    rows = [[row.differences.tolist() for row in panel.details.map.map.rows] for panel in panels]
    assert rows[0] == rows[1] != []


def test_the_panel_says_how_many_drafts_went_on_from_the_wrong_row(make: Make) -> None:
    session = probed_session(ProbeLevel.HIDDEN, Fault.ZERO_ROW)
    panel = make(session)
    rows = session.trace.kind(Kind.ROW)
    n_right = np.count_nonzero(rows["n"] == rows["position"])
    words = f"{n_right} of {len(rows)} drafts from the right row, {len(rows) - n_right} from a row of zeros"
    assert panel.summary.text().endswith(words)


def test_a_fault_is_ended_from_the_panel(make: Make) -> None:
    session = probed_session(ProbeLevel.HIDDEN, Fault.ZERO_ROW)
    panel = make(session)
    QTest.mouseClick(panel.banner.end, Qt.MouseButton.LeftButton)
    panel.refresh()
    assert session.probing.fault is Fault.NONE
    assert panel.banner.text == ""


# ---- levels and cost


def test_the_level_is_chosen_in_the_panel_also_while_a_run_goes_on(make: Make) -> None:
    session = probed_session(ProbeLevel.OFF)
    session.state = SessionState.RUNNING
    panel = make(session)
    panel.bar.level.setCurrentIndex(2)
    panel.bar.level.activated.emit(2)
    panel.refresh()
    assert session.probing.level is ProbeLevel.LOGITS
    assert panel.details.page.empty.text.startswith("This restore was not probed\n")
    session.probing.set_slot_level(1, ProbeLevel.STATE)
    panel.refresh()
    assert panel.bar.cost.text() == "slot 1: state"


def test_slots_of_one_level_are_one_phrase_behind_the_cost_which_stays_in_sight(make: Make) -> None:
    session = probed_session(ProbeLevel.HIDDEN)
    panel = make(session)
    cost = panel.bar.cost.text()
    for slot, level in enumerate((ProbeLevel.STATE,) * 4 + (ProbeLevel.OFF, ProbeLevel.LOGITS, ProbeLevel.OFF)):
        session.probing.set_slot_level(slot, level)
    panel.refresh()
    assert panel.bar.cost.text() == f"{cost} · slots 0 to 3: state · slots 4, 6: off · slot 5: logits"
    assert panel.bar.cost.toolTip().startswith(f"{cost}\nslots 0 to 3: state\n")
    panel.resize(430, 600)
    panel.bar.layout().activate()
    assert panel.bar.cost.width() >= panel.bar.cost.fontMetrics().horizontalAdvance(cost)


def test_the_cost_of_probes_is_shown(make: Make) -> None:
    panel = make(probed_session(ProbeLevel.HIDDEN))
    assert panel.bar.cost.text() == f"probes take {panel.cost.share * 100:.1f} % of the time"
    assert 0 < panel.cost.share < 0.01
    assert "Probed at level hidden in " in panel.details.facts.words


# ---- list, filters, selection


def test_filters_pass_slots_kinds_and_differences(make: Make) -> None:
    panel = make(probed_session(ProbeLevel.HIDDEN))
    rows = panel.table.rows
    panel.list.slot.setCurrentIndex(panel.list.slot.findData(1))
    panel.refresh()
    assert panel.list.model.places.tolist() == np.flatnonzero(rows["slot"] == 1).tolist()
    panel.list.slot.setCurrentIndex(0)
    panel.list.kind.setCurrentIndex(panel.list.kind.findData(int(RestoreKind.REJECTION)))
    panel.refresh()
    assert len(panel.list.model.places) == len(rows)
    panel.list.only_differing.setChecked(True)
    panel.refresh()
    assert panel.list.model.rowCount() == 0
    assert "No restore differs." in shown_text(panel)
    assert not panel.details.isVisible()
    panel.list.only_differing.setChecked(False)
    panel.refresh()
    assert panel.details.isVisible()


def test_a_restore_chosen_in_the_list_is_selected_everywhere(make: Make) -> None:
    session = probed_session(ProbeLevel.HIDDEN)
    panel = make(session)
    row = panel.list.model.rowCount() - 2
    panel.list.view.setCurrentIndex(panel.list.model.index(row, 0))
    chosen = panel.table.rows[row]
    assert (session.view.selected_round, session.view.selected_slot) == (chosen["round"], chosen["slot"])
    assert not panel.list.follow.isChecked()
    panel.refresh()
    assert f"Slot {chosen['slot']}, round {chosen['round']}: " in panel.details.facts.words


def test_a_round_selected_elsewhere_is_looked_at(make: Make) -> None:
    session = probed_session(ProbeLevel.HIDDEN)
    panel = make(session)
    chosen = panel.table.rows[3]
    session.view.select_slot(int(chosen["slot"]))
    session.view.select_round(int(chosen["round"]))
    panel.refresh()
    assert panel.shown is not None
    assert (panel.shown.row["round"], panel.shown.row["slot"]) == (chosen["round"], chosen["slot"])
    assert panel.list.view.currentIndex().row() == panel.shown.place


def test_a_click_in_the_heat_map_chooses_its_restore(make: Make) -> None:
    session = probed_session(ProbeLevel.HIDDEN)
    panel = make(session)
    turn_to(panel, MAP)
    heat = panel.details.map.map
    area = heat._image_area(heat._area())
    QTest.mouseClick(heat, Qt.MouseButton.LeftButton, pos=QPoint(round(area.center().x()), round(area.top()) + 1))
    assert panel.shown is not None
    assert panel.shown.place == heat.rows[0].place
    assert session.view.selected_round == panel.shown.row["round"]


def test_the_newest_is_followed_until_one_is_chosen(make: Make) -> None:
    run = ProbedRun(ProbeLevel.STATE)
    session = run.begin()
    half = len(run.records) // 2
    session.receive(run.records[:half])
    session.receive_arrays([a for a in run.arrays if a.t_start_ns < run.records["t_start_ns"][half]])
    panel = make(session)
    n = len(panel.table)
    assert panel.list.place == n - 1
    session.receive(run.records[half:])
    session.receive_arrays([a for a in run.arrays if a.t_start_ns >= run.records["t_start_ns"][half]])
    panel.refresh()
    assert len(panel.table) > n
    assert panel.list.place == len(panel.table) - 1
    assert listed(panel) == ["equal"] * len(panel.table)
    panel.list.choose(2)
    session.receive(restore(int(run.records["t_start_ns"][-1]) + 10, round_id=900))
    panel.refresh()
    assert panel.list.place == 2
    assert listed(panel)[-1] == "not probed"


def test_another_run_begins_anew_and_follows_again(make: Make) -> None:
    session = probed_session(ProbeLevel.HIDDEN)
    panel = make(session)
    panel.list.choose(1)
    session.begin_run(3)
    panel.refresh()
    assert panel.page.empty.isVisible()
    session.receive(np.concatenate([restore(1_000, slot=2), moment(9_000)]))
    panel.refresh()
    assert panel.list.place == 0
    assert listed(panel) == ["not probed"]


# ---- copies


def test_restores_are_copied_as_markdown_and_csv_one_whole_and_the_page_as_a_picture(make: Make) -> None:
    panel = make(probed_session(ProbeLevel.STATE, Fault.STALE_ROW))
    clipboard = QGuiApplication.clipboard()
    panel.bar.menu.actions()[0].trigger()
    assert len(clipboard.text().splitlines()) == len(panel.table) + 2
    panel.bar.menu.actions()[1].trigger()
    assert clipboard.text().startswith("t_start_ns,duration_ns,")
    assert len(clipboard.text().splitlines()) == len(panel.table) + 1
    panel.bar.menu.actions()[2].trigger()
    assert "- Row differs: it is the row of position " in clipboard.text()
    panel.bar.menu.actions()[3].trigger()
    assert clipboard.pixmap().size() == panel.details.page.size() * panel.devicePixelRatio()


# ---- looks and cost


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_page_is_drawn_in_both_themes(make: Make, theme: object) -> None:
    panel = make(probed_session(ProbeLevel.STATE, Fault.SKIP_LAYER))
    panel.set_theme(LIGHT if theme is LIGHT else DARK)
    for page in range(len(TABS)):
        turn_to(panel, page)
        image = panel.details.page.grab().toImage()
        colours = {image.pixel(x, y) for x in range(0, image.width(), 5) for y in range(0, image.height(), 5)}
        assert len(colours) > 3, TABS[page]


def test_the_same_difference_has_the_same_colour_and_equal_has_its_own() -> None:
    scale = scale_for(0.7)
    assert (scale.low, scale.high) == (-4, 0)
    shades = scale.shades(np.array([0.0, 1e-9, 1e-4, 1e-2, 1.0, 5.0, np.nan]))
    assert shades[0] == 0
    assert shades[1] == shades[2] == 1
    assert shades[2] < shades[3] < shades[4] == shades[5] == shades[6] == 255
    for theme in THEMES:
        assert len(set(palette(theme).tolist())) > 200


def test_a_hundred_thousand_restores_put_only_those_in_view_into_words(make: Make) -> None:
    n = 100_000
    many = np.repeat(restore(0), n)
    many["t_start_ns"] = np.arange(n) * 10_000
    many["round"], many["slot"] = np.arange(n), np.arange(n) % 4
    session = MadeSession()
    session.take_model(made_model())
    session.begin_run(4)
    session.receive(many)
    probes = np.repeat(np.asarray(probe()).reshape(1), n)
    probes["t_start_ns"], probes["slot"] = many["t_start_ns"] - 100, many["slot"]
    session.trace._probes._results.append(probes)
    panel = make(session)
    QGuiApplication.processEvents()
    model = panel.list.model
    assert model.rowCount() == n
    assert panel.headline == f"{n:,} equal"
    n_before = model.n_words
    assert n_before < 500
    started = time.perf_counter()
    for step in range(10):
        at = 10_000 * (n + step)
        session.receive(restore(at, round_id=n + step))
        session.receive_arrays([result(probe(at - 100))])
        panel.refresh()
        QGuiApplication.processEvents()
    assert (time.perf_counter() - started) / 10 < 0.1  # about 10 ms at rest
    assert model.rowCount() == n + 10
    assert model.n_words - n_before < 10 * 100
    assert panel.table.n_by_verdict() == {Verdict.EQUAL: n + 10}
