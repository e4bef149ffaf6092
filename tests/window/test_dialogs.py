"""Open, prompts, export, palette, shortcuts, about: driven through their controls."""

from __future__ import annotations

import errno
import gzip
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLabel, QPushButton
from pytestqt.qtbot import QtBot

from draftscope.base.paths import demo_model
from draftscope.engine.protocol import ChatMessage, Prompt
from draftscope.session.settings import BY_KEY
from draftscope.session.state import SessionState
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.export import formats
from draftscope.window import export_notices
from draftscope.window.about_dialog import AboutDialog
from draftscope.window.actions import ACTIONS
from draftscope.window.export_dialog import NO_PROBES, ExportDialog
from draftscope.window.format_editor import FREE, GRAMMAR, SCHEMA
from draftscope.window.main_window import MainWindow
from draftscope.window.open_dialog import DRAFT_MODEL, OpenDialog
from draftscope.window.prompts_dialog import PromptsDialog
from draftscope.window.shortcuts_page import ShortcutsPage
from tests.trace.export.made_probes import made_arrays
from tests.window.conftest import load, reach, run_for

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
"""Nor need it: the offscreen platform has no window manager."""

D = TypeVar("D", bound=QDialog)


def shown(window: MainWindow, kind: type[D]) -> D:
    """The dialog of a kind that is open."""
    return next(dialog for dialog in window.findChildren(kind) if dialog.isVisible())


def words_of(dialog: QDialog) -> str:
    """All that its labels say."""
    return "\n".join(label.text() for label in dialog.findChildren(QLabel))


def open_dialog(window: MainWindow, path: Path) -> OpenDialog:
    """The open dialog with a path in it."""
    window.commands.open_model(path)
    return shown(window, OpenDialog)


