"""One restore in words and figures: the verdict, what it did, what the hook is worth, and the three rows compared."""

from __future__ import annotations

import html
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme, readable
from draftscope.panels.figure_table import Column, FigureTable, Row
from draftscope.panels.fonts import figure_font
from draftscope.panels.restore_words import Shown, name_of, position_words, probe_words
from draftscope.trace.restore_text import probe_sentences
from draftscope.trace.restore_verdict import findings_of

_COLUMNS = (
    Column(""),
    Column("position", "Position that the row belongs to, by its digest"),
    Column("max |d|", "Largest difference to the saved row, in the model's activation units"),
    Column("rms", "Root of the mean square of the differences"),
    Column("cosine", "Cosine of the row and the saved one"),
    Column("differing", "Dimensions of the row that differ in any bit"),
    Column("worst", "Dimension that differs most"),
)


class RestoreFacts(QScrollArea):
    """Scrolls where there is more than fits."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._shown: Shown | None = None
        self._key: tuple[int, bytes, bytes, str] | None = None
        self._name = QLabel()
        self._words = QLabel()
        self._probe = QLabel()
        self.table = FigureTable(theme, "The rows compared with the saved one")
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(12, 6, 12, 6)
        layout.setSpacing(6)
        for label in (self._name, self._words, self._probe):
            label.setWordWrap(True)
            label.setFont(figure_font(0.95))
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            layout.addWidget(label)
        layout.insertWidget(2, self.table, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addStretch(1)
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.set_theme(theme)

    @property
    def words(self) -> str:
        """Everything that it says in sentences."""
        return "\n".join((self._name.text(), self._words.accessibleDescription(), self._probe.text()))

    def show_restore(self, shown: Shown) -> None:
        """Show this restore, which was probed; does nothing when it is shown already."""
        key = (
            shown.place,
            shown.row.tobytes(),
            b"" if shown.probe is None else shown.probe.tobytes(),
            self._theme.name,
        )
        if key == self._key:
            return
        self._shown, self._key = shown, key
        self._name.setText(name_of(shown))
        self._probe.setText(probe_words(shown))
        sentences = probe_sentences(shown.probe)
        n_findings = len(findings_of(shown.probe))
        theme = self._theme
        first = theme.warn if n_findings else theme.ok
        colours = [first] * max(n_findings, 1) + [theme.text] * len(sentences)
        lines = [
            f'<div style="color: {readable(colour, theme.panel, theme.text)}">{html.escape(words)}</div>'
            for words, colour in zip(sentences, colours, strict=False)
        ]
        self._words.setText("".join(lines))
        self._words.setAccessibleDescription("\n".join(sentences))
        self.table.show_table(_COLUMNS, _rows(shown.probe))
        self.table.setVisible(int(shown.probe["row_width"]) > 0 if shown.probe is not None else False)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self.table.set_theme(theme)
        self.setStyleSheet(f"QScrollArea, QScrollArea > QWidget > QWidget {{ background: {theme.panel}; }}")
        self._name.setStyleSheet(f"color: {theme.text}; font-weight: 600; background: transparent;")
        self._probe.setStyleSheet(f"color: {theme.dim}; background: transparent;")
        self._words.setStyleSheet("background: transparent;")
        if self._shown is not None:
            self.show_restore(self._shown)


def _rows(probe: Any) -> list[Row]:
    saved = Row("saved", (position_words(int(probe["row_position"])), "", "", "", "", ""))
    return [saved, _row(probe, "restored", "restored"), _row(probe, "without", "without hook")]


def _row(probe: Any, which: str, name: str) -> Row:
    n, worst = int(probe[f"{which}_n_differing"]), int(probe[f"{which}_worst"])
    if n < 0:
        return Row(name, remark="not compared")
    figures = (
        position_words(int(probe[f"{which}_position"])),
        units.figure(float(probe[f"{which}_max_abs"])),
        units.figure(float(probe[f"{which}_rms"])),
        f"{float(probe[f'{which}_cosine']):.4f}" if probe[f"{which}_cosine"] == probe[f"{which}_cosine"] else "–",
        f"{n:,}",
        "–" if worst < 0 else f"{worst:,}",
    )
    return Row(name, figures)
