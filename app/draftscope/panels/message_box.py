"""The box under a conversation: writes messages, edits earlier ones and the system prompt, and stops an answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from draftscope.base.theme import Theme
from draftscope.panels.panel_style import small_button_style

MOST_LINES = 6
"""Lines that the box grows to; more are scrolled."""

HELP = "Enter sends, Shift+Enter begins a new line, Up edits the message before, Ctrl+R regenerates the answer"


PLAIN = "This is plain text: what you write is appended as it is, and the model goes on from there."


@dataclass(frozen=True, slots=True)
class BoxState:
    """What the box follows of its slot.

    ``why_not``: why nothing can be sent now, '' if it can. ``is_plain``: what is written is appended to a text;
    ``may_be_empty``: which can go on without any. ``invitation`` stands in the empty box, ``note`` above it.
    """

    why_not: str = ""
    is_answering: bool = False
    is_stopping: bool = False
    is_plain: bool = False
    may_be_empty: bool = False
    invitation: str = "Message"
    note: str = ""


class Writing(Enum):
    """What is being written."""

    MESSAGE = auto()
    EDIT = auto()
    SYSTEM = auto()


class MessageEdit(QPlainTextEdit):
    """As high as its text, up to ``MOST_LINES``; Tab goes on to the next control."""

    entered = Signal()
    left = Signal()
    earlier_asked = Signal()
    focus_changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(5)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        n_lines = max(round(self.document().size().height()), 1)
        policy = (
            Qt.ScrollBarPolicy.ScrollBarAlwaysOff if n_lines <= MOST_LINES else Qt.ScrollBarPolicy.ScrollBarAsNeeded
        )
        self.setVerticalScrollBarPolicy(policy)
        n_lines = min(n_lines, MOST_LINES)
        margins = 2 * round(self.document().documentMargin()) + 2 * self.frameWidth()
        self.setFixedHeight(n_lines * self.fontMetrics().lineSpacing() + margins)

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as it is now."""
        return QSize(120, self.height())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter sends; Escape leaves an edit; Up goes to the message before where there is no line above."""
        is_plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_enter and is_plain:
            self.entered.emit()
        elif event.key() == Qt.Key.Key_Escape and is_plain:
            self.left.emit()
        elif event.key() == Qt.Key.Key_Up and is_plain and self._is_on_first_line():
            self.earlier_asked.emit()
        else:
            super().keyPressEvent(event)

    def _is_on_first_line(self) -> bool:
        return not QTextCursor(self.textCursor()).movePosition(QTextCursor.MoveOperation.Up)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Tell."""
        super().focusInEvent(event)
        self.focus_changed.emit()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Tell."""
        super().focusOutEvent(event)
        self.focus_changed.emit()


class MessageBox(QWidget):
    """A hint where there is something to say, and a row: text, Send or Stop, and a menu that its owner fills."""

    said = Signal(str)
    edited = Signal(int, str)
    """Index of the turn and its new text."""
    system_edited = Signal(str)
    stop_asked = Signal()
    earlier_asked = Signal(int)
    """The message before this turn is to be edited; the number of turns when none is being edited."""

    def __init__(self, slot: int, theme: Theme) -> None:
        super().__init__()
        self.edit = MessageEdit()
        self.send = QPushButton("Send")
        self.more = QToolButton()
        self.menu = QMenu(self)
        self.hint = QLabel()
        self.writing = Writing.MESSAGE
        self.turn = -1
        self._slot = slot
        self._kept_text = ""
        self._editing_words = ""
        self._state = BoxState()
        self._build(slot)
        self.set_theme(theme)
        self._tell()

    def _build(self, slot: int) -> None:
        self.edit.setAccessibleName(f"Message to slot {slot}")
        self.edit.setToolTip(HELP)
        self.send.setAccessibleName(f"Send the message to slot {slot}")
        self.more.setText("More")
        self.more.setAccessibleName(f"More about the conversation in slot {slot}")
        self.more.setToolTip("Regenerate, system prompt, versions, save and load")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.more.setMenu(self.menu)
        self.hint.setWordWrap(True)
        self.hint.setTextFormat(Qt.TextFormat.PlainText)
        self.hint.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addWidget(self.edit, 1)
        for button in (self.send, self.more):
            button.setFixedHeight(self.edit.height())
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignBottom)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 4, 10, 6)
        layout.setSpacing(4)
        layout.addWidget(self.hint)
        layout.addLayout(row)
        self.edit.entered.connect(self.submit)
        self.edit.left.connect(self.leave)
        self.edit.textChanged.connect(self._tell)
        self.edit.earlier_asked.connect(self._on_earlier_asked)
        self.send.clicked.connect(self._on_clicked)

    # ---- what the card tells

    def show_state(self, state: BoxState) -> None:
        """Follow the slot."""
        if state != self._state:
            self._state = state
            self._tell()

    def begin_edit(self, turn: int, place: str, text: str) -> None:
        """Write a message anew; ``place`` tells which, such as 'message 1 of 3'."""
        self._begin(Writing.EDIT, turn, f"Editing {place}. Enter sends it and drops what follows; Esc leaves it.", text)

    def begin_system(self, text: str) -> None:
        """Write the system prompt."""
        words = "System prompt, for the answers to come. Enter keeps it; Esc leaves it as it was."
        self._begin(Writing.SYSTEM, -1, words, text)

    def _begin(self, writing: Writing, turn: int, words: str, text: str) -> None:
        if self.writing is Writing.MESSAGE:
            self._kept_text = self.edit.toPlainText()
        self.writing, self.turn, self._editing_words = writing, turn, words
        self.edit.setPlainText(text)
        self.edit.moveCursor(QTextCursor.MoveOperation.End)
        self.edit.setFocus()
        self._tell()

    def leave(self) -> None:
        """Leave an edit; the message that was begun before it is there again."""
        if self.writing is not Writing.MESSAGE:
            self._go_back(self._kept_text)

    def _go_back(self, text: str) -> None:
        self.writing, self.turn, self._kept_text = Writing.MESSAGE, -1, ""
        self.edit.setPlainText(text)
        self.edit.moveCursor(QTextCursor.MoveOperation.End)
        self._tell()

    # ---- what is done in it

    def submit(self) -> None:
        """Send what is written, where that can be done now."""
        if self._why_cannot_send():
            return
        text, writing, turn = self.edit.toPlainText(), self.writing, self.turn
        self._go_back(self._kept_text if writing is not Writing.MESSAGE else "")
        match writing:
            case Writing.MESSAGE:
                self.said.emit(text)
            case Writing.EDIT:
                self.edited.emit(turn, text)
            case Writing.SYSTEM:
                self.system_edited.emit(text)

    def _why_cannot_send(self) -> str:
        if self.writing is Writing.SYSTEM:
            return self._state.why_not if self._state.is_answering else ""
        is_empty = not self.edit.toPlainText().strip()
        needs_text = self.writing is Writing.EDIT or not self._state.may_be_empty
        return self._state.why_not or ("Write something first." if is_empty and needs_text else "")

    def _on_clicked(self) -> None:
        if self._state.is_answering:
            self.stop_asked.emit()
        else:
            self.submit()

    def _on_earlier_asked(self) -> None:
        if not self.edit.toPlainText() or self.writing is Writing.EDIT:
            self.earlier_asked.emit(self.turn)

    # ---- how it looks

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        style = small_button_style(theme)
        self.send.setStyleSheet(style)
        self.more.setStyleSheet(f"{style} QToolButton::menu-indicator {{ image: none; width: 0; }}")
        self.hint.setStyleSheet(f"color: {theme.dim}; background: transparent;")
        self.edit.setStyleSheet(
            f"QPlainTextEdit {{ background: {theme.raised}; color: {theme.text}; border: 1px solid {theme.line};"
            f" border-radius: 4px; }} QPlainTextEdit:focus {{ border-color: {theme.accent}; }}"
        )

    def _tell(self) -> None:
        reason = self._why_cannot_send()
        if self._state.is_answering:
            self.send.setText("Stop")
            self.send.setEnabled(not self._state.is_stopping)
            self.send.setToolTip("The answer is being stopped." if self._state.is_stopping else "End the answer here")
            self.send.setAccessibleName(f"Stop the answer in slot {self._slot}")
        else:
            self.send.setText({Writing.SYSTEM: "Keep"}.get(self.writing, "Send"))
            self.send.setEnabled(not reason)
            self.send.setToolTip(reason or f"{HELP.partition(',')[0]} it")
            self.send.setAccessibleName(f"Send the message to slot {self._slot}")
        is_editing = self.writing is not Writing.MESSAGE
        hint = self._editing_words if is_editing else self._state.note
        self.hint.setText(hint)
        self.hint.setVisible(bool(hint))
        self._invite()
        self.edit.setToolTip(f"{PLAIN}\n{HELP}" if self._state.is_plain else HELP)

    def _invite(self) -> None:
        """Qt paints a placeholder anew only where one appears or goes, not where it says something else."""
        words = self._placeholder()
        if words != self.edit.placeholderText():
            self.edit.setPlaceholderText(words)
            self.edit.viewport().update()

    def _placeholder(self) -> str:
        words = "Generating…" if self._state.is_answering else self._state.why_not or self._state.invitation
        room = self.edit.viewport().width() - 14
        return self.edit.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, room)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Say in the box as much as fits."""
        super().resizeEvent(event)
        self._invite()
