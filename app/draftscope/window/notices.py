"""What happened and what goes on, above the panels: errors, loads and exports. Nothing here is modal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)


class Offer(NamedTuple):
    """A button of a notice."""

    text: str
    do: Callable[[], object]


class Notice(QFrame):
    """A message with a hint, details that open on demand, and what can be done about it.

    ``tone`` is '' for news, else ``ok``, ``warn`` or ``bad``.
    """

    dismissed = Signal()
    """It is being taken away, by its button or by the area; the object is deleted soon."""

    def __init__(
        self, message: str, hint: str = "", details: str = "", offers: Sequence[Offer] = (), tone: str = "bad"
    ) -> None:
        super().__init__()
        self.setObjectName("notice")
        self.setProperty("tone", tone)
        self.setAccessibleName(message)
        self.setAccessibleDescription(hint)
        self.message = message
        self._details = QPlainTextEdit(details)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 8, 8)
        row = QHBoxLayout()
        row.addLayout(self._texts(message, hint), 1)
        buttons = [*offers, *([Offer("Details", self._toggle_details)] if details else [])]
        for offer in (*buttons, Offer("Dismiss", self.dismiss)):
            row.addWidget(self._button(offer), 0, Qt.AlignmentFlag.AlignTop)
        layout.addLayout(row)
        self._details.setReadOnly(True)
        self._details.setMaximumHeight(140)
        self._details.setAccessibleName("Details")
        self._details.hide()
        layout.addWidget(self._details)

    def _texts(self, message: str, hint: str) -> QVBoxLayout:
        column = QVBoxLayout()
        column.setSpacing(2)
        for text, name in ((message, "message"), (hint, "detail")):
            if text:
                label = QLabel(text)
                label.setObjectName(name)
                label.setTextFormat(Qt.TextFormat.PlainText)
                label.setWordWrap(True)
                label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
                column.addWidget(label)
        return column

    def _button(self, offer: Offer) -> QPushButton:
        button = QPushButton(offer.text)
        button.clicked.connect(lambda: offer.do())
        return button

    def _toggle_details(self) -> None:
        self._details.setVisible(self._details.isHidden())

    def dismiss(self) -> None:
        """Take the notice away."""
        self.hide()
        self.dismissed.emit()
        self.deleteLater()


class ProgressNotice(QFrame):
    """What goes on, how far it is, and a button to cancel it."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        super().__init__()
        self.setObjectName("notice")
        self._label = QLabel()
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._bar = QProgressBar()
        self._bar.setRange(0, 1000)
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName("Progress")
        self.cancel = QPushButton("Cancel")
        self.cancel.clicked.connect(lambda: cancel())
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 6, 8, 6)
        layout.addWidget(self._label)
        layout.addWidget(self._bar, 1)
        layout.addWidget(self.cancel)
        self.hide()

    @property
    def text(self) -> str:
        """What is shown."""
        return self._label.text()

    def tell(self, text: str, fraction: float, *, can_cancel: bool = True) -> None:
        """Show how far it is; ``fraction`` in [0, 1]."""
        self._label.setText(text)
        self._bar.setValue(round(fraction * 1000))
        self.cancel.setEnabled(can_cancel)
        self.show()


class NoticeArea(QWidget):
    """Notices one under the other, the newest first; takes no room while there are none."""

    MOST = 3

    def __init__(self) -> None:
        super().__init__()
        self._notices: list[Notice] = []
        self._layout = QVBoxLayout(self)
        # The gaps belong to the notices (style sheet), so that an empty area is empty.
        self._layout.setContentsMargins(8, 0, 8, 0)
        self._layout.setSpacing(0)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)

    def add_progress(self, progress: ProgressNotice) -> None:
        """Give a progress notice its place; it shows and hides itself."""
        self._layout.addWidget(progress)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The notices shown, the newest first."""
        return tuple(self._notices)

    def show_notice(self, notice: Notice) -> None:
        """Show a notice; an older one with the same message gives way, and so do all beyond the third."""
        for other in self.notices:
            if other.message == notice.message:
                other.dismiss()
        for other in self.notices[self.MOST - 1 :]:
            other.dismiss()
        self._notices.insert(0, notice)
        notice.dismissed.connect(lambda: self._notices.remove(notice))
        self._layout.insertWidget(0, notice)
        notice.show()

    def clear(self) -> None:
        """Take all notices away."""
        for notice in self.notices:
            notice.dismiss()
