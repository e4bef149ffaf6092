"""Where to write the report to, and whether with the text."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
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

from draftscope.session.settings import Settings
from draftscope.session.shown_run import ShownRun

SUFFIX = ".html"


class ReportDialog(QDialog):
    """A path and a choice. Says what will be written, and warns before a file is replaced."""

    chosen = Signal(object, bool)
    """Carries the ``Path``, and whether to write the text."""

    def __init__(self, run: ShownRun, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self.setWindowTitle("Write a report")
        self.resize(600, 220)
        model = Path(run.model.path).stem if run.model is not None else "run"
        self.path = QLineEdit(str(Path.home() / f"{model}-report{SUFFIX}"))
        self.browse_button = QPushButton("Browse…")
        self.with_text = QCheckBox("With the text of prompts and outputs")
        self.note = QLabel()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.write_button = self.buttons.addButton("Write", QDialogButtonBox.ButtonRole.AcceptRole)
        self._build()
        self._tell()

    def _build(self) -> None:
        self.path.setAccessibleName("File to write")
        self.path.textChanged.connect(self._tell)
        self.browse_button.clicked.connect(self.browse)
        self.browse_button.setAutoDefault(False)
        self.with_text.setChecked(self._settings.flag("export/with_text"))
        self.with_text.setToolTip("Without it, what the model was asked and what it wrote stays with you.")
        self.note.setWordWrap(True)
        self.note.setProperty("isDim", True)
        self.write_button.setDefault(True)
        self.write_button.setProperty("isPrimary", True)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        row = QHBoxLayout()
        row.addWidget(self.path, 1)
        row.addWidget(self.browse_button)
        form = QFormLayout()
        form.addRow("File", row)
        form.addRow("", self.with_text)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addWidget(self.note, 1)
        layout.addWidget(self.buttons)

    def browse(self) -> None:
        """Choose the file in the system's dialog."""
        dialog = QFileDialog(self, "Write a report", self.path.text(), f"Web page (*{SUFFIX})")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        # This dialog says itself when a file will be replaced.
        dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
        dialog.fileSelected.connect(self.path.setText)
        dialog.open()

    def accept(self) -> None:
        """Tell what was chosen."""
        self._settings.set("export/with_text", self.with_text.isChecked())
        path = self._chosen()
        super().accept()
        self.chosen.emit(path, self.with_text.isChecked())

    def _chosen(self) -> Path:
        return Path(self.path.text().strip()).expanduser()

    def _tell(self) -> None:
        reason = self._why_not()
        self.write_button.setEnabled(not reason)
        self.write_button.setToolTip(reason)
        if reason:
            self.note.setText(reason)
        elif self._chosen().exists():
            self.note.setText("There is a file of this name; it will be replaced.")
        else:
            self.note.setText("One page with the pictures and tables of the run, to be sent with a bug report.")

    def _why_not(self) -> str:
        path = self._chosen()
        if not self.path.text().strip():
            return "Name a file."
        if path.suffix != SUFFIX:
            return f"The name must end in {SUFFIX}."
        if path.is_dir():
            return f"{path} is a folder."
        return "" if path.parent.is_dir() else f"The folder {path.parent} does not exist."
