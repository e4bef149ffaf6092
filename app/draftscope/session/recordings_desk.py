"""What the window does with recordings: all of it waits for the disk, so all of it is done in a thread, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.session.recordings import Recordings
from draftscope.trace.errors import TraceCancelled, TraceError
from draftscope.trace.tracefile import TraceFacts, copy_trace, finish_recording, remove_trace


@dataclass(frozen=True, slots=True)
class Listing:
    """All recordings, the newest first, and the names of those that are pinned."""

    facts: tuple[TraceFacts, ...] = ()
    pinned: frozenset[str] = frozenset()

    @property
    def size_bytes(self) -> int:
        """What they take together."""
        return sum(facts.size_bytes for facts in self.facts)


class RecordingsDesk(QObject):
    """Takes requests, which return at once; signals tell what came of them."""

    listed = Signal(object)
    """Carries a ``Listing``."""
    cut_off_found = Signal(object)
    """Carries a list of ``TraceFacts``; not sent when there is none."""
    changed = Signal()
    """Files were removed, made whole, pinned or unpinned."""
    kept = Signal(object)
    """Carries the path of a recording that was cut off and is a whole file now."""
    copied = Signal(object)
    """Carries the path of a copy."""
    copy_progressed = Signal(float)
    copy_ended = Signal()
    """It was written, failed or was cancelled."""
    failed = Signal(str)
    """Something could not be done, and why."""

    def __init__(self, recordings: Recordings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.recordings = recordings
        self._thread = ThreadPoolExecutor(1, "recordings")
        self._cancel = threading.Event()
        self._is_closed = False

    def ask_list(self) -> None:
        """Look what there is."""

        def look() -> None:
            facts = self.recordings.all_facts(lambda: self._is_closed)
            self.listed.emit(Listing(tuple(facts), self.recordings.pinned()))

        self._do(look)

    def ask_cut_off(self) -> None:
        """Look whether a process was killed while it recorded."""

        def look() -> None:
            if found := self.recordings.cut_off():
                self.cut_off_found.emit(found)

        self._do(look)

    def keep(self, path: Path) -> None:
        """Make one whole file of a recording that was cut off."""

        def work() -> None:
            finish_recording(path)
            self.kept.emit(path)
            self.changed.emit()

        self._do(work)

    def remove(self, paths: Sequence[Path]) -> None:
        """Delete recordings."""

        def work() -> None:
            try:
                for path in paths:
                    remove_trace(path)
            finally:
                self.changed.emit()

        self._do(work)

    def set_pinned(self, paths: Sequence[Path], is_pinned: bool) -> None:
        """Let recordings stay when there is no room any more, or let them go."""

        def work() -> None:
            self.recordings.set_pinned(paths, is_pinned)
            self.changed.emit()

        self._do(work)

    def copy(self, path: Path, target: Path, *, with_text: bool) -> None:
        """Write a copy, with the tables for persons; ``cancel_copy`` ends it."""
        self._cancel.clear()

        def work() -> None:
            try:
                copy_trace(
                    path,
                    target,
                    with_text=with_text,
                    progress=self.copy_progressed.emit,
                    cancelled=self._cancel.is_set,
                )
                self.copied.emit(target)
            except TraceCancelled:
                pass
            finally:
                self.copy_ended.emit()

        self._do(work)

    def cancel_copy(self) -> None:
        """End the copy that is being written; nothing of it is left."""
        self._cancel.set()

    def close(self) -> None:
        """Drop what is still to be done, and wait for what is being done."""
        self._is_closed = True
        self._cancel.set()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _do(self, work: Callable[[], object]) -> None:
        if not self._is_closed:
            self._thread.submit(self._safely, work)

    def _safely(self, work: Callable[[], object]) -> None:
        try:
            work()
        except TraceError as error:
            self.failed.emit(str(error))
        except Exception as error:  # the thread must not end without a word
            self.failed.emit(f"{type(error).__name__}: {error}")
