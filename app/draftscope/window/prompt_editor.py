"""What one slot starts from: plain text, or a chat with a system prompt."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from draftscope.engine.protocol import ChatMessage, Prompt

TEXT, CHAT = 0, 1


class PromptEditor(QWidget):
    """Edits a prompt. Chats of more turns, and prompts of token ids, stay as they are until their text is changed."""

    changed = Signal()

    def __init__(self, slot: int, prompt: Prompt, why_no_chat: str) -> None:
        super().__init__()
        self._kept: Prompt | None = None
        self._is_showing = False
        self.kind = QComboBox()
        self.kind.addItems(["Text, as it is", "Chat, in the model's template"])
        self.kind.setAccessibleName(f"Kind of prompt in slot {slot}")
        self.kind.setToolTip(why_no_chat or "A chat is written out in the template that the model's file brings.")
        self.system = self._edit(f"System prompt of slot {slot}", "How the model should behave; may be empty")
        self.system.setMaximumHeight(76)
        self.text = self._edit(f"Prompt of slot {slot}", "What the slot starts from")
        self._system_label = QLabel("System prompt")
        self._text_label = QLabel()
        self._note = QLabel(why_no_chat)
        self._note.setProperty("tone", "warn")
        self._note.setWordWrap(True)
        row = QHBoxLayout()
        row.addWidget(self.kind)
        row.addWidget(self._note, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(row)
        layout.addWidget(self._system_label)
        layout.addWidget(self.system)
        layout.addWidget(self._text_label)
        layout.addWidget(self.text, 1)
        self.kind.currentIndexChanged.connect(self._on_edited)
        self.show_prompt(prompt)

    @property
    def prompt(self) -> Prompt:
        """What the editor says."""
        if self._kept is not None:
            return self._kept
        text, system = self.text.toPlainText(), self.system.toPlainText()
        if self.kind.currentIndex() == TEXT:
            return Prompt(text=text)
        if not text:
            return Prompt()
        turns = [ChatMessage("user", text)]
        return Prompt(messages=tuple([ChatMessage("system", system), *turns] if system else turns))

    def show_prompt(self, prompt: Prompt) -> None:
        """Show a prompt."""
        self._is_showing = True
        system = next((message.content for message in prompt.messages if message.role == "system"), "")
        others = [message for message in prompt.messages if message.role != "system"]
        is_chat = bool(prompt.messages)
        self.kind.setCurrentIndex(CHAT if is_chat else TEXT)
        self.system.setPlainText(system)
        if is_chat:
            self.text.setPlainText(others[-1].content if others else "")
        else:
            self.text.setPlainText(prompt.text)
        self._is_showing = False
        is_simple = not prompt.tokens and (not is_chat or [message.role for message in others] == ["user"])
        self._kept = None if is_simple else prompt
        self._tell()

    def _on_edited(self) -> None:
        if not self._is_showing:
            self._kept = None
            self._tell()
            self.changed.emit()

    def _tell(self) -> None:
        is_chat = self.kind.currentIndex() == CHAT
        self.system.setVisible(is_chat)
        self._system_label.setVisible(is_chat)
        self._note.setVisible(is_chat and bool(self._note.text()))
        self._text_label.setText("User's message" if is_chat else "Text")
        if self._kept is not None and self._kept.tokens:
            self._text_label.setText(f"{len(self._kept.tokens)} token ids; text written here takes their place")
        elif self._kept is not None:
            self._text_label.setText(f"Last of {len(self._kept.messages)} messages; a change leaves the others out")

    def _edit(self, name: str, placeholder: str) -> QPlainTextEdit:
        edit = QPlainTextEdit()
        edit.setAccessibleName(name)
        edit.setPlaceholderText(placeholder)
        edit.setTabChangesFocus(True)
        edit.textChanged.connect(self._on_edited)
        return edit
