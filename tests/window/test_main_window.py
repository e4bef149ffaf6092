"""The window as its user meets it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDockWidget,
    QLineEdit,
    QPushButton,
    QWidget,
)
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from draftscope.base.theme import DARK, LIGHT
from draftscope.engine.client import WorkerClient
from draftscope.engine.events import Kind
from draftscope.engine.protocol import CheckpointMode
from draftscope.panels.checkpoints import FALLBACKS, CheckpointsPanel
from draftscope.session.state import SessionState
from draftscope.window.main_window import MainWindow
from draftscope.window.notices import Notice
from draftscope.window.toolbar import ICONS_ONLY, WITH_TEXT
from draftscope.window.truth_strip import measured
from tests.window.conftest import WindowMaker, load, reach, run_for


def button(notice: Notice, text: str) -> QPushButton:
    """A button of a notice."""
    return next(found for found in notice.findChildren(QPushButton) if found.text() == text)


def pid_of(window: MainWindow) -> int:
    """Process id of the window's engine."""
    client = window.session._client
    assert isinstance(client, WorkerClient)
    return client.pid


def test_a_first_start_shows_one_sentence_and_two_buttons(window: MainWindow) -> None:
    assert window.middle.currentWidget() is window.first_run
    assert [b.text() for b in window.first_run.findChildren(QPushButton)] == ["Run the demo", "Open a GGUF…"]
    assert window.focusWidget() is window.first_run.demo


def test_one_click_runs_the_demo_and_fills_every_panel(qtbot: QtBot, window: MainWindow) -> None:
    QTest.mouseClick(window.first_run.demo, Qt.MouseButton.LeftButton)
    assert window.session.state is SessionState.LOADING
    reach(qtbot, window, SessionState.READY)
    assert window.middle.currentWidget() is window.output
    assert set(window.session.results) == {0, 1, 2, 3}
    assert window.controls.temperature.value() == 0.5
    window.clock.tick()
    for panel in window.panels:
        if panel.id != "log":  # the scripted engine logs nothing
            if panel.id != "output":
                window.docks.bring_forward(panel.id)
            QApplication.processEvents()
            window.clock.tick()
            assert not panel.is_stale, panel.id
            assert not panel.empty.isVisible(), panel.id
    headline = window.docks.dock("acceptance").titleBarWidget().headline  # type: ignore[attr-defined]
    assert "tokens per round" in headline


def test_the_strip_tells_state_round_speed_and_records(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 100)
    window.strip.tell()
    doing, measured = window.strip._doing.text(), window.strip._measured.text()
    assert doing.startswith("running · ")
    assert " rounds · " in doing
    assert "tok/s over 4 slots" in doing
    assert "dropped 0" in measured
    assert f"records {window.session.meter.n_records:,}" in measured


def test_a_load_shows_its_progress_and_can_be_cancelled(qtbot: QtBot, window: MainWindow) -> None:
    window.commands.load_file("fake:slow-load")
    notice = window._load_notice
    qtbot.waitUntil(lambda: notice.isVisible() and window.session.progress[0] > 0)
    assert "Loading fake:slow-load: weights" in notice.text
    QTest.mouseClick(notice.cancel, Qt.MouseButton.LeftButton)
    reach(qtbot, window, SessionState.NO_MODEL)
    assert not notice.isVisible()


def test_a_refused_load_is_told_above_the_panels_and_can_be_dismissed(qtbot: QtBot, window: MainWindow) -> None:
    window.commands.load_file("fake:fail-load")
    qtbot.waitUntil(lambda: bool(window.notices.notices))
    notice = window.notices.notices[0]
    assert notice.message
    QTest.mouseClick(button(notice, "Dismiss"), Qt.MouseButton.LeftButton)
    assert not list(window.notices.notices)


