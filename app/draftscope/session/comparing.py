"""Reads the runs of two sides and compares them, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.trace.compare import Comparison, compare
from draftscope.trace.compare_words import name_words
from draftscope.trace.errors import TraceCancelled, TraceError
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile.reader import read_trace


@dataclass(frozen=True, slots=True)
class Side:
    """What is compared: files, or the run that ``make_trace`` gives, which is called in the thread."""

    paths: tuple[Path, ...] = ()
    make_trace: Callable[[], Trace] | None = None

    @property
    def n_runs(self) -> int:
        """How many runs it has."""
        return 1 if self.make_trace is not None else len(self.paths)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it: names of both sides and the comparison, or why there is none."""

    names: tuple[str, str] = ("", "")
    comparison: Comparison | None = None
    error: str = ""


class Comparing(QObject):
    """One comparison; ``answered`` comes once, unless it was closed before."""

    answered = Signal(object)
    """Carries the ``Answer``."""
    progressed = Signal(float)
    """Fraction of the reading, in [0, 1]."""

    def __init__(self, ours: Side, theirs: Side, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._sides = (ours, theirs)
        self._n_read = 0
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._work, name="comparing", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Give up and wait for the thread; harmless when it has ended."""
        self._cancel.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        try:
            answer = self._answer()
        except TraceCancelled:
            return
        except TraceError as error:
            answer = Answer(error=str(error))
        except Exception as error:  # the thread must not end without a word
            answer = Answer(error=f"The runs could not be compared: {type(error).__name__}: {error}")
        if not self._cancel.is_set():
            self.answered.emit(answer)

    def _answer(self) -> Answer:
        ours, theirs = (self._read(side) for side in self._sides)
        first, second = (_name(side, traces) for side, traces in zip(self._sides, (ours, theirs), strict=True))
        return Answer((first, second), compare(ours, theirs))

    def _read(self, side: Side) -> list[Trace]:
        if side.make_trace is not None:
            return [side.make_trace()]
        traces = []
        for path in side.paths:
            traces.append(read_trace(path, self._note, self._cancel.is_set))
            self._n_read += 1
        return traces

    def _note(self, fraction: float) -> None:
        n_all = max(sum(len(side.paths) for side in self._sides), 1)
        self.progressed.emit((self._n_read + fraction) / n_all)


def _name(side: Side, traces: list[Trace]) -> str:
    name = name_words(side.paths[0] if side.paths else None, traces[0])
    if side.make_trace is not None:
        name = f"the run that was shown · {name}"
    return f"{name} and {len(traces) - 1} more" if len(traces) > 1 else name
