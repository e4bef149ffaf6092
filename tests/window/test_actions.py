"""The table of actions: complete, true to the situation, and reachable."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import create_autospec

import pytest
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QMainWindow
from pytestqt.qtbot import QtBot

from draftscope.base.paths import resource
from draftscope.session.state import SessionState
from draftscope.window.action import Action
from draftscope.window.actions import ACTIONS, MENUS, TOOLBAR
from draftscope.window.commands import Commands
from draftscope.window.main_window import MainWindow
from draftscope.window.situation import Situation
from tests.window.conftest import load, reach, run_for

SITUATIONS = [
    replace(Situation(), state=state, has_prompts=full, has_records=full, has_rounds=full, has_last_request=full)
    for state in SessionState
    for full in (False, True)
]


def test_every_row_is_whole_and_unique() -> None:
    assert len({row.id for row in ACTIONS}) == len(ACTIONS)
    shortcuts = [QKeySequence(row.shortcut).toString() for row in ACTIONS if row.shortcut]
    assert len(set(shortcuts)) == len(shortcuts)
    assert all(shortcuts)
    for row in ACTIONS:
        assert row.text, row.id
        assert row.tip, row.id
        assert row.menu in MENUS, row.id
        assert not row.icon or resource("icons", f"{row.icon}.svg").is_file(), row.icon
    assert {id for id in TOOLBAR if id} <= {row.id for row in ACTIONS}


@pytest.mark.parametrize("row", ACTIONS, ids=lambda row: row.id)
def test_every_action_does_exactly_one_thing(row: Action) -> None:
    commands = create_autospec(Commands, instance=True)
    if getattr(row.do, "__qualname__", "").startswith("Commands."):
        assert getattr(Commands, row.do.__name__) is row.do
    else:
        row.do(commands)
        assert len(commands.method_calls) == 1


@pytest.mark.parametrize("now", SITUATIONS, ids=lambda now: f"{now.state.name.lower()}-{now.has_prompts}")
def test_what_cannot_be_done_says_why_in_a_sentence(now: Situation) -> None:
    for row in ACTIONS:
        reason = row.why_not(now)
        assert reason == "" or (reason[0].isupper() and reason.endswith(".")), row.id


def test_what_can_be_done_by_state() -> None:
    full = Situation(has_prompts=True, has_records=True, has_rounds=True, has_last_request=True)
    possible = {
        state: {row.id for row in ACTIONS if not row.why_not(replace(full, state=state))} for state in SessionState
    }
    assert {"run", "stop"} & possible[SessionState.NO_MODEL] == set()
    assert {"run", "stop"} & possible[SessionState.READY] == {"run"}
    assert {"run", "stop", "demo", "prompts"} & possible[SessionState.RUNNING] == {"stop"}
    assert {"run", "stop"} & possible[SessionState.LOADING] == {"stop"}
    assert {"run", "stop"} & possible[SessionState.STOPPING] == set()
    assert {"run_again", "export", "restart"} <= possible[SessionState.ENGINE_DIED]
    assert all("open" in ids for ids in possible.values())


def test_disabled_actions_tell_the_reason_in_their_tooltip(window: MainWindow) -> None:
    run = window.actions_by_id["run"]
    assert not run.isEnabled()
    assert "No model is loaded" in run.toolTip()
    assert "No model is loaded" in run.statusTip()
    button = window.toolbar.widgetForAction(run)
    assert "No model is loaded" in button.toolTip()


def test_actions_follow_the_session(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    assert window.actions_by_id["run"].isEnabled()
    assert not window.actions_by_id["stop"].isEnabled()
    run_for(qtbot, window, 50)
    window.clock.tick()
    assert not window.actions_by_id["run"].isEnabled()
    assert window.actions_by_id["export"].isEnabled()
    assert not window.controls.slots.isEnabled()
    assert "when the run has ended" in window.controls.slots.toolTip()
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)
    assert window.controls.slots.isEnabled()


def test_menus_hold_every_action_and_the_toolbar_its_own(window: MainWindow) -> None:
    bar: QMainWindow = window
    in_menus = {
        action.objectName()
        for menu in bar.menuBar().actions()
        for action in menu.menu().actions()  # type: ignore[attr-defined]
    }
    assert {f"action_{row.id}" for row in ACTIONS} <= in_menus
    on_toolbar = {action.objectName() for action in window.toolbar.actions()}
    assert {f"action_{id}" for id in TOOLBAR if id} <= on_toolbar


def test_a_check_mark_tells_the_truth_after_its_action(qtbot: QtBot, window: MainWindow) -> None:
    action = window.actions_by_id["panel_log"]
    assert action.isChecked()
    action.trigger()
    action.trigger() if not window.docks.dock("log").isHidden() else None
    window.clock.tick()
    assert action.isChecked() is not window.docks.dock("log").isHidden()
    window.actions_by_id["theme_dark"].trigger()
    window.clock.tick()
    assert window.actions_by_id["theme_dark"].isChecked()
    window.actions_by_id["theme_dark"].trigger()
    window.clock.tick()
    assert window.actions_by_id["theme_dark"].isChecked()
    assert not window.actions_by_id["theme_light"].isChecked()
