"""Saved traces in the window: opened in every way, beside the live run, and back to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from draftscope.engine.events import Kind
from draftscope.engine.probes import ProbeLevel
from draftscope.panels.panel import Panel
from draftscope.panels.restore_diffs import RestoreDiffsPanel
from draftscope.session.state import SessionState
from draftscope.trace.tracefile import TraceWriter
from draftscope.window.main_window import MainWindow
from draftscope.window.open_dialog import OpenDialog
from tests.session.test_opened_traces import CLOCK, header, write
from tests.trace.compared import in_start_order
from tests.trace.export.made_probes import made_arrays
from tests.trace.synthetic import PIECES, make_records
from tests.window.conftest import load, reach, run_for


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "run.dscope", clock=CLOCK)


def show(qtbot: QtBot, window: MainWindow, path: Path) -> None:
    """Open a trace and wait until it is shown."""
    window.open_file(path)
    shown(qtbot, window)


def shown(qtbot: QtBot, window: MainWindow) -> None:
    """Wait until a trace is shown."""
    qtbot.waitUntil(lambda: window.traces.opened is not None, timeout=10_000)
    window.clock.tick()


def drop(window: MainWindow, *paths: Path) -> None:
    """Drop files onto the window."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, data, buttons, keys))


def panel(window: MainWindow, id: str) -> Panel:
    """The panel that is on the screen."""
    found = window.middle.currentWidget() if id == "output" else window.docks.bring_forward(id)
    QApplication.processEvents()
    window.clock.tick()
    assert isinstance(found, Panel)
    return found


