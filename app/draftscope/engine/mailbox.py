"""The caller's side of a conversation with an engine, whatever carries it: open commands, answers, rings of records."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from draftscope.engine.array_ring import ArrayRing
from draftscope.engine.errors import ErrorReport
from draftscope.engine.events import Records, empty_records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import (
    Answer,
    Cancelled,
    CommandId,
    Done,
    Failed,
    Finished,
    Loaded,
)
from draftscope.engine.ring import Ring

_RECORDS_POLL_S = 0.004
"""Records come through memory and wake nobody: this is how often a waiting caller looks for them."""


class Mailbox:
    """Answers not yet drained and commands not yet closed. Any thread may call anything."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answers: deque[Answer] = deque()
        self._open: Counter[CommandId] = Counter()
        self._last_sent_ns = 0
        self._n_ids = 0

    def next_id(self) -> CommandId:
        """An id that was not given before."""
        with self._changed:
            self._n_ids += 1
            return CommandId(self._n_ids)

    def open(self, command: CommandId) -> None:
        """Note a command that is being sent."""
        with self._changed:
            self._open[command] += 1
            self._last_sent_ns = time.monotonic_ns()

    def put(self, answer: Answer) -> None:
        """Take an answer; a closing one closes its command, and is dropped when the command is not open."""
        with self._changed:
            if isinstance(answer, Loaded | Finished | Cancelled | Done | Failed):
                if not self._open[answer.command]:
                    del self._open[answer.command]
                    return
                self._open -= Counter([answer.command])
            self._answers.append(answer)
            self._changed.notify_all()

    def fail_open(self, error: ErrorReport) -> None:
        """Close every open command with a failure."""
        with self._changed:
            for command in list(self._open.elements()):
                self.put(Failed(command, error))

    def drain(self) -> list[Answer]:
        """All answers that are there, in order; never blocks."""
        with self._changed:
            answers = list(self._answers)
            self._answers.clear()
        return answers

    def wait(self, timeout_s: float, has_records: Callable[[], bool]) -> bool:
        """Block until there are answers or records, or the time is over; False in the latter case."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while True:
                if self._answers or has_records():
                    return True
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, _RECORDS_POLL_S))

    @property
    def busy_since_ns(self) -> int | None:
        """When the last command was sent, if any is open."""
        with self._changed:
            return self._last_sent_ns if self._open else None


class RingChain:
    """The rings of the engine that runs, after those of engines that ended, until they are read to their end.

    One thread reads, which may be another than the one that adds rings and asks for the rest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings: deque[tuple[Ring, ArrayRing | None]] = deque()
        self._n_dropped_before = self._n_arrays_dropped_before = 0

    def add(self, ring: Ring, arrays: ArrayRing | None = None) -> None:
        """Go on with new rings once the present ones are read."""
        with self._lock:
            self._rings.append((ring, arrays))
            self._skip_ended()

    def read(self) -> Records:
        """Records of the oldest ring that has any; never of two rings, since their sequence numbers begin anew."""
        with self._lock:
            self._skip_ended()
            return next((ring.read() for ring, _ in self._rings if ring.n_waiting), empty_records())

    def read_arrays(self) -> list[SideArray]:
        """The side arrays of all rings, in order."""
        with self._lock:
            return [array for _, arrays in self._rings if arrays is not None for array in arrays.read()]

    def _skip_ended(self) -> None:
        while len(self._rings) > 1 and _is_empty(*self._rings[0]):
            ring, arrays = self._rings.popleft()
            self._n_dropped_before += ring.n_dropped
            self._n_arrays_dropped_before += arrays.n_dropped if arrays is not None else 0

    @property
    def has_records(self) -> bool:
        """Whether ``read`` or ``read_arrays`` would return any."""
        with self._lock:
            return any(not _is_empty(ring, arrays) for ring, arrays in self._rings)

    @property
    def n_dropped(self) -> int:
        """Records lost, in all rings there have been."""
        with self._lock:
            return self._n_dropped_before + sum(ring.n_dropped for ring, _ in self._rings)

    @property
    def n_arrays_dropped(self) -> int:
        """Side arrays lost, in all rings there have been."""
        with self._lock:
            here = sum(arrays.n_dropped for _, arrays in self._rings if arrays is not None)
            return self._n_arrays_dropped_before + here

    @property
    def operation(self) -> str:
        """What the newest engine is at, or was."""
        with self._lock:
            return self._rings[-1][0].operation_words() if self._rings else ""

    @property
    def heartbeat_ns(self) -> int:
        """Last sign of life of the newest engine."""
        with self._lock:
            return self._rings[-1][0].heartbeat_ns if self._rings else 0


def _is_empty(ring: Ring, arrays: ArrayRing | None) -> bool:
    return not ring.n_waiting and (arrays is None or arrays.is_empty)
