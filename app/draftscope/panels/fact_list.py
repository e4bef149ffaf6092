"""Facts in sections: a name and a value a row, each with what it means in its tooltip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from draftscope.base.theme import Theme, readable
from draftscope.panels.fonts import figure_font
from draftscope.panels.tips import plain_tip


class Fact(NamedTuple):
    """A row. ``tone`` is '' or the name of a theme colour (ok, warn, bad) for a value that needs attention."""

    name: str
    value: str
    means: str = ""
    tone: str = ""


class Section(NamedTuple):
    """Rows under a title."""

    title: str
    facts: tuple[Fact, ...]


class FactList(QScrollArea):
    """Scrolls when there is no room; its labels are made once and then only changed. Values can be selected."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._theme = theme
        self._host = QWidget()
        self._grid = QGridLayout()
        self._titles: list[QLabel] = []
        self._rows: list[tuple[QLabel, QLabel]] = []
        self._facts: list[Fact] = []
        self._shown: tuple[Section, ...] = ()
        outer = QVBoxLayout(self._host)
        outer.setContentsMargins(12, 6, 12, 10)
        outer.addLayout(self._grid)
        outer.addStretch(1)
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(3)
        self._grid.setColumnStretch(1, 1)
        self.setWidget(self._host)

    def show_sections(self, sections: Sequence[Section]) -> None:
        """Show these; only what differs from what is shown is touched."""
        wanted = tuple(sections)
        if wanted == self._shown:
            return
        if _shape(wanted) != _shape(self._shown):
            self._build(wanted)
        self._shown = wanted
        facts = [fact for section in wanted for fact in section.facts]
        for index, fact in enumerate(facts):
            if fact != self._facts[index]:
                self._facts[index] = fact
                self._fill_row(index)

    def _fill_row(self, index: int) -> None:
        fact, (name, value) = self._facts[index], self._rows[index]
        value.setText(fact.value)
        value.setAccessibleName(f"{fact.name}: {fact.value}")
        for label in (name, value):
            label.setToolTip(plain_tip(fact.means))
        self._colour_row(index)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self._colour()

    def _build(self, sections: tuple[Section, ...]) -> None:
        for label in (*self._titles, *(label for row in self._rows for label in row)):
            self._grid.removeWidget(label)
            label.hide()
            label.deleteLater()
        self._titles, self._rows = [], []
        line = 0
        for section in sections:
            title = QLabel(section.title, self._host)
            title.setFont(figure_font(is_bold=True))
            title.setContentsMargins(0, 8 if line else 0, 0, 1)
            self._titles.append(title)
            self._grid.addWidget(title, line, 0, 1, 2)
            for fact in section.facts:
                line += 1
                self._add_row(fact, line)
            line += 1
        self._facts = [Fact(name.text(), "") for name, _ in self._rows]
        self._colour()

    def _add_row(self, fact: Fact, line: int) -> None:
        name, value = QLabel(fact.name, self._host), QLabel(self._host)
        value.setFont(figure_font())
        value.setWordWrap(True)
        value.setTextFormat(Qt.TextFormat.PlainText)
        value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        # Narrower than its text, and then as high as the wrapped text needs.
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        value.setSizePolicy(policy)
        top = Qt.AlignmentFlag.AlignTop
        self._grid.addWidget(name, line, 0, top)
        self._grid.addWidget(value, line, 1, top)
        self._rows.append((name, value))

    def _colour(self) -> None:
        theme = self._theme
        self.setStyleSheet(f"QScrollArea {{ background: {theme.panel}; }}")
        self._host.setStyleSheet(f"QWidget {{ background: {theme.panel}; }} QToolTip {{ background: {theme.raised}; }}")
        for title in self._titles:
            _set_style(title, f"color: {theme.text};")
        for index in range(len(self._rows)):
            self._colour_row(index)

    def _colour_row(self, index: int) -> None:
        theme, tone = self._theme, self._facts[index].tone
        name, value = self._rows[index]
        colour = readable(getattr(theme, tone), theme.panel, theme.text) if tone else theme.text
        _set_style(name, f"color: {theme.dim};")
        _set_style(value, f"color: {colour};")


def _shape(sections: tuple[Section, ...]) -> list[tuple[str, list[str]]]:
    return [(section.title, [fact.name for fact in section.facts]) for section in sections]


def _set_style(label: QLabel, style: str) -> None:
    # Setting a style sheet polishes the widget again even when nothing changed, which would be paid every frame.
    if label.styleSheet() != style:
        label.setStyleSheet(style)
