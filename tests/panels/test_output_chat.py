"""The cards of the Output panel as conversations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from draftscope.base.paths import demo_model
from draftscope.base.theme import DARK
from draftscope.engine.protocol import SlotResult
from draftscope.panels.output import OutputPanel
from draftscope.panels.script import EDIT
from draftscope.panels.slot_card import SlotCard
from draftscope.session.samples import CHAT_EXAMPLES
from tests.panels.made_run import PIECES, RunMaker
from tests.panels.made_session import MadeSession, made_model

# The offscreen platform warns that it has no window manager to tell sizes to.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def session() -> MadeSession:
    """Two slots on a model with a chat template."""
    made = MadeSession()
    made.take_model(replace(made_model(n_slots=2), has_chat_template=True))
    made.pieces.add(PIECES)
    return made


@pytest.fixture
def panel(qtbot: QtBot, session: MadeSession) -> Iterator[OutputPanel]:
    shown = OutputPanel(session, DARK)  # type: ignore[arg-type]
    qtbot.addWidget(shown)
    shown.resize(900, 420)
    shown.show()
    shown.refresh()
    yield shown
    shown.close()


def write(card: SlotCard, text: str) -> None:
    """Write a message and press Enter."""
    card.box.edit.setFocus()
    QTest.keyClicks(card.box.edit, text)
    QTest.keyClick(card.box.edit, Qt.Key.Key_Return)


def answer(session: MadeSession, panel: OutputPanel, maker: RunMaker, text: str, slot: int = 0) -> None:
    """Let the engine write some rounds, and the turn end."""
    maker.rounds(3)
    session.receive(maker.records())
    panel.refresh()
    session.end_turn(
        SlotResult(slot, text, (1, 2), 9, 3, 9, 4, (3, 1, 0), (3, 3, 3), 1.0, 1.0, 5.0, "end_of_generation")
    )
    panel.refresh()


def read(card: SlotCard) -> str:
    """What stands in a card."""
    lines = card.view.transcript.lines
    return "\n".join("".join(part.text for part in line) for line in lines)


def action(card: SlotCard, text: str) -> QAction:
    """An action of the card's menu, as it is when the menu is opened."""
    card.box.menu.aboutToShow.emit()
    return next(found for found in card.box.menu.actions() if found.text() == text)


def test_an_empty_card_says_what_to_do_and_has_no_examples_for_an_unknown_model(panel: OutputPanel) -> None:
    card = panel.cards[1]
    assert card.pages.currentWidget() is card.empty
    assert card.empty.buttons == []


def test_a_click_on_an_example_says_it(qtbot: QtBot, session: MadeSession, panel: OutputPanel) -> None:
    session.take_model(replace(made_model(n_slots=2), has_chat_template=True, path=str(demo_model())))
    panel.refresh()
    buttons = panel.cards[1].empty.buttons
    assert [button.accessibleName().partition(": ")[2] for button in buttons] == list(CHAT_EXAMPLES)
    QTest.mouseClick(buttons[0], Qt.MouseButton.LeftButton)
    assert session.turns[0].slot == 1
    assert session.turns[0].prompt.messages[0].content == CHAT_EXAMPLES[0]


def test_a_message_and_its_answer_are_shown_and_the_tokens_keep_their_origin(
    session: MadeSession, panel: OutputPanel
) -> None:
    card, maker = panel.cards[0], RunMaker(n_slots=1)
    write(card, "hello")
    panel.refresh()
    assert read(card).startswith("You  Edit\nhello\n")
    assert card.box.send.text() == "Stop"
    answer(session, panel, maker, "made up")
    assert "made up" not in read(card)
    assert "prompt 9 tokens · answer 2 · 44 % accepted" in read(card)
    write(card, "again")
    answer(session, panel, maker, "made up")
    numbers = [part.token for line in card.view.transcript.lines for part in line if part.token >= 0]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(card.view.flow)))
    assert read(card).count("You") == 2


def test_a_new_run_turns_earlier_answers_into_plain_text(session: MadeSession, panel: OutputPanel) -> None:
    card, maker = panel.cards[0], RunMaker(n_slots=1)
    write(card, "hello")
    answer(session, panel, maker, "what it said")
    session.chats._begin_trace({})
    session._record.forget()
    session.pieces.add(PIECES)
    session.run_started.emit()
    panel.refresh()
    assert "what it said" in read(card)
    assert len(card.view.flow) == 0


def test_a_click_on_edit_puts_the_message_into_the_box(qtbot: QtBot, session: MadeSession, panel: OutputPanel) -> None:
    panel.resize(900, 600)
    card, maker = panel.cards[0], RunMaker(n_slots=1)
    write(card, "hello")
    answer(session, panel, maker, "yes")
    size = card.view.viewport().size()
    points = (QPoint(x, y) for y in range(2, size.height(), 4) for x in range(2, size.width(), 4))
    found = (point for point in points if (mark := card.view.action_at(point)) and mark.action == EDIT)
    QTest.mouseClick(card.view.viewport(), Qt.MouseButton.LeftButton, pos=next(found))
    assert card.box.edit.toPlainText() == "hello"
    assert "message 1 of 1" in card.box.hint.text()
    card.box.edit.selectAll()
    write(card, "other")
    assert session.turns[-1].prompt.messages[-1].content == "other"
    assert len(session.turns[-1].prompt.messages) == 1


