"""The form that the output must have: free text, JSON of a schema, or what a grammar allows."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QComboBox, QGroupBox, QHBoxLayout, QLabel, QPlainTextEdit, QVBoxLayout

from draftscope.engine.output_format import format_problem

FREE, SCHEMA, GRAMMAR = 0, 1, 2

_EXAMPLES = {
    SCHEMA: '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}',
    GRAMMAR: 'root ::= "yes" | "no" | [0-9]+',
}
_NOTES = {
    FREE: "",
    SCHEMA: "The output is JSON of this schema. Bounds of numbers and descriptions are not kept.",
    GRAMMAR: "The output is what the grammar allows, from its rule root on.",
}


class FormatEditor(QGroupBox):
    """A choice, and an editor with what is wrong in it beside. Each form keeps its text while another is shown."""

    changed = Signal()

    def __init__(self, grammar: str, json_schema: str) -> None:
        super().__init__("Output, for all slots")
        self._texts = {SCHEMA: json_schema, GRAMMAR: grammar}
        self._shown = FREE
        self.kind = QComboBox()
        self.kind.addItems(["Free text", "JSON schema", "GBNF grammar"])
        self.kind.setAccessibleName("Output format")
        self.kind.setToolTip(
            "A schema or grammar leaves out tokens that do not fit; drafts that do not fit are rejected."
        )
        self.text = QPlainTextEdit()
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setTabChangesFocus(True)
        self.text.setFixedHeight(110)
        self._note = QLabel()
        self._note.setWordWrap(True)
        row = QHBoxLayout()
        row.addWidget(self.kind)
        row.addWidget(self._note, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(row)
        layout.addWidget(self.text)
        self.kind.currentIndexChanged.connect(self._on_kind_chosen)
        self.text.textChanged.connect(self._on_edited)
        self.kind.setCurrentIndex(GRAMMAR if grammar else SCHEMA if json_schema else FREE)
        self._on_kind_chosen()

    @property
    def grammar(self) -> str:
        """The grammar; empty for another form."""
        return self._texts[GRAMMAR] if self._shown == GRAMMAR else ""

    @property
    def json_schema(self) -> str:
        """The schema; empty for another form."""
        return self._texts[SCHEMA] if self._shown == SCHEMA else ""

    @property
    def problem(self) -> str:
        """What is wrong with what is shown, as a sentence; empty when nothing is."""
        if self._shown == FREE:
            return ""
        if not self._texts[self._shown].strip():
            return "There is nothing here yet: write it, or choose free text."
        return format_problem(self.grammar, self.json_schema)

    def _on_kind_chosen(self) -> None:
        self._shown = self.kind.currentIndex()
        self.text.setVisible(self._shown != FREE)
        if self._shown != FREE:
            self.text.setAccessibleName(self.kind.currentText())
            self.text.setPlaceholderText(_EXAMPLES[self._shown])
            self.text.setPlainText(self._texts[self._shown])
        self._tell()

    def _on_edited(self) -> None:
        if self._shown != FREE:
            self._texts[self._shown] = self.text.toPlainText()
        self._tell()

    def _tell(self) -> None:
        problem = self.problem
        self._note.setText(problem or _NOTES[self._shown])
        self._note.setProperty("tone", "bad" if problem else "")
        self._note.setProperty("isDim", not problem)
        self._note.style().unpolish(self._note)
        self._note.style().polish(self._note)
        self.changed.emit()
