"""PySide6 6.12.0 gives back None once too often for each painted curve, until Python 3.11 ends; no other may."""

from __future__ import annotations

import sys

import numpy as np
import pyqtgraph
import pytest
from pytestqt.qtbot import QtBot

N_PAINTS = 400


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is not counted from Python 3.12 on")
def test_that_live_plotting_gives_back_no_more_references_to_none_than_it_took(qtbot: QtBot) -> None:
    plot = pyqtgraph.PlotWidget()
    qtbot.addWidget(plot)
    plot.resize(320, 200)
    curve = plot.plot()
    plot.show()
    plot.grab()
    before = sys.getrefcount(None)
    for turn in range(N_PAINTS):
        curve.setData(np.sin(np.arange(100) + turn))
        plot.grab()
    # Objects that live on hold a few; one lost for each paint would be hundreds.
    assert sys.getrefcount(None) - before > -N_PAINTS // 2
