"""Colours of differences on a logarithmic scale: the same value has the same colour wherever it is drawn."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter

from draftscope.base.theme import Theme, mix

N_DECADES = 4
"""Decades below the largest difference that are told apart; what is smaller has the colour of the lowest."""

N_COLOURS = 256
BAR_WIDTH = 10.0


class HeatScale(NamedTuple):
    """Decimal logarithms of the least and the largest difference that have a colour of their own."""

    low: float
    high: float

    def shades(self, values: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Places in the palette of values of any shape: 0 for equal, 1 to 255 by size; NaN is as large as can be."""
        sizes = np.abs(values)
        with np.errstate(divide="ignore"):
            share = (np.log10(sizes) - self.low) / (self.high - self.low)
        shades = 1 + np.clip(np.nan_to_num(share, nan=1.0, neginf=0.0), 0, 1) * (N_COLOURS - 2)
        return np.where((sizes > 0) | np.isnan(values), shades, 0).astype(np.uint8)


def scale_for(largest: float) -> HeatScale:
    """The scale whose upper end is the power of ten at or above the largest difference; 1 where nothing differs."""
    high = math.ceil(math.log10(largest)) if largest > 0 and math.isfinite(largest) else 0
    return HeatScale(high - N_DECADES, high)


def equal_colour(theme: Theme) -> str:
    """The colour of what does not differ in any bit."""
    return mix(theme.panel, theme.ok, 0.22)


def palette(theme: Theme) -> NDArray[np.uint32]:
    """0xffRRGGBB by shade: equal, then from near the ground over the accent to the colour of text."""
    stops = (mix(theme.panel, theme.accent, 0.25), theme.accent, mix(theme.accent, theme.text, 0.85))
    shares = np.linspace(0, 1, N_COLOURS - 1)
    ramp = [mix(stops[0], stops[1], s * 2) if s < 0.5 else mix(stops[1], stops[2], s * 2 - 1) for s in shares.tolist()]
    return np.array([int(f"ff{colour[1:]}", 16) for colour in (equal_colour(theme), *ramp)], np.uint32)


def image_of(shades: NDArray[np.uint8], colours: NDArray[np.uint32]) -> QImage:
    """An image of shades, uint8 (rows, columns); it has memory of its own."""
    pixels = np.ascontiguousarray(colours[shades])
    height, width = pixels.shape
    return QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32).copy()


def legend_width(font: QFont) -> float:
    """Room that the legend needs at the right of a drawing."""
    return BAR_WIDTH + 10 + QFontMetricsF(font).horizontalAdvance("0.00001")


def draw_legend(painter: QPainter, area: QRectF, scale: HeatScale, theme: Theme, font: QFont) -> None:
    """A bar of the colours with the powers of ten, and under it the colour of what is equal."""
    metrics = QFontMetricsF(font)
    line = metrics.height()
    bar = QRectF(area.left(), area.top(), BAR_WIDTH, max(area.height() - 1.6 * line, line))
    shades = np.arange(N_COLOURS - 1, 0, -1, dtype=np.uint8)[:, None]
    painter.drawImage(bar, image_of(shades, palette(theme)))
    painter.setFont(font)
    drop = (metrics.ascent() - metrics.descent()) / 2
    n_steps = round(scale.high - scale.low)
    every = next((n for n in (1, 2) if n * bar.height() / n_steps >= line), n_steps)
    painter.setPen(QColor(theme.dim))
    for step in range(0, n_steps + 1, every):
        y = min(max(bar.top() + bar.height() * step / n_steps, area.top() + line / 2 - 2), bar.bottom() - line / 2 + 2)
        painter.drawText(QPointF(bar.right() + 5, y + drop), f"{10 ** (scale.high - step):g}")
    chip = QRectF(area.left(), area.bottom() - line + 2, BAR_WIDTH, line - 4)
    painter.fillRect(chip, QColor(equal_colour(theme)))
    painter.drawText(QPointF(bar.right() + 5, chip.center().y() + drop), "equal")
