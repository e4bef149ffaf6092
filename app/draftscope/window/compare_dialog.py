"""What to compare: the run that is shown or traces, with other traces; several of each are repeats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from draftscope.panels.tips import plain_tip
from draftscope.session.comparing import Side
from draftscope.session.opened_trace import OpenedTrace
from draftscope.session.shown_run import ShownRun
from draftscope.trace.compare_noise import MIN_PAIRS

FILTER = "Traces (*.dscope);;All files (*)"


class TraceList(QGroupBox):
    """The traces of one side, in the order in which they were recorded."""

    changed = Signal()

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self.paths: list[Path] = []
        self.list = QListWidget()
        self.list.setAccessibleName(title)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.setMinimumHeight(72)
        self.add_button = QPushButton("Add…")
        self.clear_button = QPushButton("Clear")
        self.add_button.clicked.connect(self.browse)
        self.clear_button.clicked.connect(self.clear)
        for button in (self.add_button, self.clear_button):
            button.setAutoDefault(False)
        buttons = QVBoxLayout()
        buttons.addWidget(self.add_button)
        buttons.addWidget(self.clear_button)
        buttons.addStretch(1)
        row = QHBoxLayout(self)
        row.addWidget(self.list, 1)
        row.addLayout(buttons)

    def browse(self) -> None:
        """Choose files in the system's dialog."""
        beside = self.paths[-1].parent if self.paths else Path.home()
        dialog = QFileDialog(self, "Choose traces", str(beside), FILTER)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(lambda names: self.add([Path(name) for name in names]))
        dialog.open()

    def add(self, paths: Sequence[Path]) -> None:
        """Take more files."""
        for path in paths:
            self.paths.append(path)
            self.list.addItem(path.name)
            self.list.item(self.list.count() - 1).setToolTip(plain_tip(str(path)))
        self.changed.emit()

    def clear(self) -> None:
        """Take all files away."""
        self.paths.clear()
        self.list.clear()
        self.changed.emit()


class CompareDialog(QDialog):
    """Two sides. Compare is off while they do not fit together, and says why."""

    chosen = Signal(object, object)
    """Carries the two ``Side``."""

    def __init__(self, run: ShownRun, traces: Sequence[Path] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._run = run
        self.setWindowTitle("Compare runs")
        self.resize(620, 420)
        self.uses_shown = QCheckBox()
        self.ours, self.theirs = (
            TraceList("A: one trace, or repeats in the order of their recording"),
            TraceList("B: as many"),
        )
        self.note = QLabel()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.compare_button = self.buttons.addButton("Compare", QDialogButtonBox.ButtonRole.AcceptRole)
        self._build()
        self.uses_shown.setChecked(run.trace.n_records > 0 and not traces)
        for side, path in zip((self.ours, self.theirs), traces, strict=False):
            side.add([path])
        self._tell()

    def _build(self) -> None:
        what = (
            f"A is the saved trace that is shown, {self._run.path.name}"
            if isinstance(self._run, OpenedTrace)
            else "A is the run that is shown"
        )
        self.uses_shown.setText(what)
        has_run = self._run.trace.n_records > 0
        self.uses_shown.setEnabled(has_run)
        self.uses_shown.setToolTip("" if has_run else "Nothing has run yet.")
        self.uses_shown.toggled.connect(self._tell)
        self.ours.changed.connect(self._tell)
        self.theirs.changed.connect(self._tell)
        self.note.setWordWrap(True)
        self.note.setProperty("isDim", True)
        self.compare_button.setProperty("isPrimary", True)
        self.compare_button.setDefault(True)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self.uses_shown)
        layout.addWidget(self.ours, 1)
        layout.addWidget(self.theirs, 1)
        layout.addWidget(self.note)
        layout.addWidget(self.buttons)

    def accept(self) -> None:
        """Tell what was chosen."""
        ours = Side(make_trace=self._run.snapshot()) if self.uses_shown.isChecked() else Side(tuple(self.ours.paths))
        super().accept()
        self.chosen.emit(ours, Side(tuple(self.theirs.paths)))

    def _tell(self) -> None:
        self.ours.setVisible(not self.uses_shown.isChecked())
        reason = self._why_not()
        self.compare_button.setEnabled(not reason)
        self.compare_button.setToolTip(reason)
        hint = f"With {MIN_PAIRS} or more repeats of each, recorded in turn, small differences of speed can be told."
        self.note.setText(reason or hint)

    def _why_not(self) -> str:
        n_ours = 1 if self.uses_shown.isChecked() else len(self.ours.paths)
        n_theirs = len(self.theirs.paths)
        if not n_ours or not n_theirs:
            return f"Add a trace to {'A' if not n_ours else 'B'}."
        if n_ours != n_theirs:
            return f"A has {n_ours} and B {n_theirs} runs: they are compared in pairs, so add as many to both."
        return ""
