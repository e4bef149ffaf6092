"""The list of restores with its filters; follows the newest until the reader chooses one or scrolls up."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QSignalBlocker, Signal
from PySide6.QtGui import QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from draftscope.base.theme import Theme
from draftscope.engine.probes import RestoreKind
from draftscope.panels.fonts import figure_font
from draftscope.panels.restore_model import (
    COLUMNS,
    EFFECT,
    MODE,
    POSITION,
    ROUND,
    SLOT,
    TOOK,
    VERDICT,
    WHAT_FOR,
    RestoreModel,
)
from draftscope.trace.restores import KIND_WORDS, RestoreTable

_WIDEST = {
    ROUND: "00,000",
    SLOT: "00",
    WHAT_FOR: "rejected draft",
    EFFECT: "accepts 0, not 0",
    POSITION: "00,000",
    MODE: "kv removal",
    TOOK: "000.0 µs",
}
"""Texts that columns have room for; the verdict has the rest."""

_LEAST_VERDICT = 170


class RestoreList(QWidget):
    """Draws only the rows in view, whatever their number."""

    chosen_changed = Signal()
    """Another restore is chosen, by hand."""
    filter_changed = Signal()

    def __init__(self, table: RestoreTable, theme: Theme) -> None:
        super().__init__()
        self._table = table
        self._place = -1
        self.model = RestoreModel(table, theme)
        self.view = QTableView()
        self.slot = QComboBox()
        self.kind = QComboBox()
        self.only_differing = QCheckBox("Only differing")
        self.follow = QCheckBox("Follow")
        self._none = QLabel(self.view)
        self._build()
        self.set_theme(theme)

    @property
    def place(self) -> int:
        """The place in the restore table of the restore that is looked at; -1 where the filter passes none."""
        return self._place

    def _build(self) -> None:
        self._build_view()
        for box, words, name in (
            (self.slot, "all slots", "Slot whose restores are shown"),
            (self.kind, "all kinds", "Kind of the restores that are shown"),
        ):
            box.addItem(words, None)
            box.setAccessibleName(name)
            box.setToolTip(name)
            box.currentIndexChanged.connect(self.filter_changed)
        self.only_differing.setToolTip("Show only restores at which a probe found a difference")
        self.only_differing.toggled.connect(self.filter_changed)
        self.follow.setChecked(True)
        self.follow.setToolTip("Show the newest restore as it comes")
        self.follow.toggled.connect(self._on_follow)
        row = QHBoxLayout()
        row.setContentsMargins(12, 2, 12, 2)
        row.setSpacing(8)
        for control in (self.slot, self.kind, self.only_differing):
            row.addWidget(control)
        row.addStretch(1)
        row.addWidget(self.follow)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(row)
        layout.addWidget(self.view, 1)

    def _build_view(self) -> None:
        view, metrics = self.view, QFontMetricsF(figure_font(0.92))
        view.setModel(self.model)
        view.verticalHeader().hide()
        view.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        view.verticalHeader().setDefaultSectionSize(round(metrics.height()) + 4)
        header = view.horizontalHeader()
        header.setFont(figure_font(0.92))
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        for column, widest in _WIDEST.items():
            texts = (widest, COLUMNS[column][0])
            view.setColumnWidth(column, round(max(map(metrics.horizontalAdvance, texts))) + 14)
        view.setShowGrid(False)
        view.setWordWrap(False)
        view.setTabKeyNavigation(False)
        view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        view.setFrameShape(QFrame.Shape.NoFrame)
        view.setMinimumHeight(44)
        view.setAccessibleName("Restores, the newest last")
        view.selectionModel().currentRowChanged.connect(self._on_row)
        view.verticalScrollBar().actionTriggered.connect(self._on_scrolled)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Give the verdict what the other columns leave; where that is too little, the last ones scroll."""
        super().resizeEvent(event)
        others = sum(self.view.columnWidth(column) for column in _WIDEST)
        front = sum(self.view.columnWidth(column) for column in (ROUND, SLOT, WHAT_FOR, EFFECT))
        room = self.width() - 14
        wide = room - others
        self.view.setColumnWidth(VERDICT, wide if wide >= _LEAST_VERDICT else max(room - front, _LEAST_VERDICT))

    def show_table(self) -> None:
        """Take what is new in the restore table, and show what passes the filter."""
        self._offer()
        slot, kind = self.slot.currentData(), self.kind.currentData()
        places = self._table.select(slot, kind, only_differing=self.only_differing.isChecked())
        blocker = QSignalBlocker(self.view.selectionModel())
        self.model.show_places(places)
        del blocker
        words = "No restore differs." if self.only_differing.isChecked() else "No restore passes the filter."
        self._none.setText(words)
        self._none.adjustSize()
        self._none.setVisible(len(places) == 0)
        if len(places) == 0:
            self._place = -1
        elif self.follow.isChecked() or self.model.row_of(self._place) is None:
            self._mark(int(places[-1]))
        else:
            self._mark(self._place)

    def _offer(self) -> None:
        """Let the filters have the slots and kinds that there are."""
        kinds = [(KIND_WORDS[kind], int(kind)) for kind in self._table.kinds()]
        for box, wanted in ((self.slot, [(f"slot {slot}", slot) for slot in self._table.slots()]), (self.kind, kinds)):
            if [box.itemData(index) for index in range(1, box.count())] == [data for _, data in wanted]:
                continue
            chosen, blocker = box.currentData(), QSignalBlocker(box)
            while box.count() > 1:
                box.removeItem(1)
            for words, data in wanted:
                box.addItem(words, data)
            box.setCurrentIndex(max(box.findData(chosen), 0))
            del blocker

    def choose(self, place: int) -> bool:
        """Look at this restore; False where the filter leaves it out."""
        if self.model.row_of(place) is None:
            return False
        blocker = QSignalBlocker(self.follow)
        self.follow.setChecked(False)
        del blocker
        self._mark(place)
        return True

    def _mark(self, place: int) -> None:
        self._place = place
        row = self.model.row_of(place)
        if row is None:
            return
        index, selection = self.model.index(row, VERDICT), self.view.selectionModel()
        if self.view.currentIndex().row() != row or not selection.isRowSelected(row):
            blocker = QSignalBlocker(selection)
            flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
            selection.setCurrentIndex(self.model.index(row, 0), flags)
            del blocker
            self.view.viewport().update()
            self.view.scrollTo(index)
        if self.follow.isChecked():
            self.view.scrollToBottom()

    def _on_row(self) -> None:
        row = self.view.currentIndex().row()
        if row >= 0 and int(self.model.places[row]) != self._place:
            self.choose(int(self.model.places[row]))
            self.chosen_changed.emit()

    def _on_follow(self, follows: bool) -> None:
        if follows:
            self.filter_changed.emit()

    def _on_scrolled(self) -> None:
        bar = self.view.verticalScrollBar()
        if bar.sliderPosition() < bar.maximum():
            self.follow.setChecked(False)

    @property
    def chosen_kind(self) -> RestoreKind | None:
        """The kind that the filter passes; None: all."""
        data = self.kind.currentData()
        return None if data is None else RestoreKind(data)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self.model.set_theme(theme)
        self._none.setStyleSheet(f"color: {theme.dim}; background: transparent; padding: 10px;")
        self.view.setStyleSheet(
            f"QTableView {{ background: {theme.panel}; color: {theme.text}; selection-background-color:"
            f" {theme.selection_wash}; selection-color: {theme.text}; }}"
            f" QHeaderView::section {{ background: {theme.panel}; color: {theme.dim}; border: none;"
            f" border-bottom: 1px solid {theme.line}; padding: 2px 4px; }}"
        )
        self.view.viewport().update()
