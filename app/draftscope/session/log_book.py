"""The lines that the engine and the session logged, the newest so many of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import islice

from draftscope.engine.protocol import LogLine

N_KEPT = 20_000
"""Lines held at most; the oldest go first."""


class LogBook:
    """A bounded list of lines that knows how many there ever were."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=N_KEPT)
        self._n_total = 0

    @property
    def lines(self) -> Sequence[LogLine]:
        """The newest lines, oldest first."""
        return self._lines

    @property
    def n_total(self) -> int:
        """Lines ever added; never falls."""
        return self._n_total

    def newest(self, n: int) -> list[LogLine]:
        """The ``n`` newest lines, as far as they are held; the oldest of them first."""
        return list(islice(self._lines, max(0, len(self._lines) - n), None))

    def append(self, line: LogLine) -> None:
        """Take a line."""
        self._lines.append(line)
        self._n_total += 1

    def note(self, level: str, text: str) -> None:
        """Take a line of the session's own, with the time of now."""
        self.append(LogLine(level, text, time.monotonic_ns()))
