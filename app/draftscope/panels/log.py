"""The Log panel: what the engine and libllama said, filtered by level and by text."""

from __future__ import annotations

from itertools import islice
from typing import ClassVar

from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtGui import QGuiApplication, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
)

from draftscope.base.theme import Theme
from draftscope.panels.log_delegate import LogDelegate
from draftscope.panels.log_model import LEVELS, LogModel
from draftscope.panels.panel import Panel
from draftscope.session.shown_run import ShownRun


class LogPanel(Panel):
    """A list that draws only the lines in view; follows the end until the reader scrolls up."""

    id: ClassVar[str] = "log"
    title: ClassVar[str] = "Log"
    news_per_s: ClassVar[float] = 10.0

    def __init__(self, session: ShownRun, theme: Theme) -> None:
        super().__init__(session, theme)
        self.model = LogModel()
        # A table lays out rows of one height without asking the model for each, as a list view would on every change.
        self.list = QTableView()
        self._delegate = LogDelegate(theme)
        self._level = QComboBox()
        self._search = QLineEdit()
        self._follow = QCheckBox("Follow")
        self._copy = QPushButton("Copy")
        self._none = QLabel("No line passes the filter.", self.list)
        self._n_taken = 0
        self._build()
        self._apply_theme()
        session.log_appended.connect(self.mark_news)

    def _build(self) -> None:
        self._build_controls()
        self.list.setModel(self.model)
        self.list.setItemDelegate(self._delegate)
        self.list.verticalHeader().hide()
        self.list.horizontalHeader().hide()
        self.list.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.list.verticalHeader().setDefaultSectionSize(self._delegate.row_height)
        self.list.setShowGrid(False)
        self.list.setWordWrap(False)
        self.list.setTabKeyNavigation(False)
        self.list.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setAccessibleName("Log lines")
        self.list.verticalScrollBar().actionTriggered.connect(self._on_scrolled)
        copy = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), self.list, self.copy_lines)
        copy.setContext(Qt.ShortcutContext.WidgetShortcut)
        row = QHBoxLayout()
        row.setContentsMargins(12, 6, 12, 4)
        row.setSpacing(8)
        row.addWidget(self._level)
        row.addWidget(self._search, 1)
        row.addWidget(self._follow)
        row.addWidget(self._copy)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(row)
        layout.addWidget(self.list, 1)

    def _build_controls(self) -> None:
        for level, words in zip(LEVELS, ("Everything", "Information", "Warnings", "Errors"), strict=True):
            self._level.addItem(words, level)
        self._level.setCurrentIndex(LEVELS.index("info"))
        self._level.setAccessibleName("Least level shown")
        self._level.setToolTip("Show lines of this level and above")
        self._level.currentIndexChanged.connect(self._on_filter_changed)
        self._search.setPlaceholderText("Find in the log")
        self._search.setAccessibleName("Find in the log")
        self._search.setClearButtonEnabled(True)
        self._search.textChanged.connect(self._on_filter_changed)
        self._follow.setChecked(True)
        self._follow.setToolTip("Keep the newest line in view")
        self._follow.toggled.connect(self._on_follow_toggled)
        self._copy.setToolTip("Copy the selected lines, or all that are shown (Ctrl+C)")
        self._copy.clicked.connect(self.copy_lines)

    def _why_empty(self) -> tuple[str, str] | None:
        if self.session.log.n_total > 0:
            return None
        return "Nothing logged yet", "What the engine says while it loads and runs appears here."

    def _refresh_body(self) -> None:
        log = self.session.log
        if log.n_total < self._n_taken:
            self.model.clear()
            self._n_taken = 0
        n_new = min(log.n_total - self._n_taken, len(log.lines))
        self._n_taken = log.n_total
        if n_new:
            new = list(islice(reversed(log.lines), n_new))[::-1]
            if self.model.n_lines == 0:
                self._delegate.origin_ns = new[0].t_ns
            self.model.append(new)
            self._widen(max(len(line.text) for line in new))
        self._after_change()

    def _widen(self, n_characters: int) -> None:
        width = max(self._delegate.width_of(n_characters), self.list.viewport().width())
        if width > self.list.columnWidth(0):
            self.list.setColumnWidth(0, width)

    def copy_lines(self) -> None:
        """Copy the selected lines in their order, or all that are shown when none is selected."""
        rows = sorted(index.row() for index in self.list.selectionModel().selectedRows())
        lines = (self.model.line(row) for row in rows or range(self.model.rowCount()))
        QGuiApplication.clipboard().setText("\n".join(f"{line.level}: {line.text}" for line in lines))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the rows as wide as the list."""
        super().resizeEvent(event)
        self._widen(0)

    def _on_filter_changed(self) -> None:
        self.model.set_filter(str(self._level.currentData()), self._search.text())
        self._after_change()

    def _after_change(self) -> None:
        n_shown = self.model.rowCount()
        self._none.setVisible(n_shown == 0)
        self._copy.setEnabled(n_shown > 0)
        self.set_headline(f"{n_shown:,} of {self.model.n_lines:,} lines")
        if self._follow.isChecked():
            self.list.scrollToBottom()

    def _on_follow_toggled(self, follows: bool) -> None:
        if follows:
            self.list.scrollToBottom()
            self.list.selectionModel().setCurrentIndex(
                self.model.index(self.model.rowCount() - 1), QItemSelectionModel.SelectionFlag.NoUpdate
            )

    def _on_scrolled(self) -> None:
        bar = self.list.verticalScrollBar()
        self._follow.setChecked(bar.sliderPosition() >= bar.maximum())

    def _apply_theme(self) -> None:
        self._delegate.set_theme(self.theme)
        self._none.setStyleSheet(f"color: {self.theme.dim}; background: transparent; padding: 12px;")
        self.list.setStyleSheet(f"QTableView {{ background: {self.theme.panel}; color: {self.theme.text}; }}")
        self.list.viewport().update()
