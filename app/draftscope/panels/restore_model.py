"""Restores as a table model over the restore table: nothing is copied, and words are made for the rows in view only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor

from draftscope.base import units
from draftscope.base.theme import Theme, readable
from draftscope.engine.probes import RestoreKind
from draftscope.panels.fonts import figure_font
from draftscope.panels.tips import plain_tip
from draftscope.trace.restore_text import mode_words
from draftscope.trace.restore_verdict import Verdict, effect_briefly, verdict_briefly
from draftscope.trace.restores import KIND_WORDS, RestoreTable

COLUMNS = (
    ("Round", "Round of the run; outside of rounds none"),
    ("Slot", "Slot that went back"),
    ("What for", "What made it go back"),
    ("Verdict", "What a probe found, compared with what was saved; a difference is a finding, not yet a defect"),
    ("Effect", "What a difference did to the next draft, compared with the draft from the saved row"),
    ("Position", "Positions that the target held after it"),
    ("Mode", "How it went back"),
    ("Took", "Time of the restore itself, without what is decoded again"),
)
ROUND, SLOT, WHAT_FOR, VERDICT, EFFECT, POSITION, MODE, TOOK = range(len(COLUMNS))

_FIGURES = (ROUND, SLOT, POSITION, TOOK)


class RestoreModel(QAbstractTableModel):
    """Shows those restores that pass the filter, in order of time."""

    def __init__(self, table: RestoreTable, theme: Theme) -> None:
        super().__init__()
        self._table = table
        self._theme = theme
        self._places: NDArray[np.int64] = np.zeros(0, np.int64)
        self._font = figure_font(0.92)
        self.n_words = 0
        """Verdicts put into words so far, to be counted by tests."""

    @property
    def places(self) -> NDArray[np.int64]:
        """Places in the restore table of what is shown, rising."""
        return self._places

    def show_places(self, places: NDArray[np.int64]) -> None:
        """Show these; rows that come behind those that are shown are appended, all else begins anew."""
        n = len(self._places)
        if n and len(places) >= n and np.array_equal(places[:n], self._places):
            if len(places) > n:
                self.beginInsertRows(QModelIndex(), n, len(places) - 1)
                self._places = places
                self.endInsertRows()
            self.dataChanged.emit(self.index(0, VERDICT), self.index(n - 1, VERDICT))
        elif n or len(places):
            self.beginResetModel()
            self._places = places
            self.endResetModel()

    def row_of(self, place: int) -> int | None:
        """The row that shows a place of the restore table; None where the filter leaves it out."""
        row = int(np.searchsorted(self._places, place))
        return row if row < len(self._places) and self._places[row] == place else None

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:  # noqa: B008, N802
        """Restores shown."""
        return 0 if parent.isValid() else len(self._places)

    def columnCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:  # noqa: B008, N802
        """As ``COLUMNS``."""
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Titles, and what they mean."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return COLUMNS[section][0]
            case Qt.ItemDataRole.ToolTipRole:
                return COLUMNS[section][1]
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(section)
        return None

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, colour and alignment of a cell."""
        if not index.isValid():
            return None
        place, column = int(self._places[index.row()]), index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self._text(place, column)
            case Qt.ItemDataRole.ToolTipRole if column == VERDICT:
                return plain_tip(self._table.words(place))
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.FontRole:
                return self._font
            case Qt.ItemDataRole.ForegroundRole:
                return self._colour(place, column)
        return None

    def _text(self, place: int, column: int) -> str:
        row = self._table.rows[place]
        match column:
            case 0:
                return "–" if row["round"] < 0 else f"{row['round']:,}"
            case 1:
                return str(row["slot"])
            case 2:
                return KIND_WORDS[RestoreKind(int(row["kind"]))]
            case 3:
                self.n_words += 1
                return verdict_briefly(self._table.probe(place))
            case 4:
                return effect_briefly(self._table.probe(place))
            case 5:
                return f"{row['position']:,}"
            case 6:
                return mode_words(int(row["mechanism"]))
            case _:
                return units.duration(float(row["duration_ns"]))

    def _colour(self, place: int, column: int) -> QColor:
        theme = self._theme
        if column == SLOT:
            return QColor(theme.slot_text(int(self._table.rows[place]["slot"])))
        if column != VERDICT:
            return QColor(theme.text)
        verdict = Verdict(int(self._table.rows[place]["verdict"]))
        if verdict.is_difference:
            return QColor(readable(theme.warn, theme.panel, theme.text))
        is_equal = verdict in (Verdict.EQUAL, Verdict.ROUNDING)
        return QColor(readable(theme.ok, theme.panel, theme.text) if is_equal else theme.dim)


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column in _FIGURES else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
