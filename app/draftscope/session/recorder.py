"""Records each run into a file of its own while it goes on; never waits for the disk."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import LogLine, MemoryUse, ModelReport
from draftscope.engine.run_header import model_file_facts
from draftscope.session.recordings import Recordings
from draftscope.session.settings import Settings
from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile.writer import SMALL_RUN, TraceWriter

CLOSE_LIMIT_S = 10.0
"""How long the end of the program waits for files to be closed; a file that is not is whole all the same."""


class Recorder(QObject):
    """One file a run; a run that never began leaves none.

    Attributes:
        recordings: where the files are; None: nothing is recorded.
        problem: why the present run is not recorded any more; '' while it is.
    """

    changed = Signal()
    """What is recorded, or where, or why not."""
    failed = Signal(str)
    """Recording ended, and why; the run goes on."""

    def __init__(self, recordings: Recordings | None = None, settings: Settings | None = None) -> None:
        super().__init__()
        self.recordings = recordings
        self._settings = settings
        self.problem = ""
        self._writer: TraceWriter | None = None
        self._before: TraceWriter | None = None
        self._closing: list[TraceWriter] = []
        self._looking: threading.Thread | None = None

    @property
    def path(self) -> Path | None:
        """The file of the run that is here; None while it has none."""
        return self._writer.path if self._writer is not None else None

    @property
    def is_on(self) -> bool:
        """Whether runs that begin from now on are recorded."""
        return self.recordings is not None and (self._settings is None or self._settings.flag("recording/is_on"))

    # ---- the life of a run

    def begin(self, model: ModelReport, header: dict[str, Any], draft_path: str = "") -> None:
        """A run is about to begin. The file of the one before is closed when its first record is there."""
        if self._writer is not None:
            self._end(self._before)
            self._before = self._writer
        self._writer, self.problem = None, ""
        if self.is_on and self.recordings is not None:
            self._writer = self._new_writer(self.recordings, model, header)
            self._add_model_file(self._writer, model.path, draft_path)
            self.add_memory(header["clock"]["monotonic_ns"], model.memory)
        self.changed.emit()

    def _new_writer(self, recordings: Recordings, model: ModelReport, header: dict[str, Any]) -> TraceWriter:
        settings = self._settings
        if settings is not None:
            recordings.budget_bytes = settings.whole("recording/budget_mib") << 20
        return TraceWriter(
            recordings.new_path(model.path),
            header,
            with_text=settings is None or settings.flag("recording/with_text"),
            most_rows=SMALL_RUN,
            share=recordings.make_room,
            keeps_empty=False,
            waits=False,
        )

    def put_back(self) -> None:
        """The run that was to begin never did: the one before goes on."""
        self._end(self._writer)
        self._writer, self._before = self._before, None
        self.changed.emit()

    def end(self) -> None:
        """The run is over: no more of it will come."""
        self._end(self._before)
        self._end(self._writer)
        self._writer = self._before = None
        self.changed.emit()

    def _add_model_file(self, writer: TraceWriter, path: str, draft_path: str) -> None:
        """Look at the model's files in a thread: they may lie on slow disks."""

        def look() -> None:
            with contextlib.suppress(TraceError):  # the recording has ended by now
                writer.add_header(model_file_facts(path, draft_path))

        self._looking = threading.Thread(target=look, name="model-facts", daemon=True)
        self._looking.start()

    # ---- what comes

    def record(self, records: Records, arrays: list[SideArray]) -> None:
        """Take what has come for the run; any thread. An error is told by ``poll``."""
        writer = self._writer
        if writer is not None:
            with contextlib.suppress(TraceError):
                writer.append(records)
                writer.append_arrays(arrays)

    def add_header(self, values: dict[str, Any]) -> None:
        """Take more of the header, or anew."""
        self._give(lambda writer: writer.add_header(values))

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Take bytes of tokens."""
        self._give(lambda writer: writer.add_pieces(pieces))

    def add_results(self, results: Iterable[dict[str, Any]]) -> None:
        """Take results of tasks."""
        self._give(lambda writer: writer.add_results(results))

    def add_log(self, lines: Iterable[LogLine]) -> None:
        """Take lines of the log."""
        self._give(lambda writer: writer.add_log((line.t_ns, line.level, line.text) for line in lines))

    def add_memory(self, t_ns: int, memory: Iterable[MemoryUse]) -> None:
        """Take how much memory was in use at a moment."""
        self._give(
            lambda writer: writer.add_memory((t_ns, use.kind, use.host_bytes, use.device_bytes) for use in memory)
        )

    def rest(self) -> None:
        """No slot is at work any more: the file is whole, unless the run goes on."""
        self._give(lambda writer: writer.rest())

    def poll(self) -> None:
        """Tell of what happened in the writer's thread; close files that nobody needs any more."""
        if self._writer is not None and self._writer.error is not None:
            self._fail(self._writer.error)
        if self._before is not None and self._writer is not None and self._writer.has_records:
            self._end(self._before)
            self._before = None
        self._closing = [writer for writer in self._closing if not writer.is_ended]

    def close(self) -> None:
        """End the run, and wait until the files are closed, or have taken too long."""
        self.end()
        for writer in self._closing:
            with contextlib.suppress(TraceError):
                writer.close(CLOSE_LIMIT_S)
        self._closing.clear()
        if self._looking is not None:
            self._looking.join(CLOSE_LIMIT_S)

    def _give(self, give: Callable[[TraceWriter], None]) -> None:
        if self._writer is not None:
            with contextlib.suppress(TraceError):  # which ``poll`` tells
                give(self._writer)

    def _fail(self, error: TraceError) -> None:
        self._end(self._writer)
        self._writer, self.problem = None, str(error)
        self.failed.emit(self.problem)
        self.changed.emit()

    def _end(self, writer: TraceWriter | None) -> None:
        if writer is not None:
            writer.end()
            self._closing.append(writer)