def test_a_trace_fills_every_panel_without_engine_and_model(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    show(qtbot, window, trace)
    assert window.session.state is SessionState.NO_MODEL
    for id in ("output", "acceptance", "timeline", "checkpoints", "engine", "log"):
        found = panel(window, id)
        assert found.session is window.traces.opened, id
        assert not found.empty.isVisible(), id
        assert not found.is_stale, id


def test_title_bar_and_strip_say_that_it_is_a_saved_trace(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    show(qtbot, window, trace)
    assert window.windowTitle() == "run.dscope (saved trace) · Draftscope"
    assert window.traces.bar.isVisible()
    assert window.traces.bar.accessibleName() == "Saved trace run.dscope"
    assert window.strip._doing.text().startswith("saved trace of tiny.gguf · 40 rounds")
    assert "missing 0" in window.strip._measured.text()


def test_what_needs_an_engine_says_why_it_cannot_be_done(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    show(qtbot, window, trace)
    for id in ("run", "run_again", "prompts", "stop", "write", "restart", "go_on", "save_slot", "clear_slot"):
        action = window.actions_by_id[id]
        assert not action.isEnabled(), id
        assert "saved trace" in action.toolTip(), id
    assert not window.controls.slots.isEnabled()
    assert "saved trace" in window.controls.slots.toolTip()
    for id in ("open", "demo", "report", "compare", "back_to_live", "next_round", "show_rejected"):
        assert window.actions_by_id[id].isEnabled(), id


def test_back_shows_the_live_run_as_it_was(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 200)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)
    window.session.view.select_round(1)
    before = window.session.trace.n_records
    live = panel(window, "timeline")
    show(qtbot, window, trace)
    assert panel(window, "timeline") is not live
    window.actions_by_id["next_round"].trigger()
    assert window.session.view.selected_round == 1  # the trace has a selection of its own
    window.actions_by_id["back_to_live"].trigger()
    window.clock.tick()
    assert panel(window, "timeline") is live
    assert window.middle.currentWidget() is window.output
    assert window.session.trace.n_records == before
    assert window.session.view.selected_round == 1
    assert window.traces.opened is None and not window.traces.bar.isVisible()
    assert "saved" not in window.windowTitle()
    assert window.actions_by_id["run"].isEnabled()


def test_a_live_run_goes_on_behind_a_trace(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    load(qtbot, window)
    run_for(qtbot, window, 100)
    show(qtbot, window, trace)
    n_records = window.session.trace.n_records
    qtbot.waitUntil(lambda: window.session.trace.n_records > n_records + 200, timeout=10_000)
    assert window.traces.opened is not None
    assert len(window.traces.opened.trace.kind(Kind.ROUND)) == 160


def test_the_demo_leaves_the_trace(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    show(qtbot, window, trace)
    window.actions_by_id["demo"].trigger()
    assert window.traces.opened is None
    reach(qtbot, window, SessionState.READY)
    assert panel(window, "output") is window.output


def test_traces_are_dropped_and_two_of_them_are_compared(
    qtbot: QtBot, window: MainWindow, trace: Path, tmp_path: Path
) -> None:
    drop(window, trace)
    shown(qtbot, window)
    other = write(tmp_path / "other.dscope")
    drop(window, trace, other)
    from draftscope.window.compare_dialog import CompareDialog

    dialog = window.findChild(CompareDialog)
    assert dialog is not None
    assert (dialog.ours.paths, dialog.theirs.paths) == ([trace], [other])
    assert dialog.compare_button.isEnabled()
    dialog.reject()


def test_the_open_dialog_takes_a_trace_and_needs_no_settings_for_it(
    qtbot: QtBot, window: MainWindow, trace: Path
) -> None:
    window.commands.open_model(trace)
    dialog = window.findChild(OpenDialog)
    assert dialog is not None
    assert dialog.open_button.isEnabled()
    assert not dialog.n_ctx.isEnabled()
    dialog.accept()
    shown(qtbot, window)


def test_recent_files_have_traces_too(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    show(qtbot, window, trace)
    assert window.settings.recent_files[0] == str(trace)
    window.traces.back()
    window._open_recent(str(trace))
    shown(qtbot, window)


def test_another_trace_takes_the_place_of_the_one_before(
    qtbot: QtBot, window: MainWindow, trace: Path, tmp_path: Path
) -> None:
    show(qtbot, window, trace)
    first = window.traces.opened
    window.open_file(write(tmp_path / "second.dscope"))
    qtbot.waitUntil(lambda: window.traces.opened is not first, timeout=10_000)
    assert window.windowTitle().startswith("second.dscope")
    assert len(window.traces.panels) == 1 + len(window.docks._stacks)


def test_a_file_that_only_has_the_name_of_a_trace_is_told_of(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    path = tmp_path / "letter.dscope"
    path.write_text("Dear reader")
    drop(window, path)
    qtbot.waitUntil(lambda: len(window.notices.notices) > 0, timeout=10_000)
    assert "letter.dscope" in window.notices.notices[0].message
    assert window.traces.opened is None
    assert not window.traces.progress.isVisible()


def test_a_damaged_trace_says_what_is_missing(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) * 9 // 10])
    show(qtbot, window, trace)
    assert window.traces.opened is not None
    assert window.traces.opened.missing
    assert window.traces.bar._missing.isVisible()


def test_colours_change_in_the_trace_as_well(qtbot: QtBot, window: MainWindow, trace: Path) -> None:
    show(qtbot, window, trace)
    for name in ("light", "dark"):
        window.actions_by_id[f"theme_{name}"].trigger()
        assert {found.theme.name for found in window.traces.panels} == {name}
    window.actions_by_id["theme_system"].trigger()


def test_a_report_is_written_of_what_is_shown(qtbot: QtBot, window: MainWindow, trace: Path, tmp_path: Path) -> None:
    show(qtbot, window, trace)
    from draftscope.window.report_dialog import ReportDialog

    window.actions_by_id["report"].trigger()
    dialog = window.findChild(ReportDialog)
    assert dialog is not None
    out = tmp_path / "report.html"
    dialog.path.setText(str(tmp_path / "nowhere" / "report.html"))
    assert not dialog.write_button.isEnabled()
    dialog.path.setText(str(out))
    dialog.accept()
    qtbot.waitUntil(lambda: len(window.notices.notices) > 0, timeout=10_000)
    assert str(out) in window.notices.notices[0].message
    assert "Run of tiny.gguf" in out.read_text()


def test_what_is_shown_is_exported(qtbot: QtBot, window: MainWindow, trace: Path, tmp_path: Path) -> None:
    show(qtbot, window, trace)
    from draftscope.window.export_dialog import ExportDialog

    window.actions_by_id["export"].trigger()
    dialog = window.findChild(ExportDialog)
    assert dialog is not None
    out = tmp_path / "run.json"
    dialog.format.choose("chrome")
    dialog.path.setText(str(out))
    dialog.export()
    qtbot.waitUntil(out.exists, timeout=10_000)
    assert '"verify"' in out.read_text()
    dialog.close()


def test_probed_restores_of_a_trace_are_shown_and_nothing_more_is_measured(
    qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    path = tmp_path / "probed.dscope"
    with TraceWriter(path, header()) as writer:
        writer.append(in_start_order(make_records(40)))
        writer.add_pieces(PIECES)
        writer.append_arrays(made_arrays(2))
    show(qtbot, window, path)
    opened = window.traces.opened
    assert opened is not None
    assert opened.probing.level is ProbeLevel.STATE
    assert opened.probing.level_of(3) is ProbeLevel.STATE
    found = panel(window, "restores")
    assert isinstance(found, RestoreDiffsPanel)
    assert not found.bar.level.isEnabled()
    assert not window.actions_by_id["slot_probe_state"].isEnabled()


def test_closing_the_window_while_a_trace_is_read_leaves_nothing_behind(window: MainWindow, trace: Path) -> None:
    window.open_file(trace)
    window.close()
    assert not window.traces.traces.is_reading
