"""What a panel shows while it has nothing: what is missing, and what would fill it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from draftscope.base.theme import Theme


class EmptyState(QWidget):
    """A title and a sentence, in the middle."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = QLabel(self)
        self._sentence = QLabel(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 16, 24, 16)
        layout.setSpacing(6)
        layout.addStretch()
        for label in (self._title, self._sentence):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter)
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            layout.addWidget(label)
        layout.addStretch()
        self.set_theme(theme)

    def explain(self, title: str, sentence: str) -> None:
        """Show this title and sentence; does nothing when they are shown already."""
        if (title, sentence) != (self._title.text(), self._sentence.text()):
            self._title.setText(title)
            self._sentence.setText(sentence)
            self.setAccessibleName(title)
            self.setAccessibleDescription(sentence)

    @property
    def text(self) -> str:
        """What is shown, as one string."""
        return f"{self._title.text()}\n{self._sentence.text()}"

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._title.setStyleSheet(f"color: {theme.text}; font-weight: 600; background: transparent;")
        self._sentence.setStyleSheet(f"color: {theme.dim}; background: transparent;")
