"""Where to export the run to, and whether with its text."""

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

from draftscope.session.session import Session
from draftscope.session.settings import Settings

SUFFIXES = (".json", ".json.gz")
FILTER = "Chrome trace, compressed (*.json.gz);;Chrome trace (*.json)"


class ExportDialog(QDialog):
    """A path and a choice. Says what will be written, and warns before a file is replaced."""

    chosen = Signal(str, bool)
    """Path, and whether to write the text."""

    def __init__(self, session: Session, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._n_records = session.trace.n_records
        self.setWindowTitle("Export the run")
        self.resize(600, 220)
        model = Path(session.model.path).stem if session.model is not None else "run"
        self.path = QLineEdit(str(Path.home() / f"{model}.json.gz"))
        self.browse_button = QPushButton("Browse…")
        self.with_text = QCheckBox("With the text of prompts and outputs")
        self.note = QLabel()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.export_button = self.buttons.addButton("Export", QDialogButtonBox.ButtonRole.AcceptRole)
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
        self.export_button.setDefault(True)
        self.export_button.setProperty("isPrimary", True)
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
        dialog = QFileDialog(self, "Export the run", self.path.text(), FILTER)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        # This dialog says itself when a file will be replaced.
        dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
        dialog.fileSelected.connect(self.path.setText)
        dialog.open()

    def accept(self) -> None:
        """Tell what was chosen."""
        self._settings.set("export/with_text", self.with_text.isChecked())
        path, with_text = self.path.text().strip(), self.with_text.isChecked()
        super().accept()
        self.chosen.emit(str(Path(path).expanduser()), with_text)

    def _tell(self) -> None:
        reason = _why_not(self.path.text().strip())
        self.export_button.setEnabled(not reason)
        self.export_button.setToolTip(reason)
        if reason:
            self.note.setText(reason)
        elif Path(self.path.text().strip()).expanduser().exists():
            self.note.setText("There is a file of this name; it will be replaced.")
        else:
            self.note.setText(
                f"{self._n_records:,} records as a Chrome trace. It opens in ui.perfetto.dev and chrome://tracing."
            )


def _why_not(text: str) -> str:
    if not text:
        return "Name a file."
    path = Path(text).expanduser()
    if not path.name.endswith(SUFFIXES):
        return f"The name must end in {' or '.join(SUFFIXES)}."
    if path.is_dir():
        return f"{path} is a folder."
    return "" if path.parent.is_dir() else f"The folder {path.parent} does not exist."
