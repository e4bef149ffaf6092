"""Saved, restored and would-have-been hidden row over their dimensions, or how far they are apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from draftscope.base import units
from draftscope.base.theme import Theme, mix, readable
from draftscope.engine.probes import RESTORED, SAVED, WITHOUT
from draftscope.panels.fonts import figure_font
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.plot import Axis, EndLabel, Plot

N_NAMED = 3
"""Dimensions that differ most, which are named."""


NAME_ROOM = 22.0
"""Pixels over peaks and under troughs for the name of a dimension."""


class Worst(NamedTuple):
    """A dimension and its difference."""

    dimension: int
    difference: float


def worst_dimensions(difference: NDArray[np.float32]) -> list[Worst]:
    """Those that differ most, the worst first; none where nothing differs."""
    order = np.argsort(-np.abs(np.nan_to_num(difference, nan=np.inf)), kind="stable")[:N_NAMED].tolist()
    return [Worst(index, float(difference[index])) for index in order if difference[index] != 0]


class RowPlot(Plot):
    """Lines in one colour each, named at their ends; wheel zooms, drag pans, a double click shows all."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        self._curves: dict[str, pg.PlotDataItem] = {}
        self._names: list[pg.TextItem] = []
        super().__init__(theme, Axis("bottom", "{:.0f}".format, is_whole=True), Axis("left", units.figure), clock)
        for name in ("without", "saved", "restored"):
            self._curves[name] = self.plot()
        for _ in range(N_NAMED):
            text = pg.TextItem(anchor=(0.5, 1.0))
            text.setFont(figure_font(0.9))
            self.addItem(text, ignoreBounds=True)
            self._names.append(text)
        self.getPlotItem().setLimits(xMin=-0.5, minXRange=8.0)
        self.setAccessibleName("Hidden rows over dimensions")
        self.setToolTip("Wheel zooms, drag pans, a double click shows all")
        self._restyle()

    @property
    def named(self) -> list[str]:
        """The dimensions that are named."""
        return [text.toPlainText() for text in self._names if text.isVisible()]

    def show_rows(self, rows: NDArray[np.float32]) -> None:
        """The three rows themselves, float32 (3, E)."""
        self._set("saved", rows[SAVED])
        self._set("restored", rows[RESTORED])
        self._set("without", rows[WITHOUT])
        self._name([], rows[SAVED])
        self._show(("saved", "restored", "without"), rows.min(), rows.max())

    def show_differences(self, rows: NDArray[np.float32]) -> None:
        """How far restored row and row without the hook are from the saved one; the worst of the restored is named."""
        restored, without = rows[RESTORED] - rows[SAVED], rows[WITHOUT] - rows[SAVED]
        self._set("saved", np.zeros(0, np.float32))
        self._set("restored", restored)
        self._set("without", without)
        is_equal = not restored.any()
        self._name(worst_dimensions(without if is_equal else restored), without if is_equal else restored)
        both = np.concatenate([restored, without])
        self._show(("restored", "without"), both.min(), both.max())

    def _set(self, name: str, row: NDArray[np.float32]) -> None:
        self._curves[name].setData(np.arange(len(row)), row)

    def _name(self, worst: list[Worst], row: NDArray[np.float32]) -> None:
        """Names stand over peaks and under troughs; one that would run into a worse one is left out."""
        taken: list[int] = []
        for text in self._names:
            text.setVisible(False)
        for text, (dimension, difference) in zip(self._names, worst, strict=False):
            if any(abs(dimension - other) < len(row) / 6 for other in taken):
                continue
            taken.append(dimension)
            text.setText(f"{dimension}: {units.figure(difference)}")
            text.setAnchor((0.5, 1.0 if difference > 0 else 0.0))
            text.setPos(min(max(dimension, len(row) * 0.08), len(row) * 0.92), difference)
            text.setVisible(True)

    def _show(self, names: tuple[str, ...], low: float, high: float) -> None:
        share = min(NAME_ROOM / max(self.view.height(), 1.0), 0.3)  # of the height, for the names of dimensions
        spare = max(float(high - low), 1e-9) * share / (1 - 2 * share)
        self.view.setYRange(float(low) - spare, float(high) + spare, padding=0.0)
        words = {"saved": "saved", "restored": "restored", "without": "without hook"}
        labels = []
        for name in names:
            x, y = self._curves[name].getData()
            if x is not None and len(x):
                labels.append(EndLabel(float(y[-1]), words[name], self._text_colour(name)))
        self.labels.show_labels(labels)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        super().set_theme(theme)
        self._restyle()

    def _text_colour(self, name: str) -> str:
        theme = self._theme
        return readable(self._colour(name), theme.panel, theme.text)

    def _colour(self, name: str) -> str:
        theme = self._theme
        return {"saved": theme.ok, "restored": theme.accent, "without": mix(theme.panel, theme.dim, 0.75)}[name]

    def _restyle(self) -> None:
        styles = {"saved": Qt.PenStyle.SolidLine, "restored": Qt.PenStyle.DashLine, "without": Qt.PenStyle.DotLine}
        for name, curve in self._curves.items():
            curve.setPen(pg.mkPen(self._colour(name), width=1, style=styles[name]))
        for text in self._names:
            text.setColor(QColor(self._theme.text))