def test_ctrl_r_regenerates_and_the_menu_brings_back(session: MadeSession, panel: OutputPanel) -> None:
    card, maker = panel.cards[0], RunMaker(n_slots=1)
    write(card, "hello")
    answer(session, panel, maker, "first")
    card.box.edit.setFocus()
    QTest.keyClick(card.box.edit, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    assert session.turns[-1].sampling.seed == 1
    answer(session, panel, maker, "second")
    assert [turn.text for turn in session.chats.chat(0).dialogue.turns] == ["hello", "second"]
    action(card, "Bring back the version before").trigger()
    assert [turn.text for turn in session.chats.chat(0).dialogue.turns] == ["hello", "first"]


def test_a_menu_entry_that_cannot_be_done_says_why(session: MadeSession, panel: OutputPanel) -> None:
    card = panel.cards[0]
    for text, reason in (
        ("Regenerate the answer", "Nothing has been said."),
        ("Bring back the version before", "There is no earlier version."),
        ("Edit the last message", "There is no message of yours."),
    ):
        assert not action(card, text).isEnabled()
        assert action(card, text).toolTip() == reason
    write(card, "hello")
    assert not action(card, "New conversation").isEnabled()
    assert "generated" in action(card, "New conversation").toolTip()


def test_up_in_an_empty_box_goes_back_through_the_messages(session: MadeSession, panel: OutputPanel) -> None:
    card, maker = panel.cards[0], RunMaker(n_slots=1)
    for text in ("one", "two"):
        write(card, text)
        answer(session, panel, maker, "yes")
    for expected in ("two", "one", "one"):
        QTest.keyClick(card.box.edit, Qt.Key.Key_Up)
        assert card.box.edit.toPlainText() == expected
    QTest.keyClick(card.box.edit, Qt.Key.Key_Escape)
    assert card.box.edit.toPlainText() == ""


def test_the_system_prompt_is_edited_in_the_box_and_stands_on_top(session: MadeSession, panel: OutputPanel) -> None:
    card = panel.cards[0]
    action(card, "System prompt…").trigger()
    write(card, "Be short.")
    panel.refresh()
    assert read(card).startswith("System prompt  Edit\nBe short.")
    write(card, "hello")
    assert [message.role for message in session.turns[-1].prompt.messages] == ["system", "user"]


def test_stop_reaches_the_slot_of_the_card(session: MadeSession, panel: OutputPanel) -> None:
    write(panel.cards[1], "hello")
    panel.refresh()
    QTest.mouseClick(panel.cards[1].box.send, Qt.MouseButton.LeftButton)
    panel.refresh()
    assert session.stopping_slots == {1}
    assert not panel.cards[1].box.send.isEnabled()


def test_without_a_chat_template_the_card_says_so(session: MadeSession, panel: OutputPanel) -> None:
    session.take_model(made_model(n_slots=2))
    session.chats.forget_run()
    panel.refresh()
    card = panel.cards[0]
    assert "No chat template" in card.box.hint.text()
    write(card, "Once ")
    assert session.turns[-1].prompt.text == "Once "


def test_copying_takes_the_last_answer(session: MadeSession, panel: OutputPanel) -> None:
    card, maker = panel.cards[0], RunMaker(n_slots=1)
    for text in ("one", "two"):
        write(card, text)
        answer(session, panel, maker, f"to {text}")
    card.view.copy_text()
    assert QGuiApplication.clipboard().text() == "to two"


def test_a_message_being_written_survives_a_run(session: MadeSession, panel: OutputPanel) -> None:
    card = panel.cards[0]
    card.box.edit.setPlainText("half a thought")
    session.begin_run(2)
    panel.refresh()
    assert panel.cards[0] is card
    assert card.box.edit.toPlainText() == "half a thought"


def test_a_box_that_grows_in_the_lower_row_stays_in_sight(
    qtbot: QtBot, session: MadeSession, panel: OutputPanel
) -> None:
    session.take_model(replace(made_model(n_slots=4), has_chat_template=True))
    panel.resize(800, 460)
    panel.refresh()
    box = panel.cards[2].box
    box.begin_edit(0, "message 1 of 1", "a line of text\n" * 6)
    box.edit.setFocus()

    def is_in_sight() -> bool:
        bottom = box.edit.mapTo(panel._scroll.viewport(), box.edit.rect().bottomLeft()).y()
        return panel._scroll.verticalScrollBar().maximum() > 0 and 0 < bottom <= panel._scroll.viewport().height()

    qtbot.waitUntil(is_in_sight, timeout=2_000)


def test_a_slot_at_rest_says_what_it_holds_while_another_one_writes(session: MadeSession, panel: OutputPanel) -> None:
    write(panel.cards[0], "hello")
    panel.refresh()
    assert panel.cards[0].strip._text == ""
    assert panel.cards[1].strip._text == "Holds nothing yet"


def test_cards_stay_in_sight_where_one_is_empty_and_another_is_edited(
    qtbot: QtBot, session: MadeSession, panel: OutputPanel
) -> None:
    session.take_model(replace(made_model(n_slots=4), has_chat_template=True, path=str(demo_model())))
    panel.resize(812, 478)
    panel.refresh()
    for slot in range(3):
        write(panel.cards[slot], "hello")
        answer(session, panel, RunMaker(n_slots=4), "made up", slot)
    assert panel.cards[3].pages.currentWidget() is panel.cards[3].empty
    panel.cards[0].box.begin_edit(0, "message 1 of 1", "hello")
    qtbot.wait(50)
    assert panel._scroll.verticalScrollBar().maximum() == 0


def test_colours_are_explained_once_there_are_some(session: MadeSession, panel: OutputPanel) -> None:
    assert not panel._legend.isVisible()
    write(panel.cards[0], "hello")
    answer(session, panel, RunMaker(n_slots=1), "yes")
    assert panel._legend.isVisible()
