"""A logarithmic scale of times: where its ticks stand, and how they are written, in one unit. No Qt.

Positions are decimal logarithms of microseconds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from draftscope.base.units import TimeUnit, figure, time_unit

MIN_SPAN = 1.0
"""Decades shown at least, so that a narrow band of times is seen as what it is."""

_NARROW = 2.2
"""Below so many decades, 2 and 5 are written too."""


class Span(NamedTuple):
    """A stretch of the scale."""

    low: float
    high: float


class Tick(NamedTuple):
    """A tick and its text; '' for one that is only a line."""

    place: float
    text: str


def log_us(duration_us: float) -> float:
    """A time's place on the scale; nothing is shorter than a nanosecond."""
    return math.log10(max(duration_us, 1e-3))


def span_around(low_us: float, high_us: float) -> Span:
    """The span that shows these times with a margin."""
    low, high = log_us(low_us), log_us(high_us)
    spare = max((MIN_SPAN - (high - low)) / 2, 0.12)
    return Span(low - spare, high + spare)


def unit_of(span: Span) -> TimeUnit:
    """The unit of the whole scale: that of its lower end, microseconds at least."""
    return time_unit(max(10**span.low, 1.0) * 1e3)


def figure_in(duration_us: float, unit: TimeUnit) -> str:
    """A time in a unit that others share, without its name: ``48.6`` or ``1,390``."""
    value = duration_us * 1e3 / unit[1]
    return f"{value:,.0f}" if value >= 1000 else figure(value)


def ticks(span: Span) -> list[Tick]:
    """Ticks at the powers of ten, and between them where there are few."""
    marks = (1, 2, 5) if span.high - span.low < _NARROW else (1,)
    unit = unit_of(span)
    found = []
    for power in range(math.floor(span.low), math.ceil(span.high) + 1):
        for mark in marks:
            place = power + math.log10(mark)
            if span.low <= place <= span.high:
                found.append(Tick(place, tick_text(place, unit)))
    return found


def tick_text(place: float, unit: TimeUnit) -> str:
    """A tick in words, such as ``1,000 µs``."""
    name, length = unit
    value = 10**place * 1e3 / length
    decimals = max(0, -math.floor(math.log10(value) + 1e-9))
    return f"{value:,.{decimals}f} {name}"
