"""Two runs side by side: what was not the same, where the outputs part, and the figures with what of them is noise."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QProgressBar,
    QSplitter,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from draftscope.panels.tips import plain_tip
from draftscope.session.comparing import Answer, Comparing, Side
from draftscope.trace.compare import Compared, Comparison
from draftscope.trace.compare_noise import METHOD
from draftscope.trace.compare_words import (
    interval_words,
    is_better,
    is_worse,
    outputs_words,
    ratio_words,
    repeats_words,
    value_words,
    verdict_words,
)
from draftscope.window.appearance import Appearance
from draftscope.window.ratio_delegate import RATIO_ROLE, RatioDelegate, RatioMark

FIGURES = ("", "A", "B", "B / A", "interval", "", "")
_PICTURE = 5
_VERDICT = 6


class CompareWindow(QDialog):
    """Reads and compares when it is made; nothing of the main window waits for it."""

    def __init__(self, ours: Side, theirs: Side, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self.comparison: Comparison | None = None
        self.setWindowTitle("Compare runs")
        self.setModal(False)
        self.resize(1060, 760)
        self._progress = QProgressBar()
        self._wait = QLabel("Reading the runs…")
        self._names = QLabel()
        self._summary = QLabel()
        self._outputs = QLabel()
        self.differences = _tree(("not the same", "", "A", "B"), "What was not the same")
        self.figures = _tree(FIGURES, "Figures of both runs")
        self._delegate = RatioDelegate(appearance.theme, self.figures)
        self.shows_equal = QCheckBox("Show figures that are exactly equal")
        self._pages = QStackedWidget()
        self._build()
        self._comparing = Comparing(ours, theirs, self)
        self._comparing.answered.connect(self._on_answered)
        self._comparing.progressed.connect(lambda fraction: self._progress.setValue(round(fraction * 1000)))
        appearance.theme_changed.connect(self._on_theme_changed)
        self._comparing.start()

    def _build(self) -> None:
        for label in (self._names, self._summary, self._outputs, self._wait):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._summary.setProperty("isDim", True)
        self._progress.setRange(0, 1000)
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName("Progress")
        self.figures.setItemDelegateForColumn(_PICTURE, self._delegate)
        for place in range(1, _PICTURE):
            self.figures.headerItem().setTextAlignment(place, Qt.AlignmentFlag.AlignRight)
        self.figures.headerItem().setToolTip(4, METHOD)
        self.figures.headerItem().setToolTip(_PICTURE, METHOD)
        self.shows_equal.toggled.connect(self._fill_figures)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        waiting = QWidget()
        column = QVBoxLayout(waiting)
        column.addStretch(1)
        column.addWidget(self._wait, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addWidget(self._progress)
        column.addStretch(1)
        self._pages.addWidget(waiting)
        self._pages.addWidget(self._result())
        layout = QVBoxLayout(self)
        layout.addWidget(self._pages, 1)
        foot = QHBoxLayout()
        foot.addWidget(self.shows_equal)
        foot.addWidget(buttons, 1)
        layout.addLayout(foot)
        for tree in (self.differences, self.figures):
            shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), tree, lambda tree=tree: _copy(tree))
            shortcut.setContext(Qt.ShortcutContext.WidgetShortcut)

    def _result(self) -> QWidget:
        page = QWidget()
        self._parts = QSplitter(Qt.Orientation.Vertical)
        self._parts.addWidget(self.differences)
        self._parts.addWidget(self.figures)
        self._parts.setStretchFactor(1, 3)
        self._parts.setChildrenCollapsible(False)
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._names)
        column.addWidget(self._outputs)
        column.addWidget(self._parts, 1)
        column.addWidget(self._summary)
        return page

    def done(self, result: int) -> None:
        """Close, and wait for the thread."""
        self._comparing.close()
        super().done(result)

    # ---- what came of it

    def _on_answered(self, answer: Answer) -> None:
        self._comparing.close()
        if answer.comparison is None:
            self._wait.setText(answer.error)
            self._progress.hide()
            return
        comparison = self.comparison = answer.comparison
        self._names.setText(f"A  {answer.names[0]}\nB  {answer.names[1]}")
        self._outputs.setText("\n".join(outputs_words(comparison.outputs)))
        self._summary.setText(" ".join([repeats_words(comparison), *comparison.missing]))
        self._fill_differences(comparison)
        self._fill_figures()
        self._pages.setCurrentIndex(1)

    def _fill_differences(self, comparison: Comparison) -> None:
        self.differences.clear()
        rows = [(d.group, d.name, d.a, d.b) for d in comparison.differences]
        if not rows:
            rows = [("nothing", "prompts, settings, model, build and machine are the same", "", "")]
        group = ""
        for row in rows:
            item = QTreeWidgetItem(self.differences, [row[0] if row[0] != group else "", *row[1:]])
            for column, text in enumerate(row):
                item.setToolTip(column, plain_tip(text))
            group = row[0]
        _fit(self.differences)
        height = self.differences.sizeHintForRow(0) * (min(len(rows), 10) + 2)
        self._parts.setSizes([height, max(self.height() - height, 200)])

    def _fill_figures(self) -> None:
        self.figures.clear()
        if self.comparison is None:
            return
        group = ""
        bold = QFont(self.font())
        bold.setBold(True)
        for row in self.comparison.shown(shows_all=self.shows_equal.isChecked()):
            if row.figure.group != group:
                group = row.figure.group
                head = QTreeWidgetItem(self.figures, [group])
                head.setFont(0, bold)
                head.setFirstColumnSpanned(True)
            self._add(row)
        if self.figures.topLevelItemCount() == 0:
            head = QTreeWidgetItem(self.figures, ["All figures are exactly equal."])
            head.setFirstColumnSpanned(True)
        _fit(self.figures)
        self.figures.header().resizeSection(_PICTURE, 170)

    def _add(self, row: Compared) -> None:
        judged, unit, theme = row.judged, row.figure.unit, self._appearance.theme
        values = value_words(judged.a, unit), value_words(judged.b, unit)
        texts = [row.figure.words, *values, ratio_words(judged.ratio), interval_words(row), "", verdict_words(row)]
        item = QTreeWidgetItem(self.figures, texts)
        for column in range(1, 5):
            item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for column in range(len(texts)):
            item.setToolTip(column, f"{row.figure.definition[:1].upper()}{row.figure.definition[1:]}.")
        tone = "ok" if is_better(row) else "bad" if is_worse(row) else ""
        if tone:
            item.setForeground(_VERDICT, QColor(getattr(theme, tone)))
        elif not judged.verdict.is_change:
            item.setForeground(_VERDICT, QColor(theme.dim))
        mark = RatioMark(judged.ratio, judged.low, judged.high, tone)
        item.setData(_PICTURE, RATIO_ROLE, mark)

    def _on_theme_changed(self) -> None:
        self._delegate.set_theme(self._appearance.theme)
        self._fill_figures()


def _tree(header: tuple[str, ...], name: str) -> QTreeWidget:
    tree = QTreeWidget()
    tree.setHeaderLabels(list(header))
    tree.setAccessibleName(name)
    tree.setRootIsDecorated(False)
    tree.setUniformRowHeights(True)
    tree.setIndentation(0)
    tree.setSelectionMode(QTreeWidget.SelectionMode.ExtendedSelection)
    tree.setAlternatingRowColors(False)
    tree.header().setStretchLastSection(True)
    tree.header().setMinimumSectionSize(24)
    tree.setStyleSheet("QTreeWidget::item { padding: 2px 3px; }")
    return tree


def _fit(tree: QTreeWidget) -> None:
    for column in range(tree.columnCount() - 1):  # the last takes what is left
        tree.header().setSectionResizeMode(column, QHeaderView.ResizeMode.Interactive)
        tree.resizeColumnToContents(column)
        tree.header().resizeSection(column, min(tree.header().sectionSize(column) + 14, 380))


def _copy(tree: QTreeWidget) -> None:
    """Put the selected rows on the clipboard, a row a line."""
    lines = ("\t".join(item.text(column) for column in range(tree.columnCount())) for item in tree.selectedItems())
    QGuiApplication.clipboard().setText("\n".join(lines))