def test_the_open_dialog_tells_what_a_file_is_before_it_is_loaded(qtbot: QtBot, window: MainWindow) -> None:
    dialog = open_dialog(window, demo_model())
    qtbot.waitUntil(dialog.open_button.isEnabled)
    words = words_of(dialog)
    assert "qwen35" in words
    assert "one head that feeds itself" in words
    assert "rollback" in words
    assert "7.12 MiB" in words
    before = words
    dialog.n_ctx.setValue(8192)
    dialog.shift.setChecked(True)
    dialog.prompt_cache.setValue(64)
    dialog.prompt_checkpoints.setValue(0)
    assert words_of(dialog) != before
    dialog.n_threads.setValue(2)
    dialog.use_mmap.setChecked(False)
    dialog.open_button.click()
    reach(qtbot, window, SessionState.READY)
    assert window.session.model_settings is not None
    assert window.session.model_settings.use_mmap is False
    assert window.setup.values.context.n_threads == 2
    context = window.setup.values.context
    assert (context.n_ctx, context.shift, context.prompt_cache_mib, context.prompt_checkpoints_mib) == (
        8192,
        True,
        64,
        0,
    )


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all"])
def test_the_open_dialog_refuses_what_is_no_model_and_says_why(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    dialog = open_dialog(window, path)
    qtbot.waitUntil(lambda: "broken.gguf" in words_of(dialog))
    assert not dialog.open_button.isEnabled()
    assert "broken.gguf" in dialog.open_button.toolTip()
    dialog.path.clear()
    assert dialog.open_button.toolTip() == "Choose a file first."
    dialog.reject()


def test_a_model_whose_mtp_layers_cannot_be_used_opens_when_drafting_is_off(
    qtbot: QtBot, window: MainWindow, made_model: Callable[[str], Path]
) -> None:
    path = made_model("two-mtp-layers")
    dialog = open_dialog(window, path)
    qtbot.waitUntil(lambda: "draft length to 0" in dialog.open_button.toolTip())
    assert not dialog.open_button.isEnabled()
    dialog.reject()
    window.controls.draft.setValue(0)
    again = open_dialog(window, path)
    qtbot.waitUntil(again.open_button.isEnabled)
    again.reject()


def test_a_late_answer_about_an_earlier_file_is_dropped(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    dialog = open_dialog(window, demo_model())
    dialog.set_path(tmp_path / "none.gguf")
    qtbot.waitUntil(lambda: "none.gguf" in words_of(dialog))
    qtbot.wait(100)
    assert not dialog.open_button.isEnabled()
    dialog.reject()


def test_prompts_and_sampling_reach_the_run(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    window.actions_by_id["prompts"].trigger()
    dialog = shown(window, PromptsDialog)
    assert dialog.tabs.count() == 4
    dialog.editors[0].kind.setCurrentIndex(0)
    dialog.editors[0].text.setPlainText("once upon a time\n")
    dialog.editors[1].kind.setCurrentIndex(1)
    dialog.editors[1].system.setPlainText("Be brief.")
    dialog.editors[1].text.setPlainText("Hi")
    dialog.editors[2].kind.setCurrentIndex(0)
    dialog.editors[2].text.setPlainText("")
    dialog.sampling.fields["temperature"].setValue(0)
    dialog.sampling.fields["seed"].setValue(7)
    dialog.sampling.max_tokens.setValue(9)
    dialog.sampling.stop.setPlainText("\nEND\n")
    dialog.sampling.ignore_eos.setChecked(True)
    dialog.accept()
    window.actions_by_id["run"].trigger()
    tasks = {task.slot: task for task in window.session.tasks}
    assert set(tasks) == {0, 1, 3}
    assert tasks[0].prompt == Prompt(text="once upon a time\n")
    assert tasks[1].prompt.messages == (ChatMessage("system", "Be brief."), ChatMessage("user", "Hi"))
    assert tasks[0].sampling.temperature == 0.0
    assert tasks[0].sampling.seed == 7
    assert (tasks[0].max_tokens, tasks[0].stop, tasks[0].ignore_eos) == (9, ("END",), True)
    assert window.controls.max_tokens.value() == 9
    reach(qtbot, window, SessionState.READY)


def test_the_form_of_the_output_reaches_the_run_and_stays_for_the_session(qtbot: QtBot, window: MainWindow) -> None:
    load(qtbot, window)
    window.commands.edit_prompts()
    dialog = shown(window, PromptsDialog)
    assert dialog.format.kind.currentIndex() == FREE
    assert not dialog.format.text.isVisible()
    dialog.format.kind.setCurrentIndex(GRAMMAR)
    dialog.format.text.setPlainText('root ::= "yes"')
    dialog.format.kind.setCurrentIndex(SCHEMA)
    dialog.format.text.setPlainText("{}")
    dialog.accept()
    assert [(task.grammar, task.json_schema) for task in window.setup.request().tasks] == [("", "{}")] * 4
    window.commands.edit_prompts()
    again = shown(window, PromptsDialog)
    assert (again.format.kind.currentIndex(), again.format.text.toPlainText()) == (SCHEMA, "{}")
    again.format.kind.setCurrentIndex(GRAMMAR)
    again.format.text.setPlainText('root ::= "no"')
    again.accept()
    window.actions_by_id["run"].trigger()
    assert {task.grammar for task in window.session.tasks} == {'root ::= "no"'}
    reach(qtbot, window, SessionState.READY)


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (GRAMMAR, "root ::= x", "Line 1, column 10: the rule 'x' is used and not defined."),
        (GRAMMAR, " ", "There is nothing here yet"),
        (SCHEMA, "", "There is nothing here yet"),
        (SCHEMA, '{"type": ', "It is not JSON"),
        (SCHEMA, "[]", "A JSON schema is an object"),
    ],
)
def test_what_is_wrong_with_a_form_is_told_beside_it_and_cannot_be_kept(
    window: MainWindow, kind: int, text: str, says: str
) -> None:
    window.commands.edit_prompts()
    dialog = shown(window, PromptsDialog)
    ok = dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.Ok)
    assert ok.isEnabled()
    dialog.format.kind.setCurrentIndex(kind)
    dialog.format.text.setPlainText(text)
    assert says in words_of(dialog)
    assert says in ok.toolTip()
    assert not ok.isEnabled()
    dialog.format.kind.setCurrentIndex(FREE)
    assert says not in words_of(dialog)
    assert ok.isEnabled()
    dialog.reject()


def test_the_same_prompt_in_all_slots(window: MainWindow) -> None:
    window.commands.edit_prompts()
    dialog = shown(window, PromptsDialog)
    dialog.is_same.setChecked(True)
    assert [dialog.tabs.isTabEnabled(slot) for slot in range(4)] == [True, False, False, False]
    dialog.editors[0].show_prompt(Prompt(text="same"))
    dialog.accept()
    assert [task.prompt.text for task in window.setup.request().tasks] == ["same"] * 4
    window.commands.edit_prompts()
    again = shown(window, PromptsDialog)
    assert again.is_same.isChecked()
    again.reject()


def test_the_prompt_has_more_room_than_the_sampling(qtbot: QtBot, window: MainWindow) -> None:
    window.commands.edit_prompts()
    dialog = shown(window, PromptsDialog)
    qtbot.waitUntil(lambda: dialog.tabs.width() > dialog.sampling.width())
    dialog.reject()


