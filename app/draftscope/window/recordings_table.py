"""The recordings as a table: what a person tells them apart by."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from draftscope.base import units
from draftscope.panels.tips import plain_tip
from draftscope.session.recordings_desk import Listing
from draftscope.trace.tracefile import TraceFacts

COLUMNS = ("Date", "Model", "Slots", "Tokens", "Length", "Size", "Note")
_MODEL = 1
_NUMBERS = range(2, 6)
_PATH = Qt.ItemDataRole.UserRole


class RecordingsTable(QTableWidget):
    """One row a recording, the newest first; whole rows are selected."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, len(COLUMNS), parent)
        self.setAccessibleName("Recordings")
        self.setHorizontalHeaderLabels(COLUMNS)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(26)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        for column in range(len(COLUMNS)):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
            item = self.horizontalHeaderItem(column)
            if column in _NUMBERS and item is not None:
                item.setTextAlignment(_RIGHT)
        header.setSectionResizeMode(_MODEL, QHeaderView.ResizeMode.Stretch)

    def show_listing(self, listing: Listing) -> None:
        """Show these; what was selected stays so."""
        selected = set(self.selected)
        self.clearSelection()
        self.setRowCount(len(listing.facts))
        mode = self.selectionMode()
        self.setSelectionMode(QAbstractItemView.SelectionMode.MultiSelection)
        for row, facts in enumerate(listing.facts):
            for column, text in enumerate(_cells(facts, facts.path.name in listing.pinned)):
                self.setItem(row, column, _item(text, column, facts))
            if facts.path in selected or (not selected and row == 0):
                self.selectRow(row)
        self.setSelectionMode(mode)

    @property
    def selected(self) -> list[Path]:
        """Files of the selected rows, from the top."""
        rows = sorted({index.row() for index in self.selectedIndexes()})
        return [item.data(_PATH) for row in rows if (item := self.item(row, 0)) is not None]


_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def _item(text: str, column: int, facts: TraceFacts) -> QTableWidgetItem:
    item = QTableWidgetItem(text)
    item.setData(_PATH, facts.path)
    item.setToolTip(plain_tip(facts.problem or str(facts.path)))
    if column in _NUMBERS:
        item.setTextAlignment(_RIGHT)
    return item


def date_text(facts: TraceFacts) -> str:
    """When the recording began, in local time."""
    return f"{datetime.fromtimestamp(facts.started_s).astimezone():%Y-%m-%d %H:%M:%S}" if facts.started_s else "–"


def _cells(facts: TraceFacts, is_pinned: bool) -> tuple[str, ...]:
    size = units.bytes_text(facts.size_bytes)
    notes = (
        "pinned" if is_pinned else "",
        "being recorded" if facts.is_being_recorded else "" if facts.is_complete or facts.problem else "cut off",
        "without text" if not facts.has_text else "",
    )
    if facts.problem:
        return "–", facts.path.name, "–", "–", "–", size, ", ".join(filter(None, (notes[0], "cannot be read")))
    return (
        date_text(facts),
        facts.model or facts.path.name,
        f"{facts.n_slots}" if facts.n_slots else "–",
        f"{facts.n_tokens:,}",
        units.duration(facts.duration_s * 1e9),
        size,
        ", ".join(filter(None, notes)),
    )
