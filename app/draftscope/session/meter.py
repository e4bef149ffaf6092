"""What the tool measures about itself: records received and dropped, and the time it takes to receive and draw."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from statistics import fmean

WINDOW_NS = 1_000_000_000
"""Rates and means are taken over the last second."""


@dataclass(slots=True)
class _Series:
    """Values of the last second with the times they came at."""

    points: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, now_ns: int, value: int) -> None:
        self.points.append((now_ns, value))
        self._forget(now_ns)

    def sum(self) -> int:
        self._forget(time.monotonic_ns())
        return sum(value for _, value in self.points)

    def mean(self) -> float:
        self._forget(time.monotonic_ns())
        return fmean(value for _, value in self.points) if self.points else 0.0

    def _forget(self, now_ns: int) -> None:
        while self.points and self.points[0][0] <= now_ns - WINDOW_NS:
            self.points.popleft()


class Meter:
    """Figures about the window itself. Times are means over the last second in milliseconds.

    ``n_records`` and ``n_dropped`` count the present run.
    """

    def __init__(self) -> None:
        self.n_records = 0
        self.n_dropped = 0
        self._received = _Series()
        self._receive_ns = _Series()
        self._draw_ns: dict[str, _Series] = {}

    def start_run(self) -> None:
        """Count records from 0 again."""
        self.n_records = 0
        self.n_dropped = 0

    def add_receive(self, n_records: int, duration_ns: int) -> None:
        """A poll received so many records and took so long."""
        now_ns = time.monotonic_ns()
        self.n_records += n_records
        self._received.add(now_ns, n_records)
        self._receive_ns.add(now_ns, duration_ns)

    def add_draw(self, panel: str, duration_ns: int) -> None:
        """A panel took so long to bring itself up to date."""
        self._draw_ns.setdefault(panel, _Series()).add(time.monotonic_ns(), duration_ns)

    @property
    def records_per_s(self) -> float:
        """Records received in the last second."""
        return float(self._received.sum())

    @property
    def receive_ms(self) -> float:
        """Mean time of a poll in the last second."""
        return self._receive_ns.mean() / 1e6

    @property
    def draw_ms(self) -> dict[str, float]:
        """Mean time of a panel's refresh in the last second, by the panel's id; 0 for panels at rest."""
        return {panel: series.mean() / 1e6 for panel, series in self._draw_ns.items()}

    @property
    def overhead(self) -> float:
        """Share of the last second that this window spent receiving and drawing, in [0, 1]."""
        spent = sum(series.sum() for series in (self._receive_ns, *self._draw_ns.values()))
        return min(spent / WINDOW_NS, 1.0)
