"""The box that messages are written in: keys, edits, and what it says when nothing can be sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from draftscope.base.theme import DARK
from draftscope.panels.message_box import MOST_LINES, BoxState, MessageBox, Writing

# The offscreen platform warns that it has no window manager to tell sizes to.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def box(qtbot: QtBot) -> Iterator[MessageBox]:
    shown = MessageBox(0, DARK)
    qtbot.addWidget(shown)
    shown.resize(400, 60)
    shown.show()
    shown.edit.setFocus()
    yield shown
    shown.close()


def test_enter_sends_and_shift_enter_begins_a_line(box: MessageBox) -> None:
    said: list[str] = []
    box.said.connect(said.append)
    QTest.keyClicks(box.edit, "one")
    QTest.keyClick(box.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(box.edit, "two")
    QTest.keyClick(box.edit, Qt.Key.Key_Return)
    assert said == ["one\ntwo"]
    assert box.edit.toPlainText() == ""


def test_nothing_is_sent_where_there_is_nothing_to_say(box: MessageBox) -> None:
    said: list[str] = []
    box.said.connect(said.append)
    QTest.keyClicks(box.edit, "  ")
    QTest.keyClick(box.edit, Qt.Key.Key_Return)
    assert (said, box.send.isEnabled(), box.send.toolTip()) == ([], False, "Write something first.")
    box.show_state(BoxState(is_plain=True, may_be_empty=True))
    box.edit.clear()
    QTest.keyClick(box.edit, Qt.Key.Key_Return)
    assert said == [""]


def test_while_an_answer_comes_the_button_stops_it_and_the_text_waits(box: MessageBox) -> None:
    said: list[str] = []
    stops: list[int] = []
    box.said.connect(said.append)
    box.stop_asked.connect(lambda: stops.append(1))
    box.show_state(BoxState("The answer is being generated.", is_answering=True))
    assert (box.send.text(), box.edit.placeholderText()) == ("Stop", "Generating…")
    QTest.keyClicks(box.edit, "next")
    QTest.keyClick(box.edit, Qt.Key.Key_Return)
    assert (said, box.edit.toPlainText()) == ([], "next")
    QTest.mouseClick(box.send, Qt.MouseButton.LeftButton)
    assert stops == [1]
    box.show_state(BoxState())
    QTest.keyClick(box.edit, Qt.Key.Key_Return)
    assert said == ["next"]


def test_what_cannot_be_sent_now_says_why(box: MessageBox) -> None:
    box.show_state(BoxState("The model is loading."))
    QTest.keyClicks(box.edit, "hello")
    assert not box.send.isEnabled()
    assert box.send.toolTip() == "The model is loading."


def test_an_edit_is_sent_as_one_and_the_message_begun_before_is_there_again(box: MessageBox) -> None:
    edited: list[tuple[int, str]] = []
    box.edited.connect(lambda turn, text: edited.append((turn, text)))
    box.edit.setPlainText("begun")
    box.begin_edit(2, "message 2 of 3", "old")
    assert "message 2 of 3" in box.hint.text()
    assert box.hint.isVisible()
    QTest.keyClicks(box.edit, " and new")
    QTest.keyClick(box.edit, Qt.Key.Key_Return)
    assert edited == [(2, "old and new")]
    assert (box.edit.toPlainText(), box.writing, box.hint.isVisible()) == ("begun", Writing.MESSAGE, False)


def test_escape_leaves_an_edit(box: MessageBox) -> None:
    box.edit.setPlainText("begun")
    box.begin_edit(2, "message 2 of 3", "old")
    box.begin_edit(0, "message 1 of 3", "older")
    QTest.keyClick(box.edit, Qt.Key.Key_Escape)
    assert (box.edit.toPlainText(), box.writing) == ("begun", Writing.MESSAGE)


def test_the_system_prompt_may_be_empty_and_is_kept_while_nothing_is_sent(box: MessageBox) -> None:
    kept: list[str] = []
    box.system_edited.connect(kept.append)
    box.begin_system("Be short.")
    assert box.send.text() == "Keep"
    box.edit.clear()
    QTest.keyClick(box.edit, Qt.Key.Key_Return)
    assert kept == [""]


def test_up_asks_for_the_message_before_only_where_it_takes_nothing_away(box: MessageBox) -> None:
    asked: list[int] = []
    box.earlier_asked.connect(asked.append)
    QTest.keyClick(box.edit, Qt.Key.Key_Up)
    box.edit.setPlainText("begun")
    QTest.keyClick(box.edit, Qt.Key.Key_Up)
    assert asked == [-1]
    box.begin_edit(2, "message 2 of 3", "old\nsecond line")
    QTest.keyClick(box.edit, Qt.Key.Key_Up)
    assert asked == [-1]
    QTest.keyClick(box.edit, Qt.Key.Key_Up)
    assert asked == [-1, 2]


def test_the_box_grows_with_its_text_up_to_a_limit(box: MessageBox) -> None:
    one = box.edit.height()
    box.edit.setPlainText("a\nb\nc")
    three = box.edit.height()
    box.edit.setPlainText("\n".join("a" * 40))
    most = box.edit.height()
    assert one < three < most
    line = box.edit.fontMetrics().lineSpacing()
    assert most - one == (MOST_LINES - 1) * line


def test_everything_has_a_name_and_tab_goes_from_text_to_buttons(box: MessageBox) -> None:
    for part in (box.edit, box.send, box.more):
        assert part.accessibleName().endswith("slot 0")
        assert part.toolTip()
    QTest.keyClicks(box.edit, "hello")
    QTest.keyClick(box.edit, Qt.Key.Key_Tab)
    assert box.send.hasFocus()


class Paintings(QObject):
    """Counts how often a widget is painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__()
        self.n = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Count."""
        self.n += event.type() == QEvent.Type.Paint
        return super().eventFilter(watched, event)


def test_the_words_in_an_empty_box_are_painted_anew_when_they_change(qtbot: QtBot, box: MessageBox) -> None:
    box.show_state(BoxState("The run goes on in other slots."))
    box.more.setFocus()  # a cursor that blinks would paint the box, too
    qtbot.wait(50)
    paintings = Paintings(box.edit.viewport())
    box.show_state(BoxState(invitation="Go on, as plain text"))
    qtbot.waitUntil(lambda: paintings.n > 0, timeout=1_000)
    assert box.edit.placeholderText() == "Go on, as plain text"
