"""How far an export is, and whether it shall go on."""

from __future__ import annotations

from collections.abc import Callable

from draftscope.trace.errors import TraceCancelled

Progress = Callable[[float], object]
"""Told the fraction done in [0, 1]: rising, 1 at the end."""

Cancelled = Callable[[], bool]
"""Asked often; True ends the export."""


class Watch:
    """Counts what is done of ``n_all`` parts, and asks after each whether to go on."""

    def __init__(self, n_all: int, progress: Progress | None = None, cancelled: Cancelled | None = None) -> None:
        self._n_all = n_all
        self._progress = progress or (lambda _fraction: None)
        self._cancelled = cancelled or (lambda: False)
        self._n_done = 0.0

    def check(self, n_more: float = 0) -> None:
        """Tell the fraction, with ``n_more`` parts beyond those counted.

        Raises:
            TraceCancelled: somebody asked to stop.
        """
        if self._cancelled():
            raise TraceCancelled("The export was cancelled.")
        self._progress(min((self._n_done + n_more) / self._n_all, 1.0) if self._n_all else 1.0)

    def add(self, n: float) -> None:
        """Count ``n`` parts as done, and check."""
        self._n_done += n
        self.check()
