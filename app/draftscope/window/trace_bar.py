"""The bar over the panels while a saved trace is shown: what it is, what it lacks, and the way back."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout

from draftscope.panels.tips import plain_tip
from draftscope.session.opened_trace import OpenedTrace


class TraceBar(QFrame):
    """Hidden while the live run is shown."""

    back_asked = Signal()
    compare_asked = Signal()
    report_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("trace_bar")
        self._title = _label("message")
        self._origin = _label("detail")
        self._missing = _label("missing")
        self.back = QPushButton("Back to the live run")
        self.compare = QPushButton("Compare with…")
        self.report = QPushButton("Report…")
        self.back.clicked.connect(self.back_asked)
        self.compare.clicked.connect(self.compare_asked)
        self.report.clicked.connect(self.report_asked)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        for label in (self._title, self._origin, self._missing):
            texts.addWidget(label)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 7, 10, 7)
        row.setSpacing(8)
        row.addLayout(texts, 1)
        for button in (self.compare, self.report, self.back):
            button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.hide()

    def tell(self, opened: OpenedTrace) -> None:
        """Say what is shown; cheap when nothing has changed."""
        title = f"Saved trace {opened.path.name}"
        if opened.is_running:
            title += ", which is still being recorded"
        _set(self._title, title)
        _set(self._origin, opened.origin)
        _set(self._missing, " ".join(opened.missing))
        self.setAccessibleName(title)
        self.setToolTip(plain_tip(str(opened.path)))


def _label(name: str) -> QLabel:
    label = QLabel()
    label.setObjectName(name)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def _set(label: QLabel, text: str) -> None:
    if label.text() != text:
        label.setText(text)
    label.setVisible(bool(text))
