"""What a person sees in a terminal: one line of progress that erases itself, and tables of figures."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TextIO

from draftscope.base.units import figure, percent

_MIN_INTERVAL_S = 0.1


class ProgressLine:
    """A line on a terminal that is drawn over at most ten times a second; nothing where the stream is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._last_s = float("-inf")
        self._is_drawn = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, text: str, fraction: float | None = None) -> None:
        """Draw the text, with a percentage when a fraction in [0, 1] is known."""
        now = time.monotonic()
        if not self._is_terminal or now - self._last_s < _MIN_INTERVAL_S:
            return
        self._last_s = now
        self._is_drawn = True
        line = text if fraction is None else f"{text} {fraction:4.0%}"
        self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        self._stream.flush()

    def clear(self) -> None:
        """Erase the line."""
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_drawn = False


def table(header: Sequence[str], rows: Sequence[Sequence[str]], n_left: int = 1) -> str:
    """Columns as wide as they need, the first ``n_left`` to the left, the rest to the right; no trailing blanks."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    sides = ["<" if column < n_left else ">" for column in range(len(header))]
    template = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return "\n".join(template.format(*line).rstrip() for line in lines)


def figure_or_dash(value: float | None) -> str:
    """A figure of a summary, which may have none."""
    return "-" if value is None else figure(value)


def percent_or_dash(share: float | None) -> str:
    """A share of a summary, which may have none."""
    return "-" if share is None else percent(share)


def note(text: str) -> None:
    """Tell something beside the result, on stderr."""
    print(f"draftscope: {text}", file=sys.stderr)
