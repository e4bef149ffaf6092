"""What the middle of the window shows before anything was ever loaded."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget


class FirstRun(QWidget):
    """One sentence, one button that shows everything at work, and one for a model of one's own."""

    def __init__(self, demo: QAction, open_model: QAction) -> None:
        super().__init__()
        self.setObjectName("first_run")
        title = QLabel("See what speculative decoding does")
        title.setObjectName("title")
        sentence = QLabel(
            "Draftscope runs a model in parallel slots and shows which draft tokens are accepted, round by round, and"
            " where the time goes."
        )
        sentence.setObjectName("sentence")
        sentence.setWordWrap(True)
        sentence.setMinimumWidth(200)
        sentence.setMaximumWidth(520)
        self.demo = _button(demo, "Run the demo", is_primary=True)
        self.open_model = _button(open_model, "Open a GGUF…", is_primary=False)
        buttons = QHBoxLayout()
        buttons.setSpacing(10)
        buttons.addStretch()
        buttons.addWidget(self.demo)
        buttons.addWidget(self.open_model)
        buttons.addStretch()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.setSpacing(14)
        layout.addStretch(2)
        for label in (title, sentence):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        layout.addWidget(title)
        centred = QHBoxLayout()
        centred.addStretch()
        centred.addWidget(sentence, 1)
        centred.addStretch()
        layout.addLayout(centred)
        layout.addSpacing(6)
        layout.addLayout(buttons)
        layout.addStretch(3)


def _button(action: QAction, text: str, *, is_primary: bool) -> QPushButton:
    """A button that does what an action does, and is enabled when that is."""
    button = QPushButton(text)
    button.setProperty("isPrimary", is_primary)
    button.setMinimumHeight(34)
    button.clicked.connect(lambda: action.trigger())

    def follow() -> None:
        button.setEnabled(action.isEnabled())
        button.setToolTip(action.toolTip())

    action.changed.connect(follow)
    follow()
    return button
