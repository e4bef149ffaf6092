"""How and where to export the run to, whether with its text, and how that goes."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from draftscope.session.export_job import ExportJob
from draftscope.session.settings import Settings
from draftscope.session.shown_run import ShownRun
from draftscope.trace.export.formats import FORMATS, why_not
from draftscope.window.export_notices import show_in_folder
from draftscope.window.export_progress import ExportProgress
from draftscope.window.export_target import named_for, what_happens, why_not_target
from draftscope.window.format_choice import FormatChoice

WIDTH = 640

NO_PROBES = "This run has no probes, so there is nothing to write."


class ExportDialog(QDialog):
    """First a format, a path and a choice; then the progress; at the end where the file is.

    It may be closed while the export goes on, which the window then tells of.
    """

    def __init__(self, session: ShownRun, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._settings = settings
        self.setWindowTitle("Export the run")
        self.format = FormatChoice(settings.text("export/format"), self._reasons())
        self.path = QLineEdit(str(self._first_path()))
        self.browse_button = QPushButton("Browse…")
        self.with_text = QCheckBox("With the text of prompts and outputs")
        self.note = QLabel()
        self.progress = ExportProgress()
        self._choice = QWidget()
        self.buttons = QDialogButtonBox()
        role = QDialogButtonBox.ButtonRole
        self.close_button = self.buttons.addButton("Cancel", role.RejectRole)
        self.export_button = self.buttons.addButton("Export", role.AcceptRole)
        self.folder_button = self.buttons.addButton("Show in folder", role.ActionRole)
        self._place_label = QLabel()
        self._is_writing = False
        self._build()
        self._connect()
        self._tell()
        self._turn_to(self._choice)

    def _reasons(self) -> dict[str, str]:
        reasons = {one.id: why_not(one.id) for one in FORMATS}
        if len(self._session.trace.probes) == 0:
            reasons["npz"] = NO_PROBES
        return reasons

    def _first_path(self) -> Path:
        session = self._session
        folder = Path(self._settings.text("export/folder") or Path.home())
        name = Path(session.model.path).stem if session.model is not None else "run"
        return named_for((folder if folder.is_dir() else Path.home()) / name, self.format.chosen)

    def _build(self) -> None:
        self.path.setAccessibleName("File or folder to write")
        self.browse_button.setAutoDefault(False)
        self.with_text.setChecked(self._settings.flag("export/with_text"))
        self.with_text.setToolTip(
            "Without it, what the model was asked and what it wrote, and the tokens of both, stay with you."
        )
        self.note.setWordWrap(True)
        self.note.setProperty("isDim", True)
        self.export_button.setDefault(True)
        self.export_button.setProperty("isPrimary", True)
        self.folder_button.hide()
        row = QHBoxLayout()
        row.addWidget(self.path, 1)
        row.addWidget(self.browse_button)
        form = QFormLayout()
        form.addRow(self._place_label, row)
        form.addRow("", self.with_text)
        column = QVBoxLayout(self._choice)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(14)
        column.addWidget(self.format)
        column.addLayout(form)
        column.addWidget(self.note)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 16, 16, 12)
        layout.setSpacing(16)
        layout.addWidget(self._choice)
        layout.addWidget(self.progress)
        layout.addStretch(1)
        layout.addWidget(self.buttons)

    def _connect(self) -> None:
        self.format.changed.connect(self._on_format_changed)
        self.path.textChanged.connect(self._tell)
        self.browse_button.clicked.connect(self.browse)
        self.buttons.accepted.connect(self.export)
        self.buttons.rejected.connect(self._on_rejected)
        self.folder_button.clicked.connect(self._on_folder_asked)
        self.finished.connect(self._on_finished)
        self._session.exports.progressed.connect(self.progress.tell)
        self._session.exports.ended.connect(self._on_ended)

    @property
    def target(self) -> Path:
        """The path as it will be written."""
        return Path(self.path.text().strip()).expanduser()

    def browse(self) -> None:
        """Choose the file or folder in the system's dialog."""
        chosen = self.format.chosen
        patterns = ";;".join(f"{chosen.title} (*{suffix})" for suffix in chosen.suffixes)
        dialog = QFileDialog(self, "Export the run", self.path.text(), patterns)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        # This dialog says itself when a file will be replaced.
        dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
        dialog.fileSelected.connect(self.path.setText)
        dialog.open()

    def export(self) -> None:
        """Begin to write, and show how far it is."""
        path, chosen = self.target, self.format.chosen
        self._settings.set("export/format", chosen.id)
        self._settings.set("export/folder", str(path.parent))
        self._settings.set("export/with_text", self.with_text.isChecked())
        self._is_writing = self._session.exports.is_watched = True
        self.progress.begin(self._session.trace.n_records, path)
        self._turn_to(self.progress)
        self.export_button.hide()
        self.close_button.setFocus()
        self._session.export(chosen.id, path, with_text=self.with_text.isChecked())

    def _turn_to(self, page: QWidget) -> None:
        """Show the choice or the progress, as high as that needs."""
        self._choice.setVisible(page is self._choice)
        self.progress.setVisible(page is self.progress)
        layout = self.layout()
        assert layout is not None
        layout.activate()
        self.resize(WIDTH, max(layout.heightForWidth(WIDTH), layout.minimumSize().height()))

    def _on_format_changed(self) -> None:
        self.path.setText(str(named_for(Path(self.path.text().strip() or "run"), self.format.chosen)))
        self._tell()

    def _on_rejected(self) -> None:
        if self._is_writing:
            self._session.exports.cancel()
        else:
            self.reject()

    def _on_ended(self, job: ExportJob) -> None:
        if not self._is_writing:
            return
        self._is_writing = False
        if job.error or job.is_cancelled:
            self._turn_to(self._choice)
            self.export_button.show()
            self._say(
                f"Nothing was written. {job.error}" if job.error else "Cancelled; nothing was written.", job.error
            )
            return
        self.progress.finish(job)
        self.close_button.setText("Close")
        self.folder_button.show()

    def _on_finished(self) -> None:
        self._session.exports.is_watched = False

    def _on_folder_asked(self) -> None:
        show_in_folder(self.target)

    def _tell(self) -> None:
        chosen, text = self.format.chosen, self.path.text().strip()
        self._place_label.setText("Folder" if chosen.is_folder else "File")
        reason = why_not_target(text, chosen)
        self.export_button.setEnabled(not reason)
        self.export_button.setToolTip(reason)
        n_records = self._session.trace.n_records
        self._say(reason or what_happens(text, chosen) or f"{n_records:,} records will be written.", "")

    def _say(self, text: str, error: str) -> None:
        self.note.setText(text)
        self.note.setProperty("tone", "bad" if error else "")
        self.note.style().unpolish(self.note)
        self.note.style().polish(self.note)