def test_a_fallback_is_told_once_and_leads_to_the_panel_that_lists_them(qtbot: QtBot, window: MainWindow) -> None:
    window.setup.set_checkpoint(CheckpointMode.DEVICE)
    load(qtbot, window, "fake:hybrid")
    window.docks.dock("log").raise_()
    run_for(qtbot, window, 8_000)
    assert len(window.session.trace.kind(Kind.FALLBACK)) > 1
    told = [notice.message for notice in window.notices.notices]
    assert told == ["There was no room on the device for a checkpoint, so host memory is used."]
    QTest.mouseClick(button(window.notices.notices[0], "Show all"), Qt.MouseButton.LeftButton)
    panel = next(panel for panel in window.panels if panel.id == "checkpoints")
    assert not window.docks.dock("checkpoints").visibleRegion().isEmpty()
    assert isinstance(panel, CheckpointsPanel)
    assert panel.tabs.currentIndex() == FALLBACKS


def test_a_killed_engine_leaves_window_and_records_and_starts_again(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 200)
    pid = pid_of(window)
    os.kill(pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: bool(window.notices.notices), timeout=1_000)
    n_records = window.session.trace.n_records
    notice = window.notices.notices[0]
    assert "SIGKILL" in notice.message
    assert window.isVisible()
    assert n_records >= 200
    reach(qtbot, window, SessionState.READY)
    assert pid_of(window) != pid
    assert window.session.trace.n_records == n_records
    assert window.middle.currentWidget() is window.output
    assert list(window.notices.notices) == [notice]
    QTest.mouseClick(button(notice, "Run again"), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.session.state is SessionState.RUNNING)
    assert not list(window.notices.notices)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)


def test_run_again_at_once_after_a_death_waits_for_the_engine(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 50)
    os.kill(pid_of(window), signal.SIGKILL)
    qtbot.waitUntil(lambda: bool(window.notices.notices), timeout=1_000)
    assert window.session.state is SessionState.LOADING
    QTest.mouseClick(button(window.notices.notices[0], "Run again"), Qt.MouseButton.LeftButton)
    reach(qtbot, window, SessionState.RUNNING)


