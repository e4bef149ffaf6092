"""Moves what was committed from SQLite's -wal file into the file: in a thread, since that waits for the disk."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path


class WalMover:
    """Moves pages when asked to; the thread that writes goes on meanwhile.

    Attributes:
        n_pages: pages in the -wal file at the last time, moved or not.
    """

    def __init__(self, path: Path) -> None:
        self.n_pages = 0
        self._path = path
        self._is_closing = False
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._move, name="trace-wal", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Move pages soon."""
        self._asked.set()

    def _move(self) -> None:
        database: sqlite3.Connection | None = None
        try:
            while self._asked.wait() and not self._is_closing:
                self._asked.clear()
                database = database or sqlite3.connect(self._path, isolation_level=None)
                _, self.n_pages, _ = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:
            return  # the recording finds out by itself
        finally:
            if database is not None:
                database.close()

    def close(self) -> None:
        """End the thread."""
        self._is_closing = True
        self._asked.set()
        self._thread.join()
