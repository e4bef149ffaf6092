"""What can be done with a slot in the window: its menu, its actions, its card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QInputDialog, QMenu
from pytestqt.qtbot import QtBot

from draftscope.engine.events import Kind
from draftscope.engine.protocol import Prompt
from draftscope.session.state import SessionState
from draftscope.window.main_window import MainWindow
from tests.window.conftest import load, reach


@pytest.fixture
def ready(qtbot: QtBot, window: MainWindow) -> MainWindow:
    """A window after a run of two slots out of three."""
    window.setup.set_slots(3)
    window.setup.set_max_tokens(40)
    prompts = (Prompt(text="class Stack:"), Prompt(text="import sys"), Prompt())
    window.setup.change(replace(window.setup.values, ignore_eos=True, prompts=prompts))
    load(qtbot, window)
    window.actions_by_id["run"].trigger()
    reach(qtbot, window, SessionState.RUNNING)
    reach(qtbot, window, SessionState.READY)
    window.clock.tick()
    return window


def settle(qtbot: QtBot, window: MainWindow) -> None:
    """Wait until no command on a slot is open, and draw what came of it."""
    qtbot.waitUntil(lambda: not window.session.slots.is_changing, timeout=10_000)
    window.clock.tick()


def text_of(window: MainWindow, slot: int) -> str:
    """What was said in a slot, which its card shows."""
    return "".join(turn.text for turn in window.session.chats.chat(slot).dialogue.turns)


def words_of(window: MainWindow, slot: int) -> str:
    """What the card of a slot says of what it holds."""
    return window.output.cards[slot].strip.text


def test_a_card_says_what_its_slot_holds_and_what_of_its_prompt_was_there(qtbot: QtBot, ready: MainWindow) -> None:
    n = ready.session.slots.n_tokens(0)
    assert n > 40
    assert words_of(ready, 0) == f"Holds {n} tokens"
    ready.actions_by_id["run"].trigger()
    reach(qtbot, ready, SessionState.RUNNING)
    reach(qtbot, ready, SessionState.READY)
    ready.clock.tick()
    assert words_of(ready, 0).startswith(f"Holds {n} tokens · ")
    assert "of the prompt reused: " in words_of(ready, 0) or "prompt tokens reused: " in words_of(ready, 0)


def test_a_click_on_a_card_selects_its_slot_and_the_actions_are_about_it(ready: MainWindow) -> None:
    clear = ready.actions_by_id["clear_slot"]
    assert not clear.isEnabled()
    assert "Select a slot first" in clear.statusTip()
    QTest.mouseClick(ready.output.cards[1].view.viewport(), Qt.MouseButton.LeftButton)
    ready.clock.tick()
    assert ready.session.view.selected_slot == 1
    assert clear.isEnabled()


@pytest.mark.qt_log_ignore("This plugin does not support")  # a popup grabs the keyboard, where there is one
def test_the_button_of_a_card_opens_the_menu_of_its_slot(ready: MainWindow) -> None:
    QTest.mouseClick(ready.output.cards[1].strip.button, Qt.MouseButton.LeftButton)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    words = [action.text() for action in menu.actions() if not action.isSeparator()]
    assert words == [
        "Go on in this slot",
        "Rewind to the selected round",
        "Fork to…",
        "Save slot…",
        "Restore slot…",
        "Clear slot",
        "Probe",
        "Teach",
    ]
    assert ready.session.view.selected_slot == 1
    rewind = next(action for action in menu.actions() if action.text().startswith("Rewind"))
    assert not rewind.isEnabled()
    assert "Select a round first" in rewind.toolTip()
    menu.close()


def test_a_cleared_slot_shows_nothing_and_says_so(qtbot: QtBot, ready: MainWindow) -> None:
    ready.session.view.select_slot(0)
    ready.clock.tick()
    ready.actions_by_id["clear_slot"].trigger()
    settle(qtbot, ready)
    assert words_of(ready, 0) == "Holds nothing, cleared"
    assert text_of(ready, 0) == ""
    assert not ready.actions_by_id["clear_slot"].isEnabled()
    assert ready.actions_by_id["clear_slot"].statusTip() == "Slot 0 holds nothing."
    assert text_of(ready, 1).startswith("import sys")


def test_a_slot_goes_back_to_the_selected_round(qtbot: QtBot, ready: MainWindow) -> None:
    rounds = ready.session.trace.kind(Kind.ROUND)
    mine = rounds[rounds["slot"] == 0]
    ready.session.view.select_slot(0)
    ready.session.view.select_round(int(mine["round"][2]))
    ready.clock.tick()
    ready.actions_by_id["rewind_slot"].trigger()
    settle(qtbot, ready)
    n = int(mine["position"][2])
    assert words_of(ready, 0) == f"Holds {n} tokens, rewound"
    ready.session.view.select_round(int(mine["round"][-1]))
    ready.clock.tick()
    assert not ready.actions_by_id["rewind_slot"].isEnabled()


def test_a_fork_asks_for_a_slot_and_offers_the_empty_one_first(qtbot: QtBot, ready: MainWindow) -> None:
    ready.session.view.select_slot(0)
    ready.clock.tick()
    ready.actions_by_id["fork_slot"].trigger()
    dialog = next(widget for widget in QApplication.topLevelWidgets() if isinstance(widget, QInputDialog))
    items = dialog.comboBoxItems()
    assert items[0] == "Slot 2, which is empty"
    assert items[1].startswith("Slot 1, in the place of its ")
    dialog.accept()
    settle(qtbot, ready)
    assert words_of(ready, 2) == f"Holds {ready.session.slots.n_tokens(0)} tokens, forked from slot 0"
    assert text_of(ready, 2) == text_of(ready, 0)


def file_dialog() -> QFileDialog:
    return next(widget for widget in QApplication.topLevelWidgets() if isinstance(widget, QFileDialog))


def test_a_slot_is_saved_and_restored_into_another_by_file(qtbot: QtBot, ready: MainWindow, tmp_path: Path) -> None:
    path = tmp_path / "kept.slot"
    ready.session.view.select_slot(0)
    ready.clock.tick()
    ready.actions_by_id["save_slot"].trigger()
    dialog = file_dialog()
    dialog.fileSelected.emit(str(path))
    dialog.close()
    settle(qtbot, ready)
    assert path.exists()
    notices = list(ready.notices.notices)
    assert notices[-1].message.startswith(f"Slot 0 was saved to {path}")
    ready.session.view.select_slot(2)
    ready.clock.tick()
    ready.actions_by_id["restore_slot"].trigger()
    dialog = file_dialog()
    dialog.fileSelected.emit(str(path))
    dialog.close()
    settle(qtbot, ready)
    assert words_of(ready, 2) == f"Holds {ready.session.slots.n_tokens(0)} tokens, restored from kept.slot"
    assert text_of(ready, 2) == text_of(ready, 0)


def test_a_file_that_cannot_be_restored_is_told_above_the_panels(
    qtbot: QtBot, ready: MainWindow, tmp_path: Path
) -> None:
    path = tmp_path / "kept.slot"
    path.write_bytes(b"GGUF")
    before = words_of(ready, 0)
    ready.session.slots.restore(0, path)
    settle(qtbot, ready)
    assert list(ready.notices.notices)[-1].message == f"{path} is no slot file."
    assert words_of(ready, 0) == before


def test_a_slot_goes_on_from_what_it_holds_in_the_same_card(qtbot: QtBot, ready: MainWindow) -> None:
    before = text_of(ready, 1)
    ready.session.view.select_slot(1)
    ready.clock.tick()
    ready.actions_by_id["go_on"].trigger()
    reach(qtbot, ready, SessionState.RUNNING)
    reach(qtbot, ready, SessionState.READY)
    ready.clock.tick()
    text = text_of(ready, 1)
    assert text.startswith(before)
    assert text == before + ready.session.results[1].text
    assert "prompt tokens reused: the prompt goes on from what the slot held" in words_of(ready, 1)
    assert ready.session.slots.n_tokens(0) > 0  # which was not in that run, and still holds what it held
