"""The compare view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtWidgets import QApplication, QTreeWidget
from pytestqt.qtbot import QtBot

from draftscope.panels.tips import plain_tip
from draftscope.session.comparing import Side
from draftscope.window.compare_dialog import CompareDialog
from draftscope.window.compare_window import CompareWindow
from draftscope.window.main_window import MainWindow
from draftscope.window.ratio_delegate import place
from tests.cli.test_diff import write
from tests.window.test_traces import show


def compared(qtbot: QtBot, window: MainWindow, ours: Side, theirs: Side) -> CompareWindow:
    """A compare view with its result."""
    view = CompareWindow(ours, theirs, window.appearance, window)
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(lambda: view.comparison is not None, timeout=10_000)
    return view


def rows(tree: QTreeWidget) -> list[list[str]]:
    """All rows as texts."""
    items = (tree.topLevelItem(number) for number in range(tree.topLevelItemCount()))
    return [[item.text(column) for column in range(tree.columnCount())] for item in items if item is not None]


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return write(tmp_path / "before.dscope")


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    return write(tmp_path / "slower.dscope", 4.0, program="another")


@pytest.fixture
def view(qtbot: QtBot, window: MainWindow, before: Path, slower: Path) -> Iterator[CompareWindow]:
    return compared(qtbot, window, Side((before,)), Side((slower,)))


def test_differences_outputs_and_figures_are_shown(view: CompareWindow) -> None:
    assert rows(view.differences) == [["build", "program", "test", "another"]]
    assert "token for token" in view._outputs.text()
    figures = {row[0]: row for row in rows(view.figures)}
    speed = figures["tokens per second, all slots"]
    assert speed[3] == "0.250" and speed[6] == "lower: worse"
    assert "Speed" in figures and "Round times" in figures
    assert "acceptance" not in figures  # it is equal
    view.shows_equal.setChecked(True)
    assert "acceptance" in {row[0] for row in rows(view.figures)}


def test_equal_runs_say_so(qtbot: QtBot, window: MainWindow, before: Path, tmp_path: Path) -> None:
    view = compared(qtbot, window, Side((before,)), Side((write(tmp_path / "again.dscope"),)))
    assert rows(view.differences)[0][0] == "nothing"
    assert [row[0] for row in rows(view.figures)] == ["All figures are exactly equal."]


def test_the_trace_that_is_shown_is_compared_with_a_file(
    qtbot: QtBot, window: MainWindow, before: Path, slower: Path
) -> None:
    show(qtbot, window, before)
    window.actions_by_id["compare"].trigger()
    dialog = window.findChild(CompareDialog)
    assert dialog is not None
    assert dialog.uses_shown.isChecked()
    assert dialog.note.text() == "Add a trace to B."
    assert not dialog.compare_button.isEnabled()
    dialog.theirs.add([slower, slower])
    assert "compared in pairs" in dialog.note.text()
    dialog.theirs.clear()
    dialog.theirs.add([slower])
    dialog.accept()
    view = window.findChild(CompareWindow)
    assert view is not None
    qtbot.waitUntil(lambda: view.comparison is not None, timeout=10_000)
    assert "the run that was shown" in view._names.text()
    assert "lower: worse" in {row[6] for row in rows(view.figures)}
    view.close()


def test_a_file_that_cannot_be_read_is_told_of(qtbot: QtBot, window: MainWindow, before: Path, tmp_path: Path) -> None:
    view = CompareWindow(Side((before,)), Side((tmp_path / "gone.dscope",)), window.appearance, window)
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(lambda: "gone.dscope" in view._wait.text(), timeout=10_000)
    assert view.comparison is None


def test_closing_while_it_reads_waits_for_the_thread(window: MainWindow, before: Path, slower: Path) -> None:
    view = CompareWindow(Side((before,) * 8), Side((slower,) * 8), window.appearance, window)
    view.show()
    view.reject()
    assert not view._comparing._thread.is_alive()
    view.deleteLater()


def test_rows_are_painted_in_both_themes(view: CompareWindow, window: MainWindow) -> None:
    for name in ("light", "dark"):
        window.actions_by_id[f"theme_{name}"].trigger()
        QApplication.processEvents()
        assert not view.figures.grab().isNull()
        assert len(rows(view.figures)) > 5
    window.actions_by_id["theme_system"].trigger()


def test_a_ratio_of_one_lies_in_the_middle_and_far_ones_at_the_ends() -> None:
    room = QRectF(0, 0, 100, 10)
    assert place(1.0, room) == 50
    assert place(2.0, room) == place(9.0, room) == 100
    assert place(0.5, room) == place(0.0, room) == 0
    assert place(2**0.5, room) == pytest.approx(75)


def test_markup_in_a_file_is_not_rendered_in_the_tooltips_of_differences(
    qtbot: QtBot, window: MainWindow, before: Path, tmp_path: Path
) -> None:
    markup = "<img src='http://127.0.0.1/x.png'>"
    view = compared(qtbot, window, Side((before,)), Side((write(tmp_path / "other.dscope", program=markup),)))
    item = view.differences.topLevelItem(0)
    assert item is not None and item.text(3) == markup
    assert item.toolTip(3) == plain_tip(markup) != markup
