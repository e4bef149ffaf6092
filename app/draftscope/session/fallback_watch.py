"""Tells of fallbacks while a run goes on: each in the log, and the first of its kind to whoever listens."""

from __future__ import annotations

from collections import Counter

from PySide6.QtCore import QObject, Signal

from draftscope.engine.events import Kind
from draftscope.session.log_book import LogBook
from draftscope.trace.fallback_words import FallbackKind, fallbacks_of
from draftscope.trace.store import TraceStore

MOST_LOGGED = 20
"""Fallbacks of one kind that are logged one by one in a run; the log says then that more are not."""


class FallbackWatch(QObject):
    """Follows the records of the run."""

    fell_back = Signal(object)
    """Carries the first ``Fallback`` of its kind in this run."""

    def __init__(self, log: LogBook, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._log = log
        self._generation = 0
        self._n_seen = 0
        self._n_of_kind: Counter[FallbackKind] = Counter()

    def follow(self, store: TraceStore) -> None:
        """Tell what has come since the last call; begins anew when the store was cleared for another run."""
        if store.generation != self._generation:
            self._generation, self._n_seen = store.generation, 0
            self._n_of_kind.clear()
        records = store.kind(Kind.FALLBACK)
        for fallback in fallbacks_of(records[self._n_seen :]):
            self._n_of_kind[fallback.kind] += 1
            n = self._n_of_kind[fallback.kind]
            if n <= MOST_LOGGED:
                self._log.note("warning", fallback.sentence)
            elif n == MOST_LOGGED + 1:
                self._log.note("warning", f"More of the same are not logged one by one: {fallback.kind.sentence}")
            if n == 1:
                self.fell_back.emit(fallback)
        self._n_seen = len(records)
