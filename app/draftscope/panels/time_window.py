"""The stretch of time that a timeline shows, and the ticks of its axis. No Qt.

Times are int64 nanoseconds of the run's clock; pixels are counted from the left edge of the lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

MIN_SPAN_NS = 1_000
"""The closest zoom: a microsecond across the whole width."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From ``t0_ns`` to ``t1_ns`` over ``width`` pixels; every change gives a new window."""

    t0_ns: int
    t1_ns: int
    width: int

    @property
    def span_ns(self) -> int:
        """Length of the window, at least 1."""
        return max(self.t1_ns - self.t0_ns, 1)

    def x_of(self, t_ns: float) -> float:
        """The pixel of a time."""
        return (t_ns - self.t0_ns) * self.width / self.span_ns

    def t_of(self, x: float) -> int:
        """The time of a pixel."""
        return self.t0_ns + round(x * self.span_ns / max(self.width, 1))

    def panned(self, pixels: float) -> TimeWindow:
        """Moved so that what was at x is at x + ``pixels``."""
        shift = round(pixels * self.span_ns / max(self.width, 1))
        return TimeWindow(self.t0_ns - shift, self.t1_ns - shift, self.width)

    def zoomed(self, factor: float, x: float, longest_ns: int) -> TimeWindow:
        """``factor`` > 1 comes closer; the time at ``x`` stays where it is. Never longer than ``longest_ns``."""
        span = min(max(round(self.span_ns / factor), MIN_SPAN_NS), max(longest_ns, MIN_SPAN_NS))
        share = x / max(self.width, 1)
        t0 = round(self.t_of(x) - share * span)
        return TimeWindow(t0, t0 + span, self.width)

    def kept_near(self, first_ns: int, last_ns: int) -> TimeWindow:
        """Moved so that at least a tenth of the window shows some of [first_ns, last_ns]."""
        margin = self.span_ns // 10
        low, high = first_ns - self.span_ns + margin, last_ns - margin
        t0 = min(max(self.t0_ns, low), max(high, low))
        return TimeWindow(t0, t0 + self.span_ns, self.width)

    def following(self, last_ns: int) -> TimeWindow:
        """The same length, with ``last_ns`` near the right edge."""
        t1 = last_ns + self.span_ns // 50
        return TimeWindow(t1 - self.span_ns, t1, self.width)


def fitted(first_ns: int, last_ns: int, width: int) -> TimeWindow:
    """A window that shows all of a range with a small margin."""
    margin = max((last_ns - first_ns) // 100, MIN_SPAN_NS // 2)
    return TimeWindow(first_ns - margin, last_ns + margin, width)


def tick_step_ns(span_ns: int, width: int, least_pixels: int) -> int:
    """The smallest of 1, 2 or 5 times a power of ten that keeps ticks ``least_pixels`` apart, in nanoseconds."""
    wanted = span_ns * least_pixels / max(width, 1)
    step = 1
    while True:
        for factor in (1, 2, 5):
            if factor * step >= wanted:
                return factor * step
        step *= 10


def ticks_ns(window: TimeWindow, origin_ns: int, least_pixels: int) -> tuple[list[int], int]:
    """Times of the ticks in the window, on whole steps from ``origin_ns``, and the step."""
    step = tick_step_ns(window.span_ns, window.width, least_pixels)
    first = -((origin_ns - window.t0_ns) // step)
    last = (window.t1_ns - origin_ns) // step
    return [origin_ns + number * step for number in range(first, last + 1)], step
