"""The memory page of the Checkpoints panel: bytes by kind, and how they grow with the slots."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.protocol import MemoryUse
from draftscope.panels.figure_table import FigureTable
from draftscope.panels.fonts import figure_font
from draftscope.panels.memory_growth import MemoryGrowth
from draftscope.panels.memory_rows import COLUMNS, growth, table_rows
from draftscope.panels.paint_clock import PaintClock

GROWTH_MEANS = (
    "Keys and values, recurrent states, saved states and the MTP context grow with the slots; weights and compute"
    " buffers do not, and are left out. Every slot takes the same, so other numbers of slots are predicted from the"
    " bytes that the model file asks for a slot."
)


class CheckpointMemory(QScrollArea):
    """A table over bars."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._theme = theme
        self.table = FigureTable(theme, "Memory by kind")
        self.bars = MemoryGrowth(theme, clock)
        self._caption = QLabel("Memory of the slots, by their number")
        self._caption.setToolTip(GROWTH_MEANS)
        self._caption.setFont(figure_font(0.95))
        self._host = QWidget()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Memory by kind and its growth with the slots")
        layout = QVBoxLayout(self._host)
        layout.setContentsMargins(6, 2, 6, 6)
        layout.setSpacing(4)
        layout.addWidget(self.table)
        layout.addSpacing(6)
        layout.addWidget(self._caption)
        layout.addWidget(self.bars)
        layout.addStretch(1)
        self.setWidget(self._host)
        self.set_theme(theme)

    def show_memory(self, memory: Sequence[MemoryUse], n_slots: int) -> None:
        """Show the memory of ``n_slots`` slots."""
        self.table.show_table(COLUMNS, table_rows(memory, n_slots, self._theme))
        self.bars.show_bars(growth(memory, n_slots))

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.table.set_theme(theme)
        self.bars.set_theme(theme)
        self.setStyleSheet(f"QScrollArea {{ background: {theme.panel}; }}")
        self._host.setStyleSheet(f".QWidget {{ background: {theme.panel}; }}")
        self._caption.setStyleSheet(f"color: {theme.dim}; background: transparent; padding: 0 6px;")
