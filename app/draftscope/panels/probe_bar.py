"""The head of the Restore diffs panel: what is measured, what it costs, what can be copied; and an active fault."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from draftscope.base.theme import Theme, mix, readable
from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.panels.fonts import figure_font
from draftscope.panels.panel_style import small_button_style
from draftscope.session.probe_levels import ProbeLevels
from draftscope.trace.probe_cost import DEFINITION
from draftscope.trace.probe_words import LEVEL_WORDS, fault_sentence

COPIES = (
    ("markdown", "Restores shown, as Markdown"),
    ("csv", "Restores shown, as CSV with every figure"),
    ("restore", "This restore, as Markdown"),
    ("picture", "This page, as a picture"),
)
"""What can be copied: id and words."""


class ElidedLabel(QLabel):
    """A line of which the end is left out where there is no room, with an ellipsis in its place."""

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draw as much as there is room for."""
        painter = QPainter(self)
        shown = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.setPen(self.palette().windowText().color())
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, shown)


class ProbeBar(QWidget):
    """The level switch works at any time, also while a run goes on."""

    level_chosen = Signal(object)
    """Carries the ``ProbeLevel``."""
    copy_asked = Signal(str)
    """Carries an id of ``COPIES``."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.level = QComboBox()
        self.cost = ElidedLabel()
        self.copy = QToolButton()
        self.menu = QMenu(self)
        self._label = QLabel("Measure")
        self._build()
        self.set_theme(theme)

    def _build(self) -> None:
        for level in ProbeLevel:
            self.level.addItem(level.value, level)
        self.level.setAccessibleName("What is measured at every restore")
        self.level.activated.connect(self._on_level)
        self._label.setBuddy(self.level)
        self.cost.setFont(figure_font(0.95))
        self.cost.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.copy.setText("Copy \N{BLACK DOWN-POINTING SMALL TRIANGLE}")
        self.copy.setAccessibleName("Copy restores")
        self.copy.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.copy.setMenu(self.menu)
        for id, words in COPIES:
            self.menu.addAction(words).triggered.connect(lambda _=False, id=id: self.copy_asked.emit(id))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 6, 8, 2)
        layout.setSpacing(8)
        layout.addWidget(self._label)
        layout.addWidget(self.level)
        layout.addWidget(self.cost, 1)
        layout.addWidget(self.copy)

    def show_state(self, probing: ProbeLevels, cost: str, why_no_copy: str) -> None:
        """Show the level, the levels of single slots, the cost in words, and why nothing can be copied, or ''."""
        self.level.setCurrentIndex(self.level.findData(probing.level))
        self.level.setToolTip("\n".join(f"{level.value}: {words}." for level, words in LEVEL_WORDS.items()))
        shown = [cost, *_own_levels(probing)] if cost else _own_levels(probing)
        self.cost.setText(" · ".join(shown))
        self.cost.setToolTip("\n".join([*shown, DEFINITION]))
        self.copy.setEnabled(not why_no_copy)
        self.copy.setToolTip(why_no_copy or "Copy restores as Markdown, CSV or a picture")

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        for label in (self._label, self.cost):
            label.setStyleSheet(f"color: {theme.dim}; background: transparent;")
        self.copy.setStyleSheet(small_button_style(theme) + " QToolButton::menu-indicator { image: none; }")

    def _on_level(self, index: int) -> None:
        self.level_chosen.emit(ProbeLevel(self.level.itemData(index)))


def _own_levels(probing: ProbeLevels) -> list[str]:
    """Levels of single slots, those of one level in one phrase: the cost before them has to stay in sight."""
    slots_of: dict[ProbeLevel, list[int]] = {}
    for slot, level in sorted(probing.slot_levels.items()):
        slots_of.setdefault(level, []).append(slot)
    return [f"{_slots(slots)}: {level.value}" for level, slots in slots_of.items()]


def _slots(slots: list[int]) -> str:
    if len(slots) == 1:
        return f"slot {slots[0]}"
    if slots == list(range(slots[0], slots[-1] + 1)):
        return f"slots {slots[0]} to {slots[-1]}"
    return f"slots {', '.join(map(str, slots))}"


class FaultBanner(QFrame):
    """Says what goes wrong on purpose, and ends it; takes no room while nothing does."""

    end_asked = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._words = QLabel()
        self._words.setWordWrap(True)
        self.end = QPushButton("End the fault")
        self.end.setToolTip("Let restores do everything right again")
        self.end.clicked.connect(self.end_asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 4, 6, 4)
        layout.addWidget(self._words, 1)
        layout.addWidget(self.end)
        self.hide()
        self.set_theme(theme)

    @property
    def text(self) -> str:
        """What it says; '' while it is hidden."""
        return "" if self.isHidden() else self._words.text()

    def show_fault(self, probing: ProbeLevels) -> None:
        """Show the fault, or nothing."""
        self.setVisible(probing.fault is not Fault.NONE)
        if probing.fault is not Fault.NONE:
            self._words.setText(fault_sentence(probing.fault, probing.fault_slot, probing.fault_level))
            self.setAccessibleName(self._words.text())

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        ground = mix(theme.panel, theme.warn, 0.16)
        self.setObjectName("fault_banner")
        self.setStyleSheet(f"QFrame#fault_banner {{ background: {ground}; border-left: 3px solid {theme.warn}; }}")
        self._words.setStyleSheet(f"color: {readable(theme.warn, ground, theme.text)}; background: transparent;")
        self.end.setStyleSheet(small_button_style(theme))
