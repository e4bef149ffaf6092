"""The frame of a picture: plot area, scales, grid, legend as SVG. A picture is 1000 units wide and scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from draftscope.base import units
from draftscope.trace.report.markup import Html, element, joined

WIDTH = 1000.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 30.0, 30.0, 26.0
_CHARACTER = 6.6
"""Width of a character of 12 units, on average."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Scales of a picture. ``x``, ``y``: limits of the data, low to high; ``height`` of the whole."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: float = 240.0

    def at_x(self, value: float) -> float:
        """Where a value of x lies."""
        low, high = self.x
        return LEFT + (value - low) / ((high - low) or 1.0) * (WIDTH - LEFT - RIGHT)

    def at_y(self, value: float) -> float:
        """Where a value of y lies; y grows upwards."""
        low, high = self.y
        return self.height - BOTTOM - (value - low) / ((high - low) or 1.0) * (self.height - TOP - BOTTOM)

    def bar(self, x0: float, x1: float, y0: float, y1: float, colour: str, title: str = "") -> Html:
        """A filled part, in data coordinates, with what a pointer over it tells."""
        left, right, bottom, top = self.at_x(x0), self.at_x(x1), self.at_y(y0), self.at_y(y1)
        shape: dict[str, str | float] = {
            "x": left,
            "y": top,
            "width": max(right - left, 0.6),
            "height": max(bottom - top, 0.0),
            "fill": colour,
        }
        if not title:
            return element("rect", **shape)
        return element("g", element("title", title), element("rect", **shape))

    def grid(self, ticks: Iterable[tuple[float, str]]) -> Html:
        """Horizontal lines with their values."""
        parts = []
        for value, text in ticks:
            y = self.at_y(value)
            parts += [
                element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"),
                element("text", text, x=LEFT - 8, y=y + 4, text_anchor="end"),
            ]
        return joined(parts)

    def scale(self, ticks: Iterable[tuple[float, str]], *, has_lines: bool = False) -> Html:
        """Values under the plot."""
        bottom = self.height - BOTTOM
        parts = [element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="axis")]
        for value, text in ticks:
            x = self.at_x(value)
            if has_lines:
                parts.append(element("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="grid"))
            parts.append(element("text", text, x=x, y=bottom + 17, text_anchor="middle"))
        return joined(parts)

    def picture(self, label: str, *parts: str) -> Html:
        """The whole, with a name for those who do not see it."""
        return element("svg", joined(parts), viewBox=f"0 0 {WIDTH:g} {self.height:g}", role="img", aria_label=label)


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Names with their colours in a row above the plot."""
    parts, x = [], LEFT
    for name, colour in entries:
        parts += [
            element("rect", x=x, y=8.0, width=11.0, height=11.0, rx=2.0, fill=colour),
            element("text", name, x=x + 16, y=18.0),
        ]
        x += 16 + len(name) * _CHARACTER + 20
    return joined(parts)


def figure(caption: str, picture: Html) -> Html:
    """A picture under its caption."""
    return element("figure", element("figcaption", caption), picture)


def whole_ticks(high: float, most: int = 8) -> Iterator[tuple[float, str]]:
    """Round whole numbers from 0 to ``high``."""
    step = max(1, math.ceil(_round_step(high / most)))
    for value in range(0, math.floor(high) + 1, step):
        yield float(value), f"{value:,}"


def time_ticks(high_ns: float, most: int = 4) -> Iterator[tuple[float, str]]:
    """Round times from 0 to ``high_ns``, in one unit."""
    unit = units.time_unit(high_ns)
    step = _round_step(high_ns / unit[1] / most) * unit[1]
    value = 0.0
    while step > 0 and value <= high_ns * 1.0001:
        yield value, units.time_tick(value, step, unit)
        value += step


def _round_step(value: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not below."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.9999)
