"""A small table of figures: named columns with definitions, aligned figures, one row marked, remarks in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.fonts import figure_font
from draftscope.panels.tips import plain_tip

CHIP = 9
PADDING = "0px 3px 1px 3px"


class Column(NamedTuple):
    """A column: its title and what its figures mean."""

    title: str
    means: str = ""


class Row(NamedTuple):
    """A row: its name, a text a column, or one ``remark`` instead of them. ``colour``: of a chip before the name."""

    name: str
    figures: tuple[str, ...] = ()
    remark: str = ""
    means: str = ""
    is_marked: bool = False
    colour: str = ""


class FigureTable(QWidget):
    """Labels in a grid, made anew only when the table has other rows or columns."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__()
        self._theme = theme
        self._columns: tuple[Column, ...] = ()
        self._rows: tuple[Row, ...] = ()
        self._labels: list[list[QLabel]] = []
        self._chips: list[QLabel] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(0)
        self.setAccessibleName(name)

    def show_table(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Show this; does nothing when it is shown already. The first column is that of the names."""
        wanted = tuple(columns), tuple(rows)
        if wanted == (self._columns, self._rows):
            return
        shape = [len(self._columns), *(bool(row.remark) for row in self._rows)]
        self._columns, self._rows = wanted
        if shape != [len(self._columns), *(bool(row.remark) for row in self._rows)]:
            self._build()
        self._fill()

    @property
    def words(self) -> str:
        """All that the table says, a row a line."""
        return "\n".join(" | ".join(label.text() for label in line) for line in self._labels)

    @property
    def marked(self) -> tuple[str, ...]:
        """Names of the rows that are marked: in bold, on the ground of what is selected."""
        return tuple(row.name for row in self._rows if row.is_marked)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self._colour()

    def _build(self) -> None:
        for label in (*self._chips, *(label for line in self._labels for label in line)):
            self._grid.removeWidget(label)
            label.hide()
            label.deleteLater()
        n_columns = len(self._columns)
        self._labels = [[self._label(0, column, 1) for column in range(n_columns)]]
        self._chips = []
        for number, row in enumerate(self._rows, 1):
            self._chips.append(self._chip(number))
            if row.remark:
                self._labels.append([self._label(number, 0, 1), self._remark(number, n_columns - 1)])
            else:
                self._labels.append([self._label(number, column, 1) for column in range(n_columns)])

    def _chip(self, line: int) -> QLabel:
        chip = QLabel(self)
        chip.setFixedSize(CHIP, CHIP)
        self._grid.addWidget(chip, line, 0, Qt.AlignmentFlag.AlignVCenter)
        return chip

    def _remark(self, line: int, n_columns: int) -> QLabel:
        label = self._label(line, 1, n_columns)
        label.setWordWrap(True)
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        label.setSizePolicy(policy)
        return label

    def _label(self, line: int, column: int, n_columns: int) -> QLabel:
        label = QLabel(self)
        label.setFont(figure_font(0.9))
        label.setTextFormat(Qt.TextFormat.PlainText)
        is_figure = column > 0 and n_columns == 1
        side = Qt.AlignmentFlag.AlignRight if is_figure else Qt.AlignmentFlag.AlignLeft
        label.setAlignment(side | Qt.AlignmentFlag.AlignTop)
        if line:
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._grid.addWidget(label, line, column + 1, 1, n_columns)
        return label

    def _fill(self) -> None:
        for label, column in zip(self._labels[0], self._columns, strict=True):
            label.setText(column.title)
            label.setToolTip(column.means)
        for line, row in zip(self._labels[1:], self._rows, strict=True):
            texts = (row.name, row.remark) if row.remark else (row.name, *row.figures)
            for label, text in zip(line, texts, strict=True):
                label.setText(text)
                label.setToolTip(plain_tip(row.means))
        self._colour()

    def _colour(self) -> None:
        theme = self._theme
        for label in self._labels[0] if self._labels else ():
            label.setStyleSheet(f"color: {theme.dim}; background: transparent; padding: {PADDING};")
        for chip, line, row in zip(self._chips, self._labels[1:], self._rows, strict=True):
            chip.setVisible(bool(row.colour))
            chip.setStyleSheet(f"background: {row.colour or 'transparent'}; border-radius: 2px;")
            ground = theme.selection_wash if row.is_marked else "transparent"
            weight = " font-weight: 600;" if row.is_marked else ""
            for column, label in enumerate(line):
                colour = theme.dim if row.remark and column else theme.text
                label.setStyleSheet(f"color: {colour}; background: {ground}; padding: {PADDING};{weight}")
