"""A window that runs one short run after another and is to be killed, or its engine is.

The memory of the engine's records is made by whoever starts this, so that what was in it at the kill can be read
afterwards. Prints one JSON line once the first run goes on: {"engine": pid}; and one more when the engine has died and
the session has taken what it left: {"died": true}. Ends with its standard input.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from draftscope.engine import worker_client
from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.shared_memory import SharedMemory
from draftscope.engine.worker_client import WorkerClient
from draftscope.main import make_window
from draftscope.session.state import SessionState
from draftscope.window.main_window import MainWindow


class GivenMemory(SharedMemory):
    """Memory that is there already, in the place of new one."""

    def __init__(self, size: int, descriptor: int) -> None:
        self.descriptors = (os.dup(descriptor),)
        os.ftruncate(descriptor, size)
        self.buffer = mmap.mmap(descriptor, size)
        self.address = f"{self.descriptors[0]}/{size}"


class Victim:
    """Loads, then runs again and again."""

    def __init__(self, window: MainWindow, model: str, max_tokens: int) -> None:
        self._window = window
        setup = window.setup
        setup.change(replace(setup.values, max_tokens=max_tokens, ignore_eos=True))
        self._is_told = self._has_died = False
        window.session.failed.connect(self._on_failed)
        window.clock.ticked.connect(self._look)
        window.commands.load_file(model)

    def _look(self) -> None:
        session = self._window.session
        if session.state is SessionState.READY and not self._has_died:
            self._window.commands.run()
        elif session.is_running and not self._is_told and session.trace.n_records:
            self._is_told = True
            client = session._client
            assert isinstance(client, WorkerClient)
            _say({"engine": client.pid})

    def _on_failed(self, report: ErrorReport) -> None:
        if report.code is ErrorCode.ENGINE_DIED and not self._has_died:
            self._has_died = True
            QTimer.singleShot(200, lambda: _say({"died": True}))


def _say(fact: dict[str, object]) -> None:
    print(json.dumps(fact), flush=True)


def _end_with_input(window: MainWindow) -> None:
    def wait() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
    window.start()


def main() -> None:
    """Arguments: descriptor of the memory, settings file, backend, model, tokens a run."""
    descriptor, settings, backend, model, max_tokens = sys.argv[1:]
    worker_client.SharedMemory = lambda size: GivenMemory(size, int(descriptor))  # type: ignore[assignment,misc]
    app = QApplication(["draftscope"])
    window = make_window(app, Path(settings), backend)
    victim = Victim(window, model, int(max_tokens))
    _end_with_input(window)
    app.exec()
    del victim


if __name__ == "__main__":
    main()
