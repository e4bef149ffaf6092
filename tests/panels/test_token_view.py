"""The painted token view: grows without laying out again, follows the end, selects and copies."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from draftscope.base.theme import DARK, LIGHT
from draftscope.engine.events import Origin
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.token_flow import TokenFlow
from draftscope.panels.token_view import TokenView
from draftscope.panels.transcript import rejected_text
from draftscope.trace.pieces import PieceTable
from tests.panels.test_token_flow import tokens

# The offscreen platform warns that it has no window manager to tell sizes to.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def view(qtbot: QtBot) -> Iterator[TokenView]:
    """A view of 400 by 200 pixels on an empty flow."""
    shown = TokenView(TokenFlow(PieceTable({1: b" sun", 2: b" moon", 3: b"\n"})), DARK, PaintClock())
    qtbot.addWidget(shown)
    shown.resize(400, 200)
    shown.show()
    yield shown
    shown.close()


def feed(view: TokenView, n: int, *, first_round: int = 0) -> None:
    """Append rounds of an accepted, a rejected and a sampled token."""
    for number in range(first_round, first_round + n):
        records = tokens((Origin.ACCEPTED, 1, 1, -1), (Origin.REJECTED, 1, 2, 2), (Origin.SAMPLED, 2, 0, -1))
        records["round"] = number
        view.flow.append(records)
    view.sync()


def centre_of(view: TokenView, token: int) -> QPoint:
    """A point of the viewport inside a token that is in view."""
    size = view.viewport().size()
    points = (QPoint(x, y) for y in range(2, size.height(), 4) for x in range(2, size.width(), 3))
    return next(point for point in points if view.token_at(point) == token)


def test_new_tokens_lay_out_only_themselves(view: TokenView, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(view, 200)
    appended: list[int] = []
    original = view.transcript.layout.append

    def append(token: int, text: str, scale: float = 1.0) -> int:
        appended.append(token)
        return original(token, text, scale)

    monkeypatch.setattr(view.transcript.layout, "append", append)
    feed(view, 1, first_round=200)
    assert appended == [600, 601, 602]


def test_the_view_follows_the_end_until_the_reader_scrolls_up(view: TokenView) -> None:
    feed(view, 200)
    bar = view.verticalScrollBar()
    assert bar.maximum() > 0
    assert bar.value() == bar.maximum()
    bar.setValue(10)
    feed(view, 100, first_round=200)
    assert bar.value() == 10
    assert not view.is_following
    bar.setValue(bar.maximum())
    feed(view, 100, first_round=300)
    assert bar.value() == bar.maximum()


def test_rejected_tokens_can_be_hidden(view: TokenView) -> None:
    feed(view, 60)
    n_with = view.n_lines
    view.set_shows_rejected(False)
    assert view.n_lines < n_with
    assert view.transcript.layout.line_of(1) is None
    view.set_shows_rejected(True)
    assert view.n_lines == n_with


def test_a_rejected_token_stays_on_its_line_and_small() -> None:
    assert rejected_text("\n\n        self") == "\\n\\n self"


def test_a_click_selects_the_round_of_the_token(view: TokenView, qtbot: QtBot) -> None:
    feed(view, 4)
    with qtbot.waitSignal(view.round_clicked) as clicked:
        QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, centre_of(view, 6))
    assert clicked.args == [2]


def test_arrow_keys_go_through_the_rounds(view: TokenView, qtbot: QtBot) -> None:
    feed(view, 4)
    chosen: list[int] = []
    view.round_clicked.connect(chosen.append)
    view.round_clicked.connect(view.set_selected_round)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Left):
        QTest.keyClick(view, key)
    assert chosen == [0, 1, 0, 0]


def test_copying_leaves_out_what_was_rejected(view: TokenView, qtbot: QtBot) -> None:
    feed(view, 2)
    QTest.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == " sun moon sun moon"


def test_an_accepted_token_stands_on_its_wash_and_a_sampled_one_on_the_panel(view: TokenView) -> None:
    feed(view, 1)
    picture = view.viewport().grab().toImage()
    assert colours_around(view, picture, 0) == QColor(DARK.accepted_wash(1)).name()
    assert colours_around(view, picture, 2) == QColor(DARK.panel).name()


def test_the_selected_round_is_marked_and_still_shows_what_was_accepted(view: TokenView) -> None:
    feed(view, 3)
    view.set_selected_round(1)
    picture = view.viewport().grab().toImage()
    assert colours_around(view, picture, 5) == QColor(DARK.selection_wash).name()
    assert colours_around(view, picture, 2) == QColor(DARK.panel).name()
    assert colours_around(view, picture, 3) == QColor(DARK.accepted_wash(1)).name()


def test_a_theme_change_repaints(view: TokenView) -> None:
    feed(view, 1)
    view.set_theme(LIGHT)
    picture = view.viewport().grab().toImage()
    assert colours_around(view, picture, 2) == QColor(LIGHT.panel).name()


def test_text_that_needs_more_columns_is_wrapped_again(view: TokenView) -> None:
    feed(view, 60)
    n_before = view.n_lines
    view.resize(250, 200)
    assert view.n_lines > n_before


def test_what_is_read_stays_in_view_when_the_width_changes(view: TokenView) -> None:
    feed(view, 300)
    view.set_selected_round(100)
    assert not view.is_following
    view.resize(250, 200)
    assert centre_of(view, 300) is not None
    view.set_selected_round(None)
    view.resize(500, 200)
    assert centre_of(view, 300) is not None


def test_twenty_thousand_tokens_grow_within_a_frame(view: TokenView) -> None:
    feed(view, 6_600)
    started = time.perf_counter()
    for number in range(10):
        feed(view, 1, first_round=6_600 + number)
    assert (time.perf_counter() - started) / 10 < 0.030


def colours_around(view: TokenView, picture: object, token: int) -> str:
    """The commonest colour on the pixels of a token."""
    size = view.viewport().size()
    counts: dict[str, int] = {}
    for y in range(0, size.height(), 2):
        for x in range(size.width()):
            if view.token_at(QPoint(x, y)) == token:
                name = picture.pixelColor(x, y).name()  # type: ignore[attr-defined]
                counts[name] = counts.get(name, 0) + 1
    return max(counts, key=lambda name: counts[name])
