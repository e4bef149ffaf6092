"""The first page of the Checkpoints panel: every save and restore over rounds, and their medians."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.protocol import ModelReport
from draftscope.panels.checkpoint_words import after_words, no_saves, timing_words
from draftscope.panels.decades import log_us
from draftscope.panels.event_plot import PHASE_OF, EventPlot
from draftscope.panels.fonts import figure_font
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.plot import EndLabel
from draftscope.panels.slot_markers import SlotMarkers
from draftscope.trace.checkpoints import DEFINITIONS, EVENTS, CheckpointTable
from draftscope.trace.fallback_words import MECHANISMS

ALL_SLOTS = -1

_MEANS = (
    f"save: {DEFINITIONS['save_us']}.",
    f"restore: {DEFINITIONS['restore_us']}.",
    f"decodes after it: {DEFINITIONS['after_restore_us']}.",
)


class CheckpointTimes(QWidget):
    """Figures over the plot; a chooser of the slot and the key to the markers beside them."""

    changed = Signal()
    """The user asked for another slot, or moved the plot."""

    def __init__(self, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._theme = theme
        self.plot = EventPlot(theme, clock)
        self.plot.setMinimumHeight(90)
        self.plot.range_changed.connect(self.changed)
        self._figures = QLabel()
        self._note = QLabel()
        self._slot = QComboBox()
        self._markers = SlotMarkers(theme)
        self._slots: tuple[int, ...] = ()
        self._build()
        self.set_theme(theme)

    def _build(self) -> None:
        self._slot.setAccessibleName("Slot whose saves and restores are drawn")
        self._slot.setToolTip("Draw the saves and restores of one slot, or of all")
        self._slot.addItem("all slots", ALL_SLOTS)
        self._slot.currentIndexChanged.connect(self.changed)
        self._figures.setToolTip("\n".join(_MEANS))
        self._figures.setFont(figure_font(0.95))
        self._figures.setTextFormat(Qt.TextFormat.RichText)
        self._figures.setWordWrap(True)
        self._figures.setContentsMargins(6, 2, 6, 0)
        keys = QHBoxLayout()
        keys.setContentsMargins(6, 0, 6, 0)
        keys.addWidget(self._markers, 1)
        keys.addWidget(self._slot)
        self._note.setWordWrap(True)
        self._note.setFont(figure_font(0.92))
        self._note.setContentsMargins(6, 0, 6, 0)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._figures)
        layout.addLayout(keys)
        layout.addWidget(self._note)
        layout.addWidget(self.plot, 1)

    @property
    def words(self) -> str:
        """The figures and the note, as text."""
        return f"{self._figures.text()} {self._note.text()}"

    @property
    def slot(self) -> int | None:
        """The slot chosen; None for all."""
        chosen = int(self._slot.currentData())
        return None if chosen == ALL_SLOTS else chosen

    def show_slot(self, slot: int | None) -> None:
        """Choose a slot, as the user does."""
        self._slot.setCurrentIndex(self._slot.findData(ALL_SLOTS if slot is None else slot))

    def show_times(self, table: CheckpointTable, model: ModelReport | None, selected_round: int | None) -> None:
        """Bring figures and points up to date."""
        self._offer(tuple(sorted({group.slot for group in table.groups()})))
        note = no_saves(model, table)
        parts = [
            f"{name} {timing_words(timing)}"
            for kind, name in PHASE_OF.items()
            if (timing := table.timing(kind, None, self.slot)) is not None
        ]
        text = "&nbsp; &nbsp; ".join(filter(None, (*parts, after_words(table.after_restore()))))
        if text != self._figures.text():
            self._figures.setText(text)
        self._note.setText(note)
        self._note.setVisible(bool(note))
        self.plot.show_events({kind: table.series(kind) for kind in EVENTS}, self.slot)
        self.plot.labels.show_labels(self._labels(table))
        self.plot.mark_round(selected_round)

    def _offer(self, slots: tuple[int, ...]) -> None:
        if slots == self._slots:
            return
        self._slots = slots
        chosen = self.slot
        self._slot.blockSignals(True)
        self._slot.clear()
        self._slot.addItem("all slots", ALL_SLOTS)
        for slot in slots:
            self._slot.addItem(f"slot {slot}", slot)
        self._slot.setCurrentIndex(max(self._slot.findData(ALL_SLOTS if chosen is None else chosen), 0))
        self._slot.blockSignals(False)
        self._slot.setVisible(len(slots) > 1)
        self._markers.show_slots(slots)
        self._markers.setVisible(len(slots) > 1)

    def _labels(self, table: CheckpointTable) -> list[EndLabel]:
        """A name at the median of each phase and mechanism."""
        mechanisms = table.mechanisms()
        found = []
        for mechanism in mechanisms:
            for kind, name in PHASE_OF.items():
                timing = table.timing(kind, mechanism, self.slot)
                if timing is not None:
                    short = MECHANISMS[mechanism].rpartition(" in ")[2].removesuffix(" memory")
                    text = f"{name} · {short}" if len(mechanisms) > 1 else name
                    found.append(EndLabel(log_us(timing.median_us), text, self._theme.phase_text(name)))
        return found

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.plot.set_theme(theme)
        self._markers.set_theme(theme)
        self._figures.setStyleSheet(f"color: {theme.text}; background: transparent;")
        self._note.setStyleSheet(f"color: {theme.dim}; background: transparent;")
