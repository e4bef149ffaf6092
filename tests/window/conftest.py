"""A whole window, wired as the program wires it, on the scripted engine in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from draftscope.main import make_window
from draftscope.session.state import SessionState
from draftscope.window.main_window import MainWindow

WindowMaker = Callable[..., MainWindow]


@pytest.fixture
def make(qapp: QApplication, qtbot: QtBot, tmp_path: Path) -> Iterator[WindowMaker]:
    """Makes windows that share one settings file, shows them, and closes them after the test."""
    windows: list[MainWindow] = []

    def build(backend: str = "fake:400", width: int = 1280, height: int = 800) -> MainWindow:
        window = make_window(qapp, tmp_path / "settings.ini", backend)
        windows.append(window)
        window.resize(width, height)
        window.start()
        window.fill_docks()
        qtbot.waitExposed(window)
        window.clock.tick()
        return window

    yield build
    for window in windows:
        window.close()
        window.deleteLater()
    qapp.sendPostedEvents()
    qapp.processEvents()


@pytest.fixture
def window(make: WindowMaker) -> MainWindow:
    return make()


def reach(qtbot: QtBot, window: MainWindow, state: SessionState, timeout: int = 15_000) -> None:
    """Let the window's own clock run until the session is in a state."""
    qtbot.waitUntil(lambda: window.session.state is state, timeout=timeout)
    window.clock.tick()


def load(qtbot: QtBot, window: MainWindow, path: str = "fake:model") -> None:
    """Load a scripted model."""
    window.commands.load_file(path)
    reach(qtbot, window, SessionState.READY)


def run_for(qtbot: QtBot, window: MainWindow, n_records: int) -> None:
    """Start a run that lasts, and wait until so many records are there."""
    from dataclasses import replace

    window.setup.change(replace(window.setup.values, max_tokens=100_000, ignore_eos=True))
    window.actions_by_id["run"].trigger()
    qtbot.waitUntil(lambda: window.session.trace.n_records >= n_records, timeout=15_000)
