"""Measures what the views of a panel spend on painting, which Qt does later than the refresh that asked for it."""

from __future__ import annotations

import time
from types import TracebackType


class PaintClock:
    """A context manager to paint in; adds up the time until it is taken."""

    def __init__(self) -> None:
        self._spent_ns = 0
        self._started_ns = 0

    def __enter__(self) -> PaintClock:
        self._started_ns = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spent_ns += time.perf_counter_ns() - self._started_ns

    def take_ns(self) -> int:
        """Time spent since the last call, in nanoseconds."""
        spent, self._spent_ns = self._spent_ns, 0
        return spent
