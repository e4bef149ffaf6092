"""Conversations in the window: on the scripted engine, and on the bundled model."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from draftscope.base.paths import demo_model
from draftscope.engine.events import Kind
from draftscope.panels.script import EDIT, Mark, Style
from draftscope.session.samples import CHAT_EXAMPLES, demo_request
from draftscope.session.state import SessionState
from draftscope.window.main_window import MainWindow
from tests.window.conftest import WindowMaker, load, reach


def write(window: MainWindow, slot: int, text: str) -> None:
    """Write a message into the box of a slot and press Enter."""
    window.clock.tick()
    edit = window.output.cards[slot].box.edit
    edit.setFocus()
    edit.selectAll()
    QTest.keyClicks(edit, text)
    QTest.keyClick(edit, Qt.Key.Key_Return)


def wait_for_answer(qtbot: QtBot, window: MainWindow, slot: int) -> str:
    """The answer of a slot, once it is done and drawn."""
    qtbot.waitUntil(lambda: slot not in window.session.busy_slots, timeout=30_000)
    window.clock.tick()
    return window.session.chats.chat(slot).dialogue.turns[-1].text


def said(window: MainWindow, slot: int) -> list[str]:
    """Roles of what was said in a slot."""
    return [turn.role for turn in window.session.chats.chat(slot).dialogue.turns]


def seen(window: MainWindow, slot: int) -> str:
    """What stands in a card."""
    lines = window.output.cards[slot].view.transcript.lines
    return "\n".join("".join(part.text for part in line) for line in lines)


def test_a_message_is_answered_in_its_slot(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    window.setup.set_max_tokens(20)
    write(window, 2, "tell a story")
    assert wait_for_answer(qtbot, window, 2)
    assert said(window, 2) == ["user", "assistant"]
    assert "tell a story" in seen(window, 2)
    assert window.output.cards[2].header.words.startswith("Slot 2, done: token limit")
    assert window.session.state is SessionState.READY


def test_a_shortcut_goes_from_box_to_box(qtbot: QtBot, window: MainWindow) -> None:
    action = window.actions_by_id["write"]
    assert not action.isEnabled()
    load(qtbot, window)
    window.clock.tick()
    reached = []
    for _ in range(5):
        action.trigger()
        reached += [slot for slot, card in window.output.cards.items() if card.box.edit.hasFocus()]
    assert reached == [0, 1, 2, 3, 0]


def test_two_slots_talk_at_once_and_one_is_stopped(qtbot: QtBot, make: WindowMaker) -> None:
    window = make("fake:60")
    load(qtbot, window)
    window.setup.change(replace(window.setup.values, max_tokens=2_000, ignore_eos=True))
    write(window, 0, "one")
    write(window, 1, "two")
    qtbot.waitUntil(lambda: {0, 1} <= set(window.session.trace.kind(Kind.ROUND)["slot"].tolist()), timeout=15_000)
    assert window.session.busy_slots == {0, 1}
    window.clock.tick()
    QTest.mouseClick(window.output.cards[0].box.send, Qt.MouseButton.LeftButton)
    assert wait_for_answer(qtbot, window, 0)
    assert window.session.state is SessionState.RUNNING
    assert "stopped" in seen(window, 0)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)
    assert said(window, 1) == ["user", "assistant"]


def test_a_refused_message_is_told_in_its_card_and_above(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    window.session.chats.say(0, "word " * 6_000)
    reach(qtbot, window, SessionState.READY)
    assert "Shorten it" in seen(window, 0).replace("\n", "")
    assert any("tokens" in notice.message for notice in window.notices.notices)
    window.session.chats.delete_last(0)
    window.clock.tick()
    assert said(window, 0) == []


def test_a_conversation_goes_on_after_the_engine_died(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    window.setup.set_max_tokens(20)
    write(window, 0, "tell a story")
    first = wait_for_answer(qtbot, window, 0)
    window.actions_by_id["restart"].trigger()
    reach(qtbot, window, SessionState.READY)
    write(window, 0, "go on")
    assert wait_for_answer(qtbot, window, 0)
    assert said(window, 0) == ["user", "assistant"] * 2
    assert first.split()[0] in seen(window, 0)


def test_a_conversation_of_two_hundred_turns_is_drawn_within_a_frame(qtbot: QtBot, make: WindowMaker) -> None:
    window = make("fake:0")
    load(qtbot, window)
    chats = window.session.chats
    dialogue = chats.chat(0).dialogue
    for number in range(200):
        dialogue.say(f"Message {number}: tell me more about it, as long as you can.")
        dialogue.take_cut_off("And it came to pass in the days of the king. " * 12)
    chats.edit_system(0, "Be short.")
    window.clock.tick()
    view = window.output.cards[0].view
    assert view.n_lines > 1_000
    spent = []
    for step in range(20):
        view.verticalScrollBar().setValue(step * 400)
        started = time.perf_counter()
        view.viewport().repaint()
        spent.append(time.perf_counter() - started)
    assert sorted(spent)[10] < 0.060


@pytest.fixture
def native(qtbot: QtBot, make: WindowMaker) -> MainWindow:
    """The bundled model in two slots, sampled as it is best sampled."""
    window = make("native")
    window.setup.set_slots(2)
    sampling = demo_request().tasks[0].sampling
    window.setup.change(replace(window.setup.values, sampling=sampling, max_tokens=48))
    window.commands.load_file(demo_model())
    reach(qtbot, window, SessionState.READY, timeout=30_000)
    return window


def test_a_conversation_with_the_bundled_model(qtbot: QtBot, native: MainWindow) -> None:
    window = native
    write(window, 0, CHAT_EXAMPLES[0])
    first = wait_for_answer(qtbot, window, 0)
    write(window, 0, CHAT_EXAMPLES[1])
    assert wait_for_answer(qtbot, window, 0)
    assert said(window, 0) == ["user", "assistant"] * 2
    assert seen(window, 0).count("You  Edit") == 2
    card = window.output.cards[0]
    card.view.action_clicked.emit(Mark(Style.ACTION, "Edit", EDIT, 0))
    write(window, 0, CHAT_EXAMPLES[0])
    assert wait_for_answer(qtbot, window, 0) == first
    assert said(window, 0) == ["user", "assistant"]
    QTest.keyClick(card.box.edit, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    assert wait_for_answer(qtbot, window, 0) != first
    write(window, 0, CHAT_EXAMPLES[2])
    write(window, 1, CHAT_EXAMPLES[2])
    assert wait_for_answer(qtbot, window, 0)
    assert wait_for_answer(qtbot, window, 1)
    rounds = window.session.trace.kind(Kind.ROUND)
    per_slot = rounds[rounds["slot"] == 0]["round"]
    assert len(set(per_slot.tolist())) == len(per_slot)


def test_an_answer_of_the_bundled_model_is_stopped_and_kept(qtbot: QtBot, native: MainWindow) -> None:
    window = native
    window.setup.change(replace(window.setup.values, max_tokens=1_500, ignore_eos=True))
    write(window, 0, CHAT_EXAMPLES[0])
    qtbot.waitUntil(lambda: len(window.session.trace.kind(Kind.ROUND)) > 5, timeout=30_000)
    window.session.chats.stop(0)
    assert wait_for_answer(qtbot, window, 0)
    assert "stopped" in seen(window, 0)


def test_every_example_is_answered_by_the_bundled_model(qtbot: QtBot, native: MainWindow) -> None:
    for example in CHAT_EXAMPLES:
        native.session.chats.say(0, example)
        assert wait_for_answer(qtbot, native, 0)
        native.session.chats.clear(0)