def test_a_sample_brings_its_prompt_and_its_sampling(window: MainWindow) -> None:
    window.commands.edit_prompts()
    dialog = shown(window, PromptsDialog)
    dialog.tabs.setCurrentIndex(2)
    dialog.samples.activated.emit(1)
    sample = dialog.samples.itemData(1)
    assert dialog.editors[2].prompt == sample.prompt
    assert dialog.sampling.sampling == sample.sampling
    assert dialog.samples.currentIndex() == 0
    dialog.reject()


def test_cancelled_prompts_change_nothing(window: MainWindow) -> None:
    before = window.setup.values
    window.commands.edit_prompts()
    dialog = shown(window, PromptsDialog)
    dialog.editors[0].text.setPlainText("other")
    dialog.reject()
    assert window.setup.values == before


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(tokens=(1, 2, 3)),
        Prompt(messages=(ChatMessage("user", "a"), ChatMessage("assistant", "b"), ChatMessage("user", "c"))),
    ],
)
def test_what_the_editor_cannot_show_whole_is_kept_until_it_is_changed(window: MainWindow, prompt: Prompt) -> None:
    window.commands.edit_prompts()
    dialog = shown(window, PromptsDialog)
    editor = dialog.editors[0]
    editor.show_prompt(prompt)
    assert editor.prompt == prompt
    editor.text.setPlainText("new")
    assert editor.prompt != prompt
    dialog.reject()


def after_a_run(qtbot: QtBot, window: MainWindow) -> ExportDialog:
    """The export dialog over a window that has run something."""
    load(qtbot, window)
    run_for(qtbot, window, 100)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)
    window.actions_by_id["export"].trigger()
    return shown(window, ExportDialog)