def test_changing_the_slots_makes_new_contexts_at_the_next_run(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    window.controls.slots.setValue(2)
    run_for(qtbot, window, 50)
    assert window.session.model is not None
    assert window.session.model.n_slots == 2
    assert {task.slot for task in window.session.tasks} == {0, 1}


def test_the_checkpoint_combo_shows_what_was_granted(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    assert window.controls.checkpoint.currentText() == "auto · rollback"
    assert "Granted: 4 of 4" in window.controls.slots.toolTip()
    load(qtbot, window, "fake:hybrid")
    assert window.controls.checkpoint.currentText() == "auto · cow"


def test_hidden_panels_are_not_drawn(qtbot: QtBot, window: MainWindow) -> None:
    window.docks.dock("timeline").hide()
    window.docks.dock("engine").raise_()
    qtbot.wait(20)
    load(qtbot, window)
    run_for(qtbot, window, 100)
    window.clock.tick()
    panels = {panel.id: panel for panel in window.panels}
    assert panels["timeline"].is_stale
    assert panels["log"].is_stale
    window.docks.toggle("timeline")
    qtbot.waitUntil(lambda: window.session.meter.draw_ms.get("timeline", 0.0) > 0)


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_layout_and_settings_are_there_at_the_next_start(qtbot: QtBot, make: WindowMaker) -> None:
    window = make()
    window.docks.dock("timeline").hide()
    window.docks.dock("log").setFloating(True)
    window.controls.slots.setValue(3)
    window.resize(1100, 700)
    window.close()
    again = make(width=1100, height=700)
    assert again.docks.dock("timeline").isHidden()
    assert again.docks.dock("log").isFloating()
    assert again.controls.slots.value() == 3
    again.actions_by_id["reset_layout"].trigger()
    assert not again.docks.dock("timeline").isHidden()
    assert not again.docks.dock("log").isFloating()


def test_a_closed_panel_comes_back_from_the_menu(qtbot: QtBot, window: MainWindow) -> None:
    for id in ("acceptance", "timeline", "checkpoints", "engine", "log"):
        window.docks.dock(id).close()
        window.clock.tick()
        assert not window.actions_by_id[f"panel_{id}"].isChecked()
        window.actions_by_id[f"panel_{id}"].trigger()
        window.clock.tick()
        assert window.docks.dock(id).isVisible()
        assert window.actions_by_id[f"panel_{id}"].isChecked()


def test_dark_and_light_reach_every_part(qapp: QApplication, window: MainWindow) -> None:
    for choice, theme in (("dark", DARK), ("light", LIGHT)):
        window.commands.choose_theme(choice)
        assert window.appearance.theme is theme
        assert qapp.palette().window().color().name() == theme.window
        assert all(panel.theme is theme for panel in window.panels)
        image = window.grab().toImage()
        assert abs(image.pixelColor(5, 5).lightness() - (30 if theme.is_dark else 245)) < 40
    assert window.settings.text("window/theme") == "light"


def drop(window: MainWindow, *paths: Path) -> None:
    """Drop files onto the window."""
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    event = QDropEvent(
        QPointF(10, 10),
        Qt.DropAction.CopyAction,
        mime,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    window.dropEvent(event)


def test_a_dropped_model_is_loaded_and_remembered(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    drop(window, model)
    reach(qtbot, window, SessionState.READY)
    assert window.settings.recent_files[0] == str(model)
    assert window.windowTitle().startswith("model.gguf")


@pytest.mark.parametrize(
    ("name", "words"),
    [("notes.txt", "neither a GGUF file nor a trace"), ("gone.gguf", "There is no file")],
)
def test_a_dropped_file_that_cannot_be_opened_says_why(
    window: MainWindow, tmp_path: Path, name: str, words: str
) -> None:
    path = tmp_path / name
    if not name.startswith("gone"):
        path.write_bytes(b"something")
    drop(window, path)
    assert words in window.notices.notices[0].message
    assert window.session.state is SessionState.NO_MODEL


def test_notices_are_few_and_the_same_one_comes_once(window: MainWindow) -> None:
    for text in ("a", "b", "b", "c", "d"):
        window.notices.show_notice(Notice(text))
    assert [notice.message for notice in window.notices.notices] == ["d", "c", "b"]


def test_notices_come_after_others_were_dismissed(qtbot: QtBot, window: MainWindow) -> None:
    area = window.notices
    for text in ("a", "b", "c", "d"):
        area.show_notice(Notice(text))
    last = area.notices[0]
    QTest.mouseClick(button(last, "Dismiss"), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not isValid(last))
    for text in ("e", "f"):
        area.show_notice(Notice(text))
    assert [notice.message for notice in area.notices] == ["f", "e", "c"]


def test_opening_a_model_takes_away_what_was_said_of_the_one_before(qtbot: QtBot, window: MainWindow) -> None:
    window.commands.load_file("fake:fail-load")
    qtbot.waitUntil(lambda: bool(window.notices.notices))
    load(qtbot, window)
    assert not window.notices.notices


def test_a_new_model_starts_without_records(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 50)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)
    assert window.session.meter.n_records > 0
    window.commands.load_file("fake:")
    qtbot.waitUntil(lambda: window.session.trace.n_records == 0)
    assert "records 0 " in measured(window.session)


def test_a_narrow_window_still_shows_every_control_of_its_toolbar(qtbot: QtBot, window: MainWindow) -> None:
    window.resize(1280, 700)
    qtbot.waitUntil(lambda: window.toolbar.toolButtonStyle() == WITH_TEXT)
    for width in (1200, window.minimumWidth()):
        window.resize(width, 700)
        qtbot.waitUntil(lambda wide=width: window.toolbar.width() == wide)  # type: ignore[misc]
        qtbot.waitUntil(lambda: window.toolbar.toolButtonStyle() == ICONS_ONLY)
        for id in ("open", "demo", "prompts", "run", "stop", "export"):
            qtbot.waitUntil(window.toolbar.widgetForAction(window.actions_by_id[id]).isVisible)
    window.resize(1280, 700)
    qtbot.waitUntil(lambda: window.toolbar.toolButtonStyle() == WITH_TEXT)


def test_the_palette_puts_names_before_explanations(window: MainWindow) -> None:
    window.actions_by_id["palette"].trigger()
    box = window.palette_box
    box.line.setText("dark")
    assert box.list.item(0).text() == "View: Dark colours"
    assert box.list.count() > 1
    box.reject()


def test_closing_ends_the_engine(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 50)
    pid = pid_of(window)
    window.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not window.clock._timer.isActive()


def controls_of(window: MainWindow) -> list[QWidget]:
    """Every control of the window that a user may want to use and that can be seen."""
    behind = {dock for dock in window.findChildren(QDockWidget) if dock.visibleRegion().isEmpty()}
    kinds = (QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit)
    return [
        widget
        for kind in kinds
        for widget in window.findChildren(kind)
        if widget.isVisible()
        and not widget.objectName().startswith("qt_")
        and not isinstance(widget.parent(), kinds)
        and not any(dock.isAncestorOf(widget) for dock in behind)
    ]


def test_no_control_is_clipped_at_1280_by_800(qtbot: QtBot, window: MainWindow) -> None:
    QTest.mouseClick(window.first_run.demo, Qt.MouseButton.LeftButton)
    reach(qtbot, window, SessionState.READY)
    qtbot.wait(50)
    assert window.size().width() == 1280
    assert window.size().height() == 800
    for action in window.toolbar.actions():
        widget = window.toolbar.widgetForAction(action)
        assert widget.isVisible(), action.text()
        assert widget.geometry().right() <= window.toolbar.width(), action.text()
        if not action.isSeparator():
            assert widget.width() >= widget.minimumSizeHint().width(), widget.accessibleName()
    for control in controls_of(window):
        top_left = control.mapTo(window, QPoint(0, 0))
        assert window.rect().contains(top_left), control.accessibleName() or control.toolTip()
        assert window.rect().contains(top_left + QPoint(control.width() - 1, control.height() - 1))


def test_every_control_has_an_accessible_name_or_a_text(qtbot: QtBot, window: MainWindow) -> None:
    QTest.mouseClick(window.first_run.demo, Qt.MouseButton.LeftButton)
    reach(qtbot, window, SessionState.READY)
    for control in controls_of(window):
        text = control.text() if isinstance(control, QAbstractButton) else ""
        assert control.accessibleName() or text, (type(control).__name__, control.objectName(), control.parent())


def test_the_keyboard_reaches_every_control_of_the_toolbar(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    wanted = {
        widget.accessibleName()
        for action in window.toolbar.actions()
        if (widget := window.toolbar.widgetForAction(action)).accessibleName() and widget.isEnabled()
    }
    assert {"Open", "Run", "Slots", "Temperature"} <= wanted
    reached = set()
    following: QWidget | None = window.nextInFocusChain()
    while following is not None and following is not window:
        if following.focusPolicy() & Qt.FocusPolicy.TabFocus and following.isVisible() and following.isEnabled():
            reached.add(following.accessibleName())
        following = following.nextInFocusChain()
    assert wanted <= reached


def test_selecting_rounds_by_keyboard(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 100)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)
    last = int(window.session.trace.kind(Kind.ROUND)["round"].max())
    window.actions_by_id["next_round"].trigger()
    assert window.session.view.selected_round == last
    window.actions_by_id["previous_round"].trigger()
    assert window.session.view.selected_round == last - 1
    window.clock.tick()
    window.actions_by_id["deselect"].trigger()
    assert window.session.view.selected_round is None


def test_rejected_tokens_stay_hidden_at_the_next_start(make: WindowMaker) -> None:
    window = make()
    window.actions_by_id["show_rejected"].trigger()
    assert not window.session.view.show_rejected
    window.close()
    assert not make().session.view.show_rejected
