"""The line under a card's header: what the slot holds, and the button of what can be done with that."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.card_header import MARGIN
from draftscope.panels.panel_style import small_button_style
from draftscope.panels.tips import plain_tip
from draftscope.session.held_slots import HeldSlot
from draftscope.trace.operation_words import reuse_clause


class SlotStrip(QWidget):
    """One line of words, cut where the card is too narrow for them; the tooltip has them whole."""

    menu_asked = Signal(QPoint)
    """Where a menu of this slot is to appear, in global coordinates."""

    def __init__(self, slot: int, theme: Theme) -> None:
        super().__init__()
        self._text = ""
        self._words = QLabel()
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.button = QToolButton()
        self.button.setText("Slot \N{BLACK DOWN-POINTING SMALL TRIANGLE}")
        self.button.setAccessibleName(f"What can be done with slot {slot}")
        self.button.setToolTip("Clear, save, restore, fork or rewind what this slot holds")
        self.button.clicked.connect(self._ask)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(MARGIN, 0, 8, 4)
        layout.addWidget(self._words, 1)
        layout.addWidget(self.button)
        self.set_theme(theme)

    @property
    def text(self) -> str:
        """All that it says."""
        return self._text

    def show_held(self, held: HeldSlot | None, *, is_running: bool) -> None:
        """Say what the slot holds; None: nothing was ever in it."""
        self._text = held_words(held, is_running=is_running)
        self._words.setAccessibleName(self._text)
        self._fit()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._words.setStyleSheet(f"color: {theme.dim}; background: transparent;")
        self.button.setStyleSheet(small_button_style(theme))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Cut the words for the new width."""
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """The same for another font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        metrics = self._words.fontMetrics()
        shown = metrics.elidedText(self._text, Qt.TextElideMode.ElideRight, self._words.width())
        self._words.setText(shown)
        self._words.setToolTip(plain_tip(self._text) if shown != self._text else "")

    def _ask(self) -> None:
        self.menu_asked.emit(self.button.mapToGlobal(QPoint(0, self.button.height())))


def held_words(held: HeldSlot | None, *, is_running: bool) -> str:
    """What a slot holds in words: how much, where from, and what of its last prompt was there already."""
    if held is None:
        return "" if is_running else "Holds nothing yet"
    parts = []
    if not is_running:
        amount = "nothing" if held.n_tokens == 0 else "1 token" if held.n_tokens == 1 else f"{held.n_tokens:,} tokens"
        parts.append(f"Holds {amount}" + (f", {held.origin}" if held.origin else ""))
    if clause := reuse_clause(held.n_reused, held.reuse, held.n_prompt):
        parts.append(clause)
    text = " \N{MIDDLE DOT} ".join(parts)
    return text[:1].upper() + text[1:]
