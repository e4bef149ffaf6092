"""The lines of the log as a list model: the book's lines that pass the filter, without a copy of their text."""

from __future__ import annotations

from collections import deque
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt

from draftscope.engine.protocol import LogLine
from draftscope.panels.tips import plain_tip

LEVELS = ("debug", "info", "warning", "error")

LevelRole = Qt.ItemDataRole.UserRole
TimeRole = Qt.ItemDataRole.UserRole + 1

N_KEPT = 20_000
"""Lines that the list holds; the oldest go first."""

N_TRIMMED = 1_000
"""Lines that it may hold beyond that before they go."""


class LogModel(QAbstractListModel):
    """Takes lines as they come and shows those of a level and with a text in them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=N_KEPT)
        self._shown: list[LogLine] = []
        self._least = LEVELS.index("info")
        self._needle = ""

    @property
    def n_lines(self) -> int:
        """Lines held, shown or not."""
        return len(self._lines)

    def append(self, lines: list[LogLine]) -> None:
        """Take new lines."""
        self._lines.extend(lines)
        passing = [line for line in lines if self._passes(line)]
        if not passing:
            return
        first = len(self._shown)
        self.beginInsertRows(QModelIndex(), first, first + len(passing) - 1)
        self._shown.extend(passing)
        self.endInsertRows()
        self._trim()

    def clear(self) -> None:
        """Forget all lines."""
        self.beginResetModel()
        self._lines.clear()
        self._shown.clear()
        self.endResetModel()

    def set_filter(self, level: str, needle: str) -> None:
        """Show lines of at least ``level`` that contain ``needle``, whatever the case."""
        self._least = LEVELS.index(level)
        self._needle = needle.casefold()
        self.beginResetModel()
        self._shown = [line for line in self._lines if self._passes(line)]
        self.endResetModel()

    def line(self, row: int) -> LogLine:
        """A shown line."""
        return self._shown[row]

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:  # noqa: B008, N802
        """Lines shown."""
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, level and time of a line."""
        if not index.isValid():
            return None
        line = self._shown[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return line.text
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(line.text)
            case Qt.ItemDataRole.AccessibleTextRole:
                return f"{line.level}: {line.text}"
        if role == LevelRole:
            return line.level
        return line.t_ns if role == TimeRole else None

    def _passes(self, line: LogLine) -> bool:
        level = LEVELS.index(line.level) if line.level in LEVELS else LEVELS.index("info")
        return level >= self._least and self._needle in line.text.casefold()

    def _trim(self) -> None:
        n_over = len(self._shown) - N_KEPT
        # In blocks, since taking rows from the front costs the same whatever their number.
        if n_over >= N_TRIMMED:
            self.beginRemoveRows(QModelIndex(), 0, n_over - 1)
            del self._shown[:n_over]
            self.endRemoveRows()
