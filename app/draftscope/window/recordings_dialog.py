"""The recorded runs: open, pin, copy and delete them, and say how much room they may take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QMessageBox,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from draftscope.base import units
from draftscope.panels.tips import plain_tip
from draftscope.session.recordings_desk import Listing, RecordingsDesk
from draftscope.session.settings import BY_KEY, Settings
from draftscope.window.recordings_table import RecordingsTable

EMPTY = (
    "No run has been recorded yet.\n\nEvery run is recorded into a file of its own while it goes on, so that it can be "
    "looked at again, compared and shared, also after a crash."
)
OFF = "No run has been recorded.\n\nRuns are not recorded: switch that on below."
READING = "Reading the recordings…"
FILTER = "Trace (*.dscope)"


class RecordingsDialog(QDialog):
    """A list, what can be done with what is selected in it, and the settings of recording."""

    open_requested = Signal(object)
    """Carries the path of the recording that is to be shown."""

    def __init__(self, desk: RecordingsDesk, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._settings = settings
        self._listing = Listing()
        self._is_listed = False
        self.setWindowTitle("Recordings")
        self.resize(860, 460)
        self.table = RecordingsTable()
        self.empty = QLabel()
        self.pages = QStackedWidget()
        self.note = QLabel()
        self.progress = QProgressBar()
        self.cancel = QPushButton("Cancel the copy")
        self.open_button = self._button("Open", self.open_selected)
        self.pin_button = self._button("Pin", self.pin_selected)
        self.copy_button = self._button("Save a copy…", self.copy_selected)
        self.delete_button = self._button("Delete", self.delete_selected)
        self.is_on = QCheckBox(BY_KEY["recording/is_on"].description)
        self.with_text = QCheckBox("With the text of prompts and outputs")
        self.budget = QSpinBox()
        self.folder_button = self._button("Show the folder", self.show_folder)
        self._build()
        self._connect()
        desk.ask_list()

    def _button(self, text: str, do: Callable[[], object]) -> QPushButton:
        button = QPushButton(text)
        button.setAutoDefault(False)
        button.clicked.connect(lambda: do())
        return button

    def _build(self) -> None:
        self.empty.setWordWrap(True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.empty.setProperty("isDim", True)
        self.empty.setMargin(40)
        self.pages.addWidget(self.table)
        self.pages.addWidget(self.empty)
        self.note.setWordWrap(True)
        self.note.setProperty("isDim", True)
        self.progress.setRange(0, 1000)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the copy")
        self.open_button.setProperty("isPrimary", True)
        row = self.budget
        setting = BY_KEY["recording/budget_mib"]
        row.setRange(int(setting.low), int(setting.high))
        row.setSingleStep(256)
        row.setSuffix(" MiB")
        row.setGroupSeparatorShown(True)
        row.setAccessibleName("Most disk space for recordings")
        row.setToolTip(setting.description)
        self.is_on.setChecked(self._settings.flag("recording/is_on"))
        self.with_text.setChecked(self._settings.flag("recording/with_text"))
        self.with_text.setToolTip("Without it, what the model was asked and what it wrote is never on the disk.")
        self.budget.setValue(self._settings.whole("recording/budget_mib"))
        layout = QVBoxLayout(self)
        layout.addWidget(self.pages, 1)
        layout.addLayout(_row(self.open_button, self.pin_button, self.copy_button, self.delete_button, None))
        layout.addLayout(_row(self.note, self.progress, self.cancel, stretch=0))
        limit = QLabel("Keep at most")
        limit.setBuddy(self.budget)
        close = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        close.rejected.connect(self.reject)
        layout.addLayout(_row(self.is_on, self.with_text, None, limit, self.budget))
        layout.addLayout(_row(self.folder_button, None, close))
        self._show_copying(False)
        self._tell()

    def _connect(self) -> None:
        self._desk.listed.connect(self._on_listed)
        self._desk.changed.connect(self._desk.ask_list)
        self._desk.failed.connect(self._on_failed)
        self._desk.copied.connect(self._on_copied)
        self._desk.copy_progressed.connect(self._on_copy_progressed)
        self._desk.copy_ended.connect(self._on_copy_ended)
        self.cancel.clicked.connect(self._desk.cancel_copy)
        self.table.itemSelectionChanged.connect(self._tell)
        self.table.itemDoubleClicked.connect(lambda _: self.open_selected())
        self.is_on.toggled.connect(lambda is_on: self._change("recording/is_on", is_on))
        self.with_text.toggled.connect(lambda with_text: self._change("recording/with_text", with_text))
        self.budget.valueChanged.connect(lambda mib: self._change("recording/budget_mib", mib))

    def _change(self, key: str, value: bool | int) -> None:
        self._settings.set(key, value)
        self._tell()

    # ---- what can be done

    def open_selected(self) -> None:
        """Show a recording in the window."""
        if len(paths := self.table.selected) == 1:
            self.accept()
            self.open_requested.emit(paths[0])

    def pin_selected(self) -> None:
        """Pin what is selected, or unpin it where all of it is pinned."""
        self._desk.set_pinned(self.table.selected, not self._all_pinned)

    def copy_selected(self) -> None:
        """Ask where to, and whether with the text, then copy."""
        if len(paths := self.table.selected) == 1:
            dialog = QFileDialog(self, "Save a copy of the recording", str(Path.home() / paths[0].name), FILTER)
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
            dialog.setDefaultSuffix("dscope")
            dialog.fileSelected.connect(lambda target: self._ask_for_text(paths[0], Path(target)))
            dialog.open()

    def _ask_for_text(self, path: Path, target: Path) -> None:
        facts = next((facts for facts in self._listing.facts if facts.path == path), None)
        if facts is not None and not facts.has_text:
            self.copy(path, target, with_text=False)
            return
        box = QMessageBox(self)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setWindowTitle("Save a copy")
        box.setText("Shall the copy have the text of prompts and outputs?")
        box.setInformativeText(
            "Without it, it has all times and counts, but no prompt, output, token or line of the log."
        )
        with_text = box.addButton("With text", QMessageBox.ButtonRole.AcceptRole)
        without = box.addButton("Without text", QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        with_text.clicked.connect(lambda: self.copy(path, target, with_text=True))
        without.clicked.connect(lambda: self.copy(path, target, with_text=False))
        box.open()

    def copy(self, path: Path, target: Path, *, with_text: bool) -> None:
        """Write a copy; progress is shown, and it can be cancelled."""
        self._show_copying(True)
        self.note.setText(f"Copying to {target}")
        self._desk.copy(path, target, with_text=with_text)

    def delete_selected(self) -> None:
        """Delete what is selected, after a question."""
        paths = self.table.selected
        what = "this recording" if len(paths) == 1 else f"these {len(paths)} recordings"
        box = QMessageBox(self)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setWindowTitle("Delete recordings")
        box.setText(f"Delete {what}?")
        box.setInformativeText("That cannot be undone.")
        delete = box.addButton("Delete", QMessageBox.ButtonRole.DestructiveRole)
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
        delete.clicked.connect(lambda: self._desk.remove(paths))
        box.open()

    def show_folder(self) -> None:
        """Show the folder in the system's file manager."""
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._desk.recordings.folder)))

    # ---- what came

    def _on_listed(self, listing: Listing) -> None:
        self._listing, self._is_listed = listing, True
        self.table.show_listing(listing)
        self._tell()

    def _on_failed(self, sentence: str) -> None:
        self._tell()
        self.note.setText(sentence)

    def _on_copied(self, target: Path) -> None:
        self._tell()
        self.note.setText(f"Copied to {target}")

    def _on_copy_progressed(self, fraction: float) -> None:
        self.progress.setValue(round(fraction * 1000))

    def _on_copy_ended(self) -> None:
        self._show_copying(False)
        if self.note.text().startswith("Copying"):
            self.note.setText("The copy was cancelled.")

    def _show_copying(self, is_copying: bool) -> None:
        self.progress.setValue(0)
        self.progress.setVisible(is_copying)
        self.cancel.setVisible(is_copying)
        self.copy_button.setEnabled(not is_copying and len(self.table.selected) == 1)

    @property
    def _all_pinned(self) -> bool:
        return all(path.name in self._listing.pinned for path in self.table.selected)

    def _tell(self) -> None:
        is_empty = not self._listing.facts
        self.empty.setText(READING if not self._is_listed else EMPTY if self.is_on.isChecked() else OFF)
        self.pages.setCurrentWidget(self.empty if is_empty else self.table)
        selected = self.table.selected
        facts = [facts for facts in self._listing.facts if facts.path in selected]
        one, some = "" if len(selected) == 1 else "Select one recording.", "" if selected else "Select a recording."
        live = "It is being recorded." if any(fact.is_being_recorded for fact in facts) else ""
        unread = "It cannot be read." if any(fact.problem for fact in facts) else ""
        self.pin_button.setText("Unpin" if selected and self._all_pinned else "Pin")
        for button, why_not, tip in (
            (self.open_button, one or unread, "Show it in the window"),
            (self.pin_button, some, "A pinned recording stays, however full the disk space for recordings is"),
            (self.copy_button, one or unread, "Write it elsewhere, with or without its text, with tables for SQL"),
            (self.delete_button, some or live, "Remove it from the disk"),
        ):
            button.setEnabled(not why_not)
            button.setToolTip(why_not or tip)
        n, budget = len(self._listing.facts), units.bytes_text(self.budget.value() << 20)
        taken = units.bytes_text(self._listing.size_bytes)
        self.note.setText("" if is_empty else f"{n} {'recording' if n == 1 else 'recordings'}, {taken} of {budget}")
        self.folder_button.setEnabled(not is_empty)
        self.folder_button.setToolTip(plain_tip(str(self._desk.recordings.folder)))

    def done(self, result: int) -> None:
        """Close; a copy that is being written is cancelled."""
        self._desk.cancel_copy()
        super().done(result)


def _row(*parts: QWidget | None, stretch: int = 0) -> QHBoxLayout:
    """Widgets in a row; None is where it stretches."""
    row = QHBoxLayout()
    for part in parts:
        row.addStretch(1) if part is None else row.addWidget(part, stretch)
    return row