def test_an_export_is_written_and_the_dialog_says_where(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(export_notices.QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    dialog = after_a_run(qtbot, window)
    dialog.format.choose("chrome")
    path = tmp_path / "run.json.gz"
    dialog.path.setText(str(path))
    dialog.with_text.setChecked(False)
    dialog.export_button.click()
    qtbot.waitUntil(dialog.folder_button.isVisible)
    assert str(path) in words_of(dialog)
    assert "are written" in dialog.progress.sentence.text()
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert not window.export_notices.progress.isVisible()
    assert window.notices.notices == ()
    dialog.folder_button.click()
    assert opened == [str(tmp_path)]
    dialog.close_button.click()
    assert not dialog.isVisible()
    settings = window.settings
    assert (settings.text("export/format"), settings.text("export/folder")) == ("chrome", str(tmp_path))
    assert settings.flag("export/with_text") is False


def test_the_next_export_begins_with_the_last_choice(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    window.settings.set("export/format", "csv")
    window.settings.set("export/folder", str(tmp_path))
    window.settings.set("export/with_text", False)
    dialog = after_a_run(qtbot, window)
    assert dialog.format.chosen.id == "csv"
    assert dialog.target.parent == tmp_path
    assert dialog.target.name.endswith("-csv")
    assert not dialog.with_text.isChecked()
    dialog.export_button.click()
    qtbot.waitUntil(dialog.folder_button.isVisible)
    assert (dialog.target / "rounds.csv").stat().st_size > 100
    dialog.reject()


def test_an_export_whose_dialog_was_closed_is_told_by_the_window(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(formats, "export_trace", lambda *_, **__: may_end.wait(10) and (tmp_path / "x").touch())
    dialog = after_a_run(qtbot, window)
    dialog.path.setText(str(tmp_path / "x.pftrace"))
    dialog.format.choose("perfetto")
    dialog.export_button.click()
    dialog.reject()
    monkeypatch.setattr(formats, "size_of", lambda _: 1)
    may_end.set()
    qtbot.waitUntil(lambda: bool(window.notices.notices))
    assert f"Exported to {tmp_path / 'x.pftrace'}" in window.notices.notices[0].message
    assert "Show in folder" in [button.text() for button in window.notices.notices[0].findChildren(QPushButton)]


def test_a_cancelled_export_goes_back_to_the_choice(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object, cancelled: Callable[[], bool], progress: Callable[[float], object], **__: object) -> None:
        progress(0.5)
        while not cancelled():
            threading.Event().wait(0.005)
        raise TraceCancelled

    monkeypatch.setattr(formats, "export_trace", endless)
    dialog = after_a_run(qtbot, window)
    dialog.path.setText(str(tmp_path / "x.pftrace"))
    dialog.export_button.click()
    qtbot.waitUntil(lambda: dialog.progress.bar.value() == 500)
    dialog.close_button.click()
    qtbot.waitUntil(dialog.export_button.isVisible)
    assert dialog.isVisible()
    assert dialog.note.text() == "Cancelled; nothing was written."
    dialog.reject()


def test_a_failed_export_says_why_where_it_can_be_mended(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(formats, "export_trace", full)
    dialog = after_a_run(qtbot, window)
    dialog.path.setText(str(tmp_path / "x.pftrace"))
    dialog.export_button.click()
    qtbot.waitUntil(dialog.export_button.isVisible)
    assert dialog.note.text() == f"Nothing was written. No space left on device: {tmp_path / 'x.pftrace'}."
    assert dialog.note.property("tone") == "bad"
    dialog.path.setText(str(tmp_path / "y.pftrace"))
    assert dialog.note.property("tone") == ""
    dialog.reject()


def test_a_folder_with_other_files_is_refused_before_anything_is_written(window: MainWindow, tmp_path: Path) -> None:
    dialog = ExportDialog(window.session, window.settings, window)
    dialog.format.choose("csv")
    dialog.path.setText(str(tmp_path))
    assert dialog.export_button.isEnabled()
    (tmp_path / "rounds.csv").touch()
    dialog.path.setText(f"{tmp_path}/")
    assert "will be replaced" in dialog.note.text()
    (tmp_path / "letter.txt").write_text("Dear reader")
    dialog.path.setText(str(tmp_path))
    assert not dialog.export_button.isEnabled()
    assert dialog.note.text() == "The folder holds other files (letter.txt). Name another folder."
    dialog.path.setText(str(tmp_path / "letter.txt"))
    assert "is a file" in dialog.note.text()
    dialog.deleteLater()


@pytest.mark.parametrize(
    ("name", "reason"), [("", "Name a file."), ("run.txt", "must end in"), ("none/run.json", "does not exist")]
)
def test_the_export_dialog_refuses_names_and_says_why(
    window: MainWindow, tmp_path: Path, name: str, reason: str
) -> None:
    dialog = ExportDialog(window.session, window.settings, window)
    dialog.format.choose("chrome")
    dialog.path.setText(str(tmp_path / name) if name else "")
    assert not dialog.export_button.isEnabled()
    assert reason in dialog.note.text()
    dialog.deleteLater()


def test_a_format_that_cannot_be_used_says_why(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    window.settings.set("export/format", "parquet")
    dialog = ExportDialog(window.session, window.settings, window)
    assert not dialog.format.buttons["parquet"].isEnabled()
    assert "pip install 'draftscope[parquet]'" in words_of(dialog)
    assert dialog.format.chosen.id == "perfetto"
    assert not dialog.format.buttons["npz"].isEnabled()
    assert NO_PROBES in words_of(dialog)
    dialog.deleteLater()


def test_every_format_has_a_sentence_in_the_dialog(window: MainWindow, tmp_path: Path) -> None:
    window.session._record.append_arrays(made_arrays())
    dialog = ExportDialog(window.session, window.settings, window)
    for one in formats.FORMATS:
        assert one.sentence in words_of(dialog)
        dialog.format.choose(one.id)
        assert dialog.export_button.isEnabled()
        assert dialog.target.name.startswith("run")
    dialog.deleteLater()


def test_the_formats_of_the_setting_are_those_of_the_table() -> None:
    assert set(BY_KEY["export/format"].choices) == set(formats.BY_ID)


def test_the_palette_finds_and_does_by_keyboard(qtbot: QtBot, window: MainWindow) -> None:
    window.actions_by_id["palette"].trigger()
    palette = window.palette_box
    qtbot.waitUntil(palette.isVisible)
    assert palette.list.count() == len(ACTIONS) - 1
    QTest.keyClicks(palette.line, "colours stay dark")
    assert palette.list.count() == 1
    QTest.keyClick(palette.line, Qt.Key.Key_Return)
    assert not palette.isVisible()
    assert window.appearance.choice == "dark"


def test_the_palette_says_why_something_cannot_be_done(qtbot: QtBot, window: MainWindow) -> None:
    window.commands.show_palette()
    palette = window.palette_box
    palette.line.setText("export the run")
    assert "nothing has run yet" in palette.hint.text()
    QTest.keyClick(palette.line, Qt.Key.Key_Return)
    assert palette.isVisible()
    palette.line.setText("xyzzy")
    assert palette.hint.text() == "No action has that in its name."
    QTest.keyClick(palette.line, Qt.Key.Key_Down)
    QTest.keyClick(palette.line, Qt.Key.Key_Return)
    palette.reject()


def test_arrows_in_the_palettes_line_move_in_its_list(qtbot: QtBot, window: MainWindow) -> None:
    window.commands.show_palette()
    palette = window.palette_box
    for key, row in ((Qt.Key.Key_Down, 1), (Qt.Key.Key_PageDown, 9), (Qt.Key.Key_Up, 8), (Qt.Key.Key_PageUp, 0)):
        QTest.keyClick(palette.line, key)
        assert palette.list.currentRow() == row
    palette.reject()


def test_the_shortcuts_page_lists_every_shortcut(window: MainWindow) -> None:
    window.actions_by_id["shortcuts"].trigger()
    page = shown(window, ShortcutsPage)
    items = page.tree.findItems("*", Qt.MatchFlag.MatchWildcard | Qt.MatchFlag.MatchRecursive, 1)
    keys = {item.text(1) for item in items}
    assert {row.shortcut for row in ACTIONS if row.shortcut} <= keys
    page.reject()


def test_about_names_version_and_parts(window: MainWindow) -> None:
    window.actions_by_id["about"].trigger()
    dialog = shown(window, AboutDialog)
    for word in ("Draftscope", "MIT", "PySide6-Essentials", "Qt 6"):
        assert word in dialog.text.text()
    dialog.reject()


def test_a_model_opens_with_its_assistant_which_is_remembered_with_it(
    qtbot: QtBot, window: MainWindow, random_gemma4: tuple[Path, Path]
) -> None:
    target, assistant = random_gemma4
    dialog = open_dialog(window, target)
    qtbot.waitUntil(dialog.open_button.isEnabled)
    assert "in a second file, the assistant" in words_of(dialog)
    dialog.draft_path.setText(str(assistant))
    qtbot.waitUntil(lambda: "2, a second file" in words_of(dialog) and dialog.open_button.isEnabled())
    assert "gemma4-assistant.gguf, gemma4-assistant, " in words_of(dialog)
    dialog.open_button.click()
    reach(qtbot, window, SessionState.READY)
    assert window.session.model_settings is not None
    assert window.session.model_settings.draft_path == str(assistant)
    again = open_dialog(window, target)
    assert again.draft_path.text() == str(assistant)
    qtbot.waitUntil(again.open_button.isEnabled)
    again.set_path(demo_model())
    assert again.draft_path.text() == ""
    again.set_path(target)
    again.draft_path.clear()
    qtbot.waitUntil(again.open_button.isEnabled)
    again.open_button.click()
    reach(qtbot, window, SessionState.READY)
    assert window.session.model_settings.draft_path == ""
    assert window.settings.draft_of(target) == ""


def test_the_open_dialog_says_in_what_an_assistant_does_not_fit(
    qtbot: QtBot, window: MainWindow, made_model: Callable[[str], Path]
) -> None:
    dialog = open_dialog(window, made_model("gemma4"))
    for name, reason in (
        ("assistant-of-other-width", "reads hidden rows of 48 numbers"),
        ("qwen35", "is no assistant"),
        ("not-gguf", "not a GGUF file"),
        ("missing", "missing.gguf"),
    ):
        dialog.draft_path.setText(str(made_model(name)))
        qtbot.waitUntil(lambda reason=reason: reason in words_of(dialog))
        assert not dialog.open_button.isEnabled()
        assert reason in dialog.open_button.toolTip()
    dialog.draft_path.setText(str(made_model("assistant-of-other-width")))
    qtbot.waitUntil(lambda: "hidden rows" in words_of(dialog))
    layout = dialog.layout()
    assert layout is not None
    qtbot.waitUntil(lambda: dialog.height() >= layout.totalHeightForWidth(dialog.width()))  # no line is cut off
    dialog.draft_path.clear()
    qtbot.waitUntil(dialog.open_button.isEnabled)
    dialog.reject()


def test_a_draft_file_opened_as_a_model_is_told_where_it_belongs(
    qtbot: QtBot, window: MainWindow, random_gemma4: tuple[Path, Path]
) -> None:
    dialog = open_dialog(window, random_gemma4[1])
    qtbot.waitUntil(lambda: "is a draft file" in words_of(dialog))
    assert not dialog.open_button.isEnabled()
    assert "It belongs beside its target" in words_of(dialog)
    assert f"'{DRAFT_MODEL}' in the window's open dialog" in words_of(dialog)
    rows = [dialog.findChildren(QFormLayout)[1].itemAt(0, QFormLayout.ItemRole.LabelRole).widget()]
    assert DRAFT_MODEL in [row.text() for row in rows if isinstance(row, QLabel)]
    dialog.reject()
