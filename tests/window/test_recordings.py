"""Recordings in the window: the list and what can be done in it, what the strip says, and what a crash left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from draftscope.base.paths import recordings_dir
from draftscope.session.recordings import Recordings
from draftscope.session.recordings_desk import RecordingsDesk
from draftscope.session.settings import Settings
from draftscope.session.state import SessionState
from draftscope.trace.tracefile import is_being_recorded, read_trace
from draftscope.window.main_window import MainWindow
from draftscope.window.notices import Notice
from draftscope.window.recordings_dialog import EMPTY, OFF, READING, RecordingsDialog
from draftscope.window.truth_strip import recording
from tests.trace.files import write
from tests.trace.synthetic import make_records
from tests.trace.test_trace_copies import cut_off
from tests.window.conftest import WindowMaker, load, reach, run_for

HEADER = {"model": {"path": "/models/good.gguf"}, "settings": {"context": {"n_slots": 2}}}


@pytest.fixture
def desk(tmp_path: Path, qtbot: QtBot) -> Iterator[RecordingsDesk]:
    (tmp_path / "kept").mkdir()
    desk = RecordingsDesk(Recordings(tmp_path / "kept", 1 << 30))
    yield desk
    desk.close()


@pytest.fixture
def settings(tmp_path: Path, qtbot: QtBot) -> Settings:
    return Settings(tmp_path / "settings.ini")


def opened(desk: RecordingsDesk, settings: Settings, qtbot: QtBot, n_rows: int) -> RecordingsDialog:
    dialog = RecordingsDialog(desk, settings)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: dialog.table.rowCount() == n_rows)
    return dialog


def answer(text: str) -> None:
    """Press a button of the question that is open."""
    box = next(widget for widget in QApplication.topLevelWidgets() if isinstance(widget, QMessageBox))
    next(button for button in box.findChildren(QPushButton) if button.text() == text).click()


def cells(dialog: RecordingsDialog, row: int) -> list[str]:
    table = dialog.table
    return [table.item(row, column).text() for column in range(table.columnCount())]  # type: ignore[union-attr]


def test_each_recording_is_a_row_that_says_what_it_is(desk, settings, qtbot):
    write(desk.recordings.folder / "bare.dscope", with_text=False)
    cut_off(desk.recordings.folder / "cut.dscope", header=HEADER)
    (desk.recordings.folder / "damaged.dscope").write_bytes(b"hello")
    dialog = opened(desk, settings, qtbot, 3)
    rows = {row[1]: row for row in (cells(dialog, index) for index in range(3))}
    assert rows["good.gguf"][2] == "2" and rows["good.gguf"][6] == "cut off"
    assert rows["bare.dscope"][6] == "without text" and int(rows["bare.dscope"][3]) > 0
    assert rows["damaged.dscope"][6] == "cannot be read"
    assert dialog.note.text().startswith("3 recordings, ") and dialog.note.text().endswith(" of 2.00 GiB")


def test_a_list_without_recordings_says_why(desk, settings, qtbot):
    let_go = threading.Event()
    desk._do(lambda: let_go.wait(20))  # the disk is slow
    dialog = opened(desk, settings, qtbot, 0)
    assert dialog.pages.currentWidget() is dialog.empty and dialog.empty.text() == READING
    let_go.set()
    qtbot.waitUntil(lambda: dialog.empty.text() == EMPTY)
    assert dialog.pages.currentWidget() is dialog.empty
    dialog.is_on.setChecked(False)
    assert dialog.empty.text() == OFF and not settings.flag("recording/is_on")
    dialog.budget.setValue(64)
    dialog.with_text.setChecked(False)
    assert settings.whole("recording/budget_mib") == 64 and not settings.flag("recording/with_text")
    for button in (dialog.open_button, dialog.pin_button, dialog.copy_button, dialog.delete_button):
        assert not button.isEnabled() and button.toolTip().startswith("Select ")


def test_a_recording_is_pinned_and_unpinned(desk, settings, qtbot):
    path = write(desk.recordings.folder / "run.dscope")
    dialog = opened(desk, settings, qtbot, 1)
    dialog.pin_button.click()
    qtbot.waitUntil(lambda: cells(dialog, 0)[6] == "pinned")
    assert desk.recordings.pinned() == {path.name} and dialog.pin_button.text() == "Unpin"
    dialog.pin_button.click()
    qtbot.waitUntil(lambda: cells(dialog, 0)[6] == "")


def test_a_recording_is_deleted_after_a_question(desk, settings, qtbot):
    path = write(desk.recordings.folder / "run.dscope")
    dialog = opened(desk, settings, qtbot, 1)
    dialog.delete_button.click()
    answer("Cancel")
    assert path.exists()
    dialog.delete_button.click()
    answer("Delete")
    qtbot.waitUntil(lambda: dialog.table.rowCount() == 0)
    assert not path.exists() and dialog.pages.currentWidget() is dialog.empty


@pytest.mark.parametrize("with_text", [True, False])
def test_a_copy_is_written_with_or_without_text(desk, settings, qtbot, tmp_path, with_text):
    path, target = write(desk.recordings.folder / "run.dscope"), tmp_path / "copy.dscope"
    dialog = opened(desk, settings, qtbot, 1)
    with qtbot.waitSignal(desk.copy_ended):
        dialog._ask_for_text(path, target)
        answer("With text" if with_text else "Without text")
        assert dialog.note.text() == f"Copying to {target}" and not dialog.copy_button.isEnabled()
    qtbot.waitUntil(lambda: dialog.note.text() == f"Copied to {target}")
    assert (b"secret" in target.read_bytes()) is with_text
    assert read_trace(target).store.n_records == len(make_records(20))
    assert dialog.copy_button.isEnabled() and not dialog.progress.isVisible()


def test_a_copy_that_cannot_be_written_is_told(desk, settings, qtbot, tmp_path):
    path = write(desk.recordings.folder / "run.dscope")
    dialog = opened(desk, settings, qtbot, 1)
    with qtbot.waitSignal(desk.failed):
        dialog.copy(path, tmp_path / "missing" / "copy.dscope", with_text=True)
    qtbot.waitUntil(lambda: "cannot be written" in dialog.note.text())


def test_opening_a_recording_asks_the_window_for_it(desk, settings, qtbot):
    path = write(desk.recordings.folder / "run.dscope")
    dialog = opened(desk, settings, qtbot, 1)
    with qtbot.waitSignal(dialog.open_requested) as asked:
        dialog.open_button.click()
    assert asked.args == [path] and not dialog.isVisible()


def messages(window: MainWindow) -> list[str]:
    return [notice.message for notice in window.notices.notices]


def offer(notice: Notice, text: str) -> None:
    next(button for button in notice.findChildren(QPushButton) if button.text() == text).click()


def test_the_next_start_offers_what_a_killed_window_left(make: WindowMaker, qtbot: QtBot) -> None:
    recordings_dir().mkdir(parents=True)
    path = cut_off(recordings_dir() / "x.dscope", header=HEADER)
    window = make()
    qtbot.waitUntil(lambda: len(messages(window)) == 1)
    assert messages(window)[0].startswith("The recording of good.gguf of ")
    assert messages(window)[0].endswith(" tokens, was cut off.")
    offer(window.notices.notices[0], "Keep")
    qtbot.waitUntil(lambda: not messages(window))
    assert [entry.name for entry in recordings_dir().iterdir()] == [path.name]
    assert read_trace(path).store.n_records == len(make_records(20))


def test_a_recording_that_was_cut_off_can_be_opened_or_deleted(make: WindowMaker, qtbot: QtBot) -> None:
    recordings_dir().mkdir(parents=True)
    for name in ("a", "b", "c"):
        cut_off(recordings_dir() / f"{name}.dscope", header=HEADER | {"model": {"path": f"{name}.gguf"}})
    window = make()
    asked: list[Path] = []
    window.recordings.open_requested.connect(asked.append)
    qtbot.waitUntil(lambda: len(messages(window)) == 3)
    assert "1 more recording was cut off." in messages(window)
    first, second = (notice for notice in window.notices.notices if "more" not in notice.message)
    offer(first, "Open")
    qtbot.waitUntil(lambda: len(asked) == 1)
    offer(second, "Delete")
    qtbot.waitUntil(lambda: len(list(recordings_dir().glob("*.dscope"))) == 2)
    assert not list(recordings_dir().glob(f"{asked[0].name}-*"))


def test_a_window_offers_nothing_that_another_one_records(make: WindowMaker, qtbot: QtBot) -> None:
    window = make()
    load(qtbot, window)
    run_for(qtbot, window, 50)
    path = window.session.recorder.path
    assert path is not None and is_being_recorded(path)
    other = make()
    qtbot.wait(300)
    assert messages(other) == []


def test_the_strip_says_whether_the_run_is_recorded_and_where(make: WindowMaker, qtbot: QtBot) -> None:
    window = make()
    load(qtbot, window)
    assert recording(window.session) == ""
    run_for(qtbot, window, 50)
    window.strip.tell()
    assert window.strip._recording.text() == "recording"
    assert str(window.session.recorder.path) in window.strip._recording.toolTip()
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)
    window.strip.tell()
    assert window.strip._recording.text() == "recorded"
    window.settings.set("recording/is_on", False)
    window.actions_by_id["run"].trigger()
    assert recording(window.session) == "recording is off"


def test_a_recording_that_ends_early_is_a_notice_and_the_run_goes_on(make: WindowMaker, qtbot: QtBot) -> None:
    recordings_dir().parent.mkdir(parents=True, exist_ok=True)
    recordings_dir().write_text("in the way")
    window = make()
    load(qtbot, window)
    run_for(qtbot, window, 50)
    qtbot.waitUntil(lambda: any("cannot be made" in message for message in messages(window)))
    assert window.session.is_running
    window.strip.tell()
    assert window.strip._recording.text() == "recording failed"
    assert "cannot be made" in window.strip._recording.toolTip()


def test_the_list_opens_from_the_menu(make: WindowMaker, qtbot: QtBot) -> None:
    window = make()
    window.actions_by_id["recordings"].trigger()
    dialog = window.findChild(RecordingsDialog)
    assert dialog is not None and dialog.isVisible()
    dialog.close()
