"""Opening trace files beside the live run: in a thread, with progress and cancel, watched from the frame clock."""

from __future__ import annotations

import threading
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.session.exports import Exports
from draftscope.session.opened_trace import OpenedTrace, ReadTrace
from draftscope.trace.errors import TraceCancelled, TraceError
from draftscope.trace.pieces import PieceTable
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile.follower import TraceFollower
from draftscope.trace.tracefile.lock import is_being_recorded
from draftscope.trace.tracefile.reader import read_trace

FOLLOW_EVERY = 6
"""Polls between two looks at a file that is being recorded: ten a second on a clock of 60 Hz."""


class TraceReading:
    """Reads a file in a thread of its own. Any thread may read ``fraction``, ``is_done``, ``error``, ``read``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fraction = 0.0
        self.error = ""
        self.read: ReadTrace | None = None
        self._cancel = threading.Event()
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trace-reading", daemon=True)

    @property
    def is_done(self) -> bool:
        """Whether the thread has ended its work: read, failed or cancelled."""
        return self._is_done.is_set()

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop soon; nothing is opened then."""
        self._cancel.set()

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self.read = self._open()
        except TraceCancelled:
            self._cancel.set()
        except (TraceError, OSError) as error:
            self.error = str(error)
        except Exception as error:  # the thread must not end without a word
            self.error = f"{self.path} could not be read: {type(error).__name__}: {error}"
        finally:
            if self._cancel.is_set():
                self.read = None
            self._is_done.set()

    def _open(self) -> ReadTrace:
        if is_being_recorded(self.path):
            read = _followed(self.path)
        else:
            read = ReadTrace(self.path, read_trace(self.path, self._note, self._cancel.is_set))
        read.acceptance.update(read.trace.store)
        return read

    def _note(self, fraction: float) -> None:
        self.fraction = fraction


def _followed(path: Path) -> ReadTrace:
    """What a recording has by now, and what reads on in it."""
    follower = TraceFollower(path)
    part = follower.poll()
    trace = Trace(part.header, results=part.results, pieces=PieceTable(part.pieces), is_complete=part.is_complete)
    trace.store.append(part.records)
    trace.store.append_arrays(part.arrays)
    trace.log, trace.memory, trace.missing = list(part.log), list(part.memory), follower.missing
    return ReadTrace(path, trace, follower=None if part.is_ended else follower)


class OpenedTraces(QObject):
    """At most one trace is read, and one is open, at a time. ``poll`` is called on the frame clock."""

    progressed = Signal(str, float)
    """The file that is being read, and how far that is, in [0, 1]."""
    reading_ended = Signal()
    """It was read, could not be, or was cancelled."""
    opened = Signal()
    """``current`` is another trace."""
    failed = Signal(object)
    """A file could not be opened: carries the ``ErrorReport``."""

    def __init__(self, exports: Exports, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exports = exports
        self.current: OpenedTrace | None = None
        self._reading: TraceReading | None = None
        self._told = -1.0
        self._n_polls = 0

    @property
    def is_reading(self) -> bool:
        """Whether a file is being read."""
        return self._reading is not None

    def open(self, path: Path) -> None:
        """Read a file; one that is being read is given up."""
        self._give_up()
        self._reading = TraceReading(path)
        self._told = -1.0
        self._reading.start()

    def cancel(self) -> None:
        """Give up what is being read."""
        if self._reading is not None:
            self._give_up()
            self.reading_ended.emit()

    def close_current(self) -> None:
        """Forget the trace that is open."""
        self.current = None

    def poll(self) -> None:
        """Tell how far reading is, take what was read, and what was written to a file that is followed."""
        self._n_polls += 1
        if self.current is not None and self._n_polls % FOLLOW_EVERY == 0:
            self.current.poll()
        reading = self._reading
        if reading is None:
            return
        if reading.fraction != self._told:
            self._told = reading.fraction
            self.progressed.emit(reading.path.name, reading.fraction)
        if reading.is_done:
            self._take(reading)

    def _take(self, reading: TraceReading) -> None:
        reading.join()
        self._reading = None
        self.reading_ended.emit()
        if reading.read is not None:
            self.current = OpenedTrace(reading.read, self._exports, self)
            self.opened.emit()
        elif reading.error:
            self.failed.emit(ErrorReport(ErrorCode.BAD_FILE, reading.error, ""))

    def close(self) -> None:
        """End the thread that reads; harmless when there is none."""
        self._give_up()

    def _give_up(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading.join()
            self._reading = None
