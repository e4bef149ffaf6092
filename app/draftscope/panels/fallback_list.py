"""The fallbacks of a run in sentences, the newest first; a click selects the round."""

from __future__ import annotations

from collections import Counter

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.events import NO_ROUND, Records
from draftscope.panels.fonts import figure_font
from draftscope.panels.tips import plain_tip
from draftscope.trace.fallback_words import Fallback, FallbackKind, fallback_of, fallbacks_of

MOST_LISTED = 300
"""Sentences listed; of older ones only the number is told."""

_ROUND = Qt.ItemDataRole.UserRole


class FallbackList(QWidget):
    """How often each kind happened, over a list of the single ones."""

    round_clicked = Signal(int)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._n_shown = 0
        self._generation = -1
        self._kinds: Counter[FallbackKind] = Counter()
        self._summary = QLabel()
        self._older = QLabel()
        self.list = QListWidget()
        for label in (self._summary, self._older):
            label.setWordWrap(True)
            label.setFont(figure_font(0.95))
            label.setTextFormat(Qt.TextFormat.PlainText)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setWordWrap(True)
        self.list.setUniformItemSizes(False)
        self.list.setResizeMode(QListWidget.ResizeMode.Adjust)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setFont(figure_font(0.95))
        self.list.setAccessibleName("Fallbacks, the newest first")
        self.list.itemClicked.connect(self._on_item)
        self.list.itemActivated.connect(self._on_item)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 2, 6, 2)
        layout.setSpacing(4)
        layout.addWidget(self._summary)
        layout.addWidget(self.list, 1)
        layout.addWidget(self._older)
        self.set_theme(theme)

    def show_fallbacks(self, records: Records, generation: int) -> None:
        """Show the fallbacks of these ``FALLBACK`` records; ``generation`` of the store that they are from."""
        if generation != self._generation or len(records) < self._n_shown:
            self._generation, self._n_shown = generation, 0
            self._kinds.clear()
            self.list.clear()
        new = records[self._n_shown :]
        if len(new) == 0:
            return
        self._n_shown = len(records)
        self._kinds.update(fallback.kind for fallback in fallbacks_of(new))
        for record in new[-MOST_LISTED:]:
            self._add(fallback_of(record))
        while self.list.count() > MOST_LISTED:
            self.list.takeItem(self.list.count() - 1)
        self._summary.setText("\n".join(f"{n:,} × {kind.sentence}" for kind, n in self._kinds.most_common()))
        n_older = self._n_shown - self.list.count()
        self._older.setVisible(n_older > 0)
        self._older.setText(f"{n_older:,} older ones are not listed; the trace has them.")

    def sentences(self) -> list[str]:
        """What is listed, the newest first."""
        return [self.list.item(row).text() for row in range(self.list.count())]

    def _add(self, fallback: Fallback) -> None:
        item = QListWidgetItem(fallback.sentence)
        item.setData(_ROUND, fallback.round)
        item.setToolTip(plain_tip(f"{fallback.sentence} Position {fallback.position:,}."))
        self.list.insertItem(0, item)

    def _on_item(self, item: QListWidgetItem) -> None:
        if item.data(_ROUND) != NO_ROUND:
            self.round_clicked.emit(int(item.data(_ROUND)))

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self._summary.setStyleSheet(f"color: {theme.text}; background: transparent; padding: 2px 4px;")
        self._older.setStyleSheet(f"color: {theme.dim}; background: transparent; padding: 2px 4px;")
        self.list.setStyleSheet(
            f"QListWidget {{ background: {theme.panel}; color: {theme.dim}; outline: none; }}"
            " QListWidget::item { padding: 2px 4px; border-radius: 4px; }"
            f" QListWidget::item:hover {{ background: {theme.hover_wash}; }}"
            f" QListWidget::item:selected {{ background: {theme.selection_wash}; color: {theme.text}; }}"
        )
