"""What a card shows before anything was said in its slot: what can be done here, and messages to begin with."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.panel_style import small_button_style


class ExampleButton(QPushButton):
    """A message to click; what of it does not fit is left out at its end."""

    def __init__(self, example: str) -> None:
        super().__init__()
        self._example = example
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Show as much as fits."""
        super().resizeEvent(event)
        self.setText(self.fontMetrics().elidedText(self._example, Qt.TextElideMode.ElideRight, self.width() - 24))


class EmptyChat(QWidget):
    """A sentence and, where the model is known to answer them, example messages to click."""

    chosen = Signal(str)

    def __init__(self, slot: int, theme: Theme) -> None:
        super().__init__()
        self._slot = slot
        self._theme = theme
        self._examples: tuple[str, ...] = ()
        self._sentence = QLabel()
        self.buttons: list[QPushButton] = []
        self._sentence.setWordWrap(True)
        self._sentence.setTextFormat(Qt.TextFormat.PlainText)
        self._sentence.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(12, 4, 12, 4)
        self._layout.setSpacing(6)
        self._layout.addStretch(1)
        self._layout.addWidget(self._sentence)
        self._layout.addStretch(1)
        # A small card is not to grow for what is shown only until something is said.
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self.set_theme(theme)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """No, though its sentence has: else the card, and with it all others, would grow to what they like best."""
        return False

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Show as many examples as there is room for."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        room = self.height() - self._sentence.heightForWidth(max(self.width() - 24, 1)) - 8
        for place, button in enumerate(self.buttons, 1):
            button.setVisible(place * (button.sizeHint().height() + self._layout.spacing()) <= room)

    def explain(self, sentence: str, examples: tuple[str, ...], why_not: str) -> None:
        """Show these; examples cannot be clicked while there is a reason why nothing can be said."""
        self._sentence.setText(sentence)
        if examples != self._examples:
            self._examples = examples
            self._make_buttons()
        for button, example in zip(self.buttons, examples, strict=True):
            button.setEnabled(not why_not)
            button.setToolTip(why_not or f"Say: {example}")

    def _make_buttons(self) -> None:
        for button in self.buttons:
            self._layout.removeWidget(button)
            button.deleteLater()
        self.buttons = [self._button(example) for example in self._examples]
        for place, button in enumerate(self.buttons, 2):
            self._layout.insertWidget(place, button)
        self._fit()

    def _button(self, example: str) -> QPushButton:
        button = ExampleButton(example)
        button.setAccessibleName(f"Say to slot {self._slot}: {example}")
        button.setStyleSheet(small_button_style(self._theme))
        button.clicked.connect(lambda: self.chosen.emit(example))
        return button

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self._sentence.setStyleSheet(f"color: {theme.dim}; background: transparent;")
        for button in self.buttons:
            button.setStyleSheet(small_button_style(theme))
