"""The formats of exports as a list of choices, each with a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QButtonGroup, QGridLayout, QLabel, QRadioButton, QWidget

from draftscope.trace.export.formats import BY_ID, FORMATS, Format


class _Sentence(QLabel):
    """The sentence beside a choice; a click on it is one on the choice."""

    def __init__(self, text: str, button: QRadioButton) -> None:
        super().__init__(text)
        self._button = button
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("isDim", True)
        self.setContentsMargins(0, 1, 0, 0)  # on one line with the choice

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Choose."""
        if self._button.isEnabled():
            self._button.setChecked(True)
            self._button.setFocus()


class FormatChoice(QWidget):
    """One of the formats is chosen; those that cannot be used say why instead of what they are good for."""

    changed = Signal()

    def __init__(self, chosen: str, reasons: Mapping[str, str]) -> None:
        """Choose ``chosen`` at first, or the first that can be. ``reasons``: why a format cannot be used, or ''."""
        super().__init__()
        self.buttons: dict[str, QRadioButton] = {}
        self._group = QButtonGroup(self)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(10)
        grid.setColumnStretch(1, 1)
        for rank, one in enumerate(FORMATS):
            reason = reasons.get(one.id, "")
            button = QRadioButton(one.title)
            button.setEnabled(not reason)
            button.setAccessibleDescription(reason or one.sentence)
            self._group.addButton(button, rank)
            self.buttons[one.id] = button
            grid.addWidget(button, rank, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(_Sentence(reason or one.sentence, button), rank, 1)
        possible = [one.id for one in FORMATS if not reasons.get(one.id)]
        self.buttons[chosen if chosen in possible else possible[0]].setChecked(True)
        self._group.idToggled.connect(self._on_toggled)

    @property
    def chosen(self) -> Format:
        """The format chosen."""
        return FORMATS[self._group.checkedId()]

    def choose(self, format_id: str) -> None:
        """Choose a format, as the user does."""
        self.buttons[BY_ID[format_id].id].setChecked(True)

    def _on_toggled(self, rank: int, is_on: bool) -> None:
        if is_on:
            self.changed.emit()
