"""Takes records from the engine as they come, also while the window draws: what is recorded must not wait for a frame.

Where nothing is recorded there is no thread, and ``take`` reads by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from draftscope.engine.client import Client
from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray

PACE_S = 0.01
"""How often the thread looks while a run goes on."""


class Batch(NamedTuple):
    """What one look found, and whether a run went on then."""

    records: Records
    arrays: list[SideArray]
    is_of_run: bool


class RecordPump:
    """Reads the client's records and arrays, gives those of a run to ``record``, and keeps all for ``take``.

    ``record`` is called under ``lock``, by whichever thread reads. Who changes what it works on holds the lock, too.
    """

    def __init__(self, client: Client, record: Callable[[Records, list[SideArray]], None]) -> None:
        self.lock = threading.RLock()
        self._client = client
        self._record = record
        self._batches: list[Batch] = []
        self._is_run = False
        self._has_work = threading.Event()
        self._is_stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Read in a thread from now on, while a run goes on."""
        self._thread = threading.Thread(target=self._pump, name="record-pump", daemon=True)
        self._thread.start()

    def set_run(self, is_run: bool) -> None:
        """Whether what comes from now on belongs to a run; what is there by now belongs to what was before."""
        with self.lock:
            self._read()
            self._is_run = is_run
            if is_run:
                self._has_work.set()
            else:
                self._has_work.clear()

    def take(self) -> list[Batch]:
        """Everything that has come since the last call, up to this moment."""
        with self.lock:
            self._read()
            batches, self._batches = self._batches, []
        return batches

    def stop(self) -> None:
        """End the thread, and read what is left."""
        self._is_stopped.set()
        self._has_work.set()
        if self._thread is not None:
            self._thread.join()
        with self.lock:
            self._read()

    def _pump(self) -> None:
        while self._has_work.wait() and not self._is_stopped.wait(PACE_S):
            with self.lock:
                self._read()

    def _read(self) -> None:
        records, arrays = self._client.read_records(), self._client.read_arrays()
        if len(records) or arrays:
            if self._is_run:
                self._record(records, arrays)
            self._batches.append(Batch(records, arrays, self._is_run))
