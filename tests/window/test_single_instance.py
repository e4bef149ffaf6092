"""One window a user."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from pytestqt.qtbot import QtBot

from draftscope.window.single_instance import SingleInstance, hand_over, server_name


@pytest.fixture
def name(tmp_path: Path) -> str:
    return str(tmp_path / "socket")


@pytest.fixture
def first(name: str, qtbot: QtBot) -> Iterator[SingleInstance]:
    instance = SingleInstance(name)
    yield instance
    instance.close()


def hand_over_from_elsewhere(qtbot: QtBot, name: str, path: Path | None) -> bool:
    """As a second start does: from a process of its own."""
    code = (
        "import sys; from pathlib import Path; from draftscope.window.single_instance import hand_over;"
        "sys.exit(0 if hand_over(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None) else 1)"
    )
    arguments = [] if path is None else [str(path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code, name, *arguments], env=environment)
    qtbot.waitUntil(lambda: process.poll() is not None, timeout=20_000)
    return process.returncode == 0


def test_a_second_start_hands_its_file_over(qtbot: QtBot, name: str, first: SingleInstance) -> None:
    asked: list[Path | None] = []
    first.asked.connect(asked.append)
    assert hand_over_from_elsewhere(qtbot, name, Path("model äö.gguf"))
    assert hand_over_from_elsewhere(qtbot, name, None)
    assert asked == [Path("model äö.gguf").absolute(), None]


def test_without_a_first_window_nothing_is_handed_over(name: str, qtbot: QtBot) -> None:
    assert not hand_over(name, None)


def test_a_socket_left_by_a_killed_window_is_taken_over(name: str, qtbot: QtBot) -> None:
    code = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, name], check=False)
    assert Path(name).exists()
    instance = SingleInstance(name)
    assert instance.is_listening
    instance.close()


def test_a_socket_that_answers_is_not_taken_away(name: str, first: SingleInstance, qtbot: QtBot) -> None:
    second = SingleInstance(name)
    assert first.is_listening
    assert not second.is_listening
    second.close()


def assert_dropped(qtbot: QtBot, socket: QLocalSocket) -> None:
    """The other side hangs up."""
    qtbot.waitUntil(lambda: socket.state() == QLocalSocket.LocalSocketState.UnconnectedState)


def test_nonsense_from_the_socket_is_dropped(qtbot: QtBot, name: str, first: SingleInstance) -> None:
    asked: list[Path | None] = []
    first.asked.connect(asked.append)
    for line in (b"nonsense\n", b'{"path"\n', b"[]\n"):
        socket = QLocalSocket()
        socket.connectToServer(name)
        assert socket.waitForConnected(1_000)
        socket.write(line)
        socket.flush()
        assert_dropped(qtbot, socket)
    assert asked == []


def test_only_the_user_may_connect(name: str, first: SingleInstance) -> None:
    assert Path(name).stat().st_mode & 0o077 == 0


def test_the_name_depends_on_the_folder_and_is_short(tmp_path: Path) -> None:
    assert server_name(tmp_path) != server_name(tmp_path / "other")
    assert server_name(tmp_path) == server_name(tmp_path)
    assert len(server_name(tmp_path)) < 40
    assert QLocalServer.removeServer(server_name(tmp_path))
