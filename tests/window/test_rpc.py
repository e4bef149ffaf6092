"""RPC servers in the window: the field of the open dialog, a refused load, and a server that is lost in a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from draftscope.base.paths import demo_model
from draftscope.engine.protocol import Prompt
from draftscope.session.state import SessionState
from draftscope.window.main_window import MainWindow
from draftscope.window.notices import Notice
from draftscope.window.open_dialog import OpenDialog
from tests.models.rpc_server import RpcServerProcess
from tests.window.conftest import WindowMaker, load, reach, run_for

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def open_dialog(qtbot: QtBot, window: MainWindow) -> OpenDialog:
    window.commands.open_model(demo_model())
    dialog = next(dialog for dialog in window.findChildren(OpenDialog) if dialog.isVisible())
    qtbot.waitUntil(dialog.open_button.isEnabled)
    return dialog


def words_of(notice: Notice) -> str:
    return "\n".join(label.text() for label in notice.findChildren(QLabel))


def test_the_field_takes_servers_and_keeps_them(qtbot: QtBot, window: MainWindow) -> None:
    dialog = open_dialog(qtbot, window)
    assert dialog.rpc_note.isHidden()
    dialog.rpc_servers.setText("gpu-box:50052, 10.0.0.7:50053")
    assert "trusted network" in dialog.rpc_note.text()
    assert not dialog.rpc_note.isHidden()
    dialog.open_button.click()
    reach(qtbot, window, SessionState.READY)
    assert window.session.model_settings is not None
    assert window.session.model_settings.rpc_servers == ("gpu-box:50052", "10.0.0.7:50053")
    again = open_dialog(qtbot, window)
    assert again.rpc_servers.text() == "gpu-box:50052, 10.0.0.7:50053"
    again.reject()


def test_a_text_that_names_no_server_keeps_open_off_and_says_why(qtbot: QtBot, window: MainWindow) -> None:
    dialog = open_dialog(qtbot, window)
    dialog.rpc_servers.setText("gpu-box")
    assert not dialog.open_button.isEnabled()
    assert "'gpu-box' does not name an RPC server" in dialog.rpc_note.text()
    assert dialog.open_button.toolTip() == dialog.rpc_note.text()
    dialog.set_path(demo_model().parent / "none.gguf")
    qtbot.waitUntil(lambda: "none.gguf" in dialog.open_button.toolTip())
    dialog.set_path(demo_model())
    qtbot.waitUntil(lambda: "gpu-box" in dialog.open_button.toolTip())
    dialog.rpc_servers.clear()
    assert dialog.open_button.isEnabled()
    assert dialog.rpc_note.isHidden()
    dialog.reject()


def test_a_server_lost_in_a_run_is_told_and_the_run_stays_on_the_screen(qtbot: QtBot, window: MainWindow) -> None:
    window.settings.set("model/rpc_servers", "gpu-box:50052")
    load(qtbot, window)
    first, *others = window.setup.values.prompts
    run_for(qtbot, window, 100)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)
    window.setup.change(replace(window.setup.values, prompts=(Prompt(text="fake:lose-server"), *others)))
    window.actions_by_id["run"].trigger()
    reach(qtbot, window, SessionState.NO_MODEL)
    (notice,) = window.notices.notices
    assert "The connection to the RPC server gpu-box:50052 was lost" in words_of(notice)
    assert "kept" in words_of(notice)
    assert "Run again" in [button.text() for button in notice.findChildren(QPushButton)]
    window.setup.change(replace(window.setup.values, prompts=(first, *others)))
    load(qtbot, window)


def test_a_real_server_is_lost_and_comes_back(qtbot: QtBot, make: WindowMaker, rpc_server: RpcServerProcess) -> None:
    window = make("native")
    window.settings.set("model/rpc_servers", rpc_server.name)
    load(qtbot, window, str(demo_model()))
    assert window.session.model is not None
    assert rpc_server.name in window.session.model.devices[0]
    run_for(qtbot, window, 500)
    rpc_server.kill()
    reach(qtbot, window, SessionState.NO_MODEL)
    (notice,) = window.notices.notices
    assert rpc_server.name in notice.message
    assert window.session.trace.n_records >= 500
    window.actions_by_id["run_again"].trigger()
    qtbot.waitUntil(lambda: "There is no RPC server at" in window.notices.notices[0].message, timeout=15_000)
    assert window.session.state is SessionState.NO_MODEL
    assert window.session.trace.n_records >= 500
    rpc_server.restart()
    window.actions_by_id["run_again"].trigger()
    reach(qtbot, window, SessionState.RUNNING)
    window.actions_by_id["stop"].trigger()
    reach(qtbot, window, SessionState.READY)


def test_a_setting_that_names_no_server_is_told_by_the_load(qtbot: QtBot, make: WindowMaker) -> None:
    window = make("native")
    window.settings.set("model/rpc_servers", "nonsense")
    window.commands.load_file(demo_model())
    qtbot.waitUntil(lambda: bool(window.notices.notices), timeout=15_000)
    assert "'nonsense' does not name an RPC server" in window.notices.notices[0].message
