"""Probe levels and faults in the window: menus, what says that a fault is active, and what is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.panels.restore_diffs import RestoreDiffsPanel
from draftscope.session.state import SessionState
from draftscope.trace.restore_verdict import Verdict
from draftscope.window.actions import ACTIONS
from draftscope.window.main_window import MainWindow
from draftscope.window.menus import make_slot_menu
from draftscope.window.situation import NO_ENGINE, Situation
from draftscope.window.truth_strip import fault_words
from tests.window.conftest import WindowMaker, load, reach, run_for


def restores(window: MainWindow) -> RestoreDiffsPanel:
    """The panel, in front and up to date."""
    window.docks.bring_forward("restores")
    panel = next(panel for panel in window.panels if isinstance(panel, RestoreDiffsPanel))
    panel.refresh()
    return panel


def run(qtbot: QtBot, window: MainWindow) -> None:
    """A short run to its end."""
    window.setup.change(replace(window.setup.values, max_tokens=40, ignore_eos=True))
    window.actions_by_id["run"].trigger()
    reach(qtbot, window, SessionState.RUNNING)
    reach(qtbot, window, SessionState.READY)


def test_a_level_is_chosen_in_the_menu_and_measures_the_next_run(qtbot: QtBot, window: MainWindow) -> None:
    window.actions_by_id["probe_state"].trigger()
    window.clock.tick()
    assert window.actions_by_id["probe_state"].isChecked()
    load(qtbot, window)
    run(qtbot, window)
    panel = restores(window)
    counts = panel.table.n_by_verdict()
    assert set(counts) == {Verdict.EQUAL}
    assert counts[Verdict.EQUAL] > 5
    assert panel.bar.level.currentText() == ProbeLevel.STATE.value


def test_a_level_is_remembered(make: WindowMaker) -> None:
    make().actions_by_id["probe_logits"].trigger()
    again = make()
    assert again.session.probing.level is ProbeLevel.LOGITS
    assert again.actions_by_id["probe_logits"].isChecked()


def test_levels_and_faults_change_while_a_run_goes_on(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 200)
    window.actions_by_id["probe_hidden"].trigger()
    qtbot.waitUntil(lambda: Verdict.EQUAL in restores(window).table.n_by_verdict(), timeout=15_000)
    assert Verdict.NOT_PROBED in restores(window).table.n_by_verdict()
    window.clock.tick()
    assert window.actions_by_id["teach_zero_row"].isEnabled()
    window.actions_by_id["teach_zero_row"].trigger()
    qtbot.waitUntil(lambda: Verdict.ROW_ZERO in restores(window).table.n_by_verdict(), timeout=15_000)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)


def test_an_active_fault_is_said_everywhere_and_ended_by_one_click(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    window.actions_by_id["teach_skip_layer"].trigger()
    window.clock.tick()
    sentence = "Fault in all slots: one recurrent layer is not put back. Texts may be wrong."
    assert window.fault_banner.text == f"{sentence} Measure at level state to see it caught."
    window.actions_by_id["probe_state"].trigger()
    assert window.fault_banner.text == sentence
    assert restores(window).banner.text == sentence
    assert window.strip._fault.isVisible()
    assert window.strip._fault.text() == fault_words(Fault.SKIP_LAYER, None)
    assert window.strip._fault.property("tone") == "warn"
    assert window.actions_by_id["teach_skip_layer"].isChecked()
    window.fault_banner.end.click()
    window.clock.tick()
    assert window.session.probing.fault is Fault.NONE
    assert window.fault_banner.text == ""
    assert not window.strip._fault.isVisible()
    assert window.actions_by_id["teach_none"].isChecked()
    assert window.actions_by_id["teach_none"].statusTip() == "No fault is active."


def test_a_slot_has_its_own_level_and_fault_in_its_menu(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    assert window.actions_by_id["slot_probe_state"].statusTip() == "Select a slot first: click on its card."
    window.session.view.select_slot(1)
    window.clock.tick()
    menu = make_slot_menu(window, window.actions_by_id, 1)
    submenus = {action.text(): action.menu() for action in menu.actions() if action.menu() is not None}
    assert list(submenus) == ["Probe", "Teach"]
    probe, teach = submenus["Probe"], submenus["Teach"]
    assert isinstance(probe, QMenu)
    assert isinstance(teach, QMenu)
    next(action for action in probe.actions() if "recurrent state" in action.text()).trigger()
    next(action for action in teach.actions() if "zero" in action.text()).trigger()
    probing = window.session.probing
    assert [probing.level_of(slot) for slot in (0, 1)] == [ProbeLevel.OFF, ProbeLevel.STATE]
    assert [probing.fault_of(slot) for slot in (0, 1)] == [Fault.NONE, Fault.ZERO_ROW]
    assert window.fault_banner.text == "Fault in slot 1: the pending row is zeroed."
    run(qtbot, window)
    panel = restores(window)
    verdicts = {(int(row["slot"]) == 1, Verdict(int(row["verdict"]))) for row in panel.table.rows}
    assert verdicts == {(False, Verdict.NOT_PROBED), (True, Verdict.ROW_ZERO)}
    menu.deleteLater()


@pytest.mark.parametrize(
    ("path", "id", "reason"),
    [
        ("fake:plain", "teach_skip_layer", "This model has no recurrent layers to leave out."),
        ("fake:dense", "teach_zero_row", "Nothing is drafted, so no restore can go wrong: "),
    ],
)
def test_a_fault_that_cannot_be_had_says_why(qtbot: QtBot, window: MainWindow, path: str, id: str, reason: str) -> None:
    load(qtbot, window, path)
    window.clock.tick()
    assert not window.actions_by_id[id].isEnabled()
    assert window.actions_by_id[id].statusTip().startswith(reason)


def test_the_menus_are_marked_for_what_they_are() -> None:
    teach = [row for row in ACTIONS if row.menu == "Teach"]
    assert len(teach) == 2 * (len(Fault) - 1) + 1
    assert all("on purpose" in row.tip for row in teach if row.id != "teach_none")
    assert all(row.why_not(Situation()) for row in teach)
    assisted = Situation(SessionState.READY, drafts=True, has_assistant=True, n_slots=2, slot=1)
    refused = {
        row.id for row in teach if row.why_not(assisted) == "An assistant keeps no keys that could be left behind."
    }
    assert refused == {"teach_companion_behind", "teach_slot_companion_behind"}
    assert not any(row.why_not(Situation()) for row in ACTIONS if row.id.startswith("probe_"))


def test_a_saved_trace_says_why_nothing_of_probe_and_teach_can_be_had() -> None:
    live = Situation(SessionState.READY, drafts=True, is_recurrent=True, n_slots=2, slot=1, fault=Fault.OMIT_HOOK)
    rows = [row for row in ACTIONS if row.menu in ("Probe", "Teach")]
    assert not any(row.why_not(live) for row in rows)
    assert {row.why_not(replace(live, state=SessionState.SAVED)) for row in rows} == {NO_ENGINE}
