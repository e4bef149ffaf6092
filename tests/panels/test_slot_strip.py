"""The line under a card's header: words that fit, and whole ones in the tooltip."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from draftscope.base.theme import DARK
from draftscope.panels.slot_strip import SlotStrip, held_words
from draftscope.session.slots import HeldSlot

LONG = HeldSlot(1_845, "", 1_300, 1_290, "restored")


@pytest.mark.parametrize(
    ("held", "is_running", "words"),
    [
        (None, False, "Holds nothing yet"),
        (None, True, ""),
        (HeldSlot(0, "cleared"), False, "Holds nothing, cleared"),
        (HeldSlot(1), False, "Holds 1 token"),
        (HeldSlot(30, "", 30, 0, "none"), True, ""),
        (HeldSlot(30, "", 30, 0, "turned_off"), True, "Nothing of the prompt reused: reuse was turned off"),
        (LONG, True, "1,290 of 1,300 prompt tokens reused: a prompt checkpoint was restored"),
        (
            LONG,
            False,
            "Holds 1,845 tokens · 1,290 of 1,300 prompt tokens reused: a prompt checkpoint was restored",
        ),
        (HeldSlot(12, "restored from kept.slot"), False, "Holds 12 tokens, restored from kept.slot"),
    ],
)
def test_what_a_slot_holds_is_said_in_words(held: HeldSlot | None, is_running: bool, words: str) -> None:
    assert held_words(held, is_running=is_running) == words


def test_words_that_do_not_fit_are_cut_and_whole_in_the_tooltip(qtbot: QtBot) -> None:
    strip = SlotStrip(0, DARK)
    qtbot.addWidget(strip)
    strip.resize(260, 30)
    strip.show()
    strip.show_held(LONG, is_running=False)
    label = strip.findChild(QLabel)
    assert isinstance(label, QLabel)
    assert label.text().endswith("…")
    assert label.toolTip() == label.accessibleName() == strip.text
    strip.resize(1_200, 30)
    assert label.text() == strip.text
    assert label.toolTip() == ""
    strip.close()
