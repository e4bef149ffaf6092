"""Reads what a model file says about itself in a thread, since files may lie on slow disks."""

from __future__ import annotations

import threading
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.model_file import ModelFile, inspect_model


class ModelInspection(QObject):
    """Inspects one file at a time; answers about files that were asked for earlier are dropped."""

    inspected = Signal(object)
    """Carries a ``ModelFile``, or an ``ErrorReport`` when the file cannot be read."""
    _answered = Signal(int, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._generation = 0
        self._threads: list[threading.Thread] = []
        self._answered.connect(self._on_answered)

    def ask(self, path: Path, draft_path: Path | None = None) -> None:
        """Start to inspect a file, with its draft model where there is one."""
        self._generation += 1
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(
            target=self._work, args=(self._generation, path, draft_path), name="model-inspection", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Drop what is still to come and wait for the threads."""
        self._generation += 1
        for thread in self._threads:
            thread.join()

    def _work(self, generation: int, path: Path, draft_path: Path | None) -> None:
        answer: ModelFile | ErrorReport
        try:
            answer = inspect_model(path, draft_path or "")
        except EngineError as error:
            answer = error.report()
        except OSError as error:
            answer = ErrorReport(ErrorCode.BAD_FILE, f"{path} cannot be read: {error.strerror or error}.")
        self._answered.emit(generation, answer)

    def _on_answered(self, generation: int, answer: ModelFile | ErrorReport) -> None:
        if generation == self._generation:
            self.inspected.emit(answer)
