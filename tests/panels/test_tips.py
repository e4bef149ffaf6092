"""Tooltips of what comes from files: markup in them is shown and not rendered."""

from __future__ import annotations

import pytest
from PySide6.QtGui import Qt, QTextDocument
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from draftscope.base.theme import DARK
from draftscope.engine.protocol import LogLine
from draftscope.panels.checkpoint_words import Badge
from draftscope.panels.fact_list import Fact, FactList, Section
from draftscope.panels.log_model import LogModel
from draftscope.panels.mechanism_badges import MechanismBadges
from draftscope.panels.tips import plain_tip

MARKUP = ("<b>x</b>", "<img src='http://127.0.0.1/x.png'>", "a < b\n<i>c</i>", "<!-- --> &amp; <a href='x'>y</a>")


def shown(tip: str) -> str:
    """What Qt's tooltip shows of it."""
    if not Qt.mightBeRichText(tip):
        return tip
    document = QTextDocument()
    document.setHtml(tip)
    return document.toPlainText()


@pytest.mark.parametrize("text", [*MARKUP, "", "plain", "a < b & c", "two\nlines", "&lt;"])
def test_a_tooltip_shows_exactly_the_text(text: str) -> None:
    assert shown(plain_tip(text)) == text


@pytest.mark.parametrize("text", ["", "plain", "a < b & c", "two\nlines"])
def test_a_text_without_markup_stays_as_it_is(text: str) -> None:
    assert plain_tip(text) == text


def test_a_fact_does_not_render_what_a_file_says(qtbot: QtBot) -> None:
    facts = FactList(DARK)
    qtbot.addWidget(facts)
    facts.show_sections([Section("Model", (Fact("File", "m.gguf", MARKUP[1]),))])
    tips = [label.toolTip() for label in facts.findChildren(QLabel) if label.toolTip()]
    assert len(tips) == 2
    assert {shown(tip) for tip in tips} == {MARKUP[1]}


def test_a_badge_does_not_render_why_its_way_back_was_taken(qtbot: QtBot) -> None:
    badges = MechanismBadges(DARK)
    qtbot.addWidget(badges)
    badges.show_badges([Badge("target", "cow", "", MARKUP[0])])
    assert [shown(label.toolTip()) for label in badges.findChildren(QLabel)] == [MARKUP[0]]


def test_a_line_of_the_log_is_not_rendered() -> None:
    model = LogModel()
    model.append([LogLine("info", MARKUP[0], 0)])
    index = model.index(0, 0)
    assert model.data(index, Qt.ItemDataRole.DisplayRole) == MARKUP[0]
    assert shown(model.data(index, Qt.ItemDataRole.ToolTipRole)) == MARKUP[0]
