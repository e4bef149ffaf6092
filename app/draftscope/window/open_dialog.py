"""Choose a model file (or a trace), see what it is before it is loaded, and say how to load it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from draftscope.engine.errors import ErrorReport
from draftscope.engine.model_file import ModelFile
from draftscope.engine.rpc import why_not_names
from draftscope.session.run_setup import RunSetup
from draftscope.session.settings import BY_KEY, Settings
from draftscope.window.dropped_files import is_trace
from draftscope.window.model_facts import FactRow, model_facts
from draftscope.window.model_inspection import ModelInspection

DRAFT_MODEL = "Draft model (assistant)"
"""The row for it, which refusals name."""

FILTER = "Models and traces (*.gguf *.dscope);;GGUF models (*.gguf);;Traces (*.dscope);;All files (*)"
DRAFT_FILTER = "GGUF models (*.gguf);;All files (*)"


class OpenDialog(QDialog):
    """File, facts, and settings of the load. Open is off while there is nothing that could be opened, and says why."""

    chosen = Signal(object)
    """Carries the ``Path``; the settings have been kept by then."""

    def __init__(self, setup: RunSetup, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._setup = setup
        self._settings = settings
        self._model: ModelFile | None = None
        self._why_not_file = ""
        self._inspection = ModelInspection(self)
        self._inspection.inspected.connect(self._on_inspected)
        self.setWindowTitle("Open a model or a trace")
        self.resize(720, 560)
        self.path = QLineEdit()
        self.browse_button = QPushButton("Browse…")
        self.draft_path = QLineEdit()
        self.draft_button = QPushButton("Choose…")
        self.facts = QFormLayout()
        self.n_gpu_layers = _spin("model/n_gpu_layers", settings.whole("model/n_gpu_layers"))
        self.devices = QLineEdit(settings.text("model/devices"))
        self.use_mmap = QCheckBox("Map the file into memory")
        self.rpc_servers = QLineEdit(settings.text("model/rpc_servers"))
        self.rpc_note = QLabel()
        self.n_threads = _spin("context/n_threads", setup.values.context.n_threads)
        context = setup.values.context
        self.n_ctx = _spin("context/n_ctx", context.n_ctx)
        self.shift = QCheckBox("A full slot forgets its older half")
        self.prompt_checkpoints = _spin("context/prompt_checkpoints_mib", context.prompt_checkpoints_mib)
        self.prompt_cache = _spin("context/prompt_cache_mib", context.prompt_cache_mib)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.open_button = self.buttons.addButton("Open", QDialogButtonBox.ButtonRole.AcceptRole)
        self._build()
        self._show_rows([FactRow("", "Choose a file to see what it is.")])
        self._allow("Choose a file first.")

    def _build(self) -> None:
        self.path.setPlaceholderText("Path of a GGUF file or of a recorded trace")
        self.path.setAccessibleName("Model file")
        self.path.setClearButtonEnabled(True)
        self.path.textChanged.connect(self._on_path_changed)
        self.browse_button.clicked.connect(self.browse)
        self.browse_button.setAutoDefault(False)
        self.draft_path.setPlaceholderText("none; or a second file, where the model needs one")
        self.draft_path.setClearButtonEnabled(True)
        self.draft_path.textChanged.connect(self._inspect)
        self.draft_button.clicked.connect(self.browse_draft)
        self.draft_button.setAutoDefault(False)
        row = QHBoxLayout()
        row.addWidget(self.path, 1)
        row.addWidget(self.browse_button)
        facts = QGroupBox("What it is")
        facts.setLayout(self.facts)
        self.facts.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.open_button.setProperty("isPrimary", True)
        self.open_button.setDefault(True)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addLayout(row)
        layout.addWidget(facts, 1)
        self._loading = self._load_settings()
        layout.addWidget(self._loading)
        layout.addWidget(self.buttons)

    def _load_settings(self) -> QGroupBox:
        self.n_gpu_layers.setSpecialValueText("all")
        self.n_threads.setSpecialValueText("automatic")
        self.devices.setPlaceholderText("all; or names such as CUDA0, CPU")
        self.rpc_servers.setPlaceholderText("none; or HOST:PORT, HOST:PORT")
        self.rpc_servers.textChanged.connect(self._on_rpc_servers_changed)
        self.rpc_note.setWordWrap(True)
        self._tell_rpc_servers()
        self.use_mmap.setChecked(self._settings.flag("model/use_mmap"))
        self.shift.setChecked(self._setup.values.context.shift)
        for spin in (self.prompt_checkpoints, self.prompt_cache):
            spin.setSpecialValueText("none")
            spin.setSingleStep(256)
        self.n_ctx.setSingleStep(256)
        self.n_ctx.valueChanged.connect(self._tell_facts)
        form = QFormLayout()
        form.addRow(DRAFT_MODEL, self._draft_row())
        for text, control, key in (
            ("Layers on the GPU", self.n_gpu_layers, "model/n_gpu_layers"),
            ("Devices", self.devices, "model/devices"),
            ("RPC servers", self.rpc_servers, "model/rpc_servers"),
            ("Threads", self.n_threads, "context/n_threads"),
            ("Context of a slot, in tokens", self.n_ctx, "context/n_ctx"),
            ("Prompt checkpoints, in MiB", self.prompt_checkpoints, "context/prompt_checkpoints_mib"),
            ("Prompt cache, in MiB", self.prompt_cache, "context/prompt_cache_mib"),
        ):
            control.setToolTip(BY_KEY[key].description)
            control.setAccessibleName(text)
            form.addRow(text, control)
            if control is self.rpc_servers:
                form.addRow("", self.rpc_note)
        for check, key in ((self.shift, "context/shift"), (self.use_mmap, "model/use_mmap")):
            check.setToolTip(BY_KEY[key].description)
            form.addRow("", check)
        box = QGroupBox("How to load it")
        box.setLayout(form)
        return box

    def _draft_row(self) -> QHBoxLayout:
        what = "A second file with the MTP head of a model that has none itself; it is remembered with the model's file"
        self.draft_path.setAccessibleName(DRAFT_MODEL)
        self.draft_path.setToolTip(what)
        self.draft_button.setToolTip(what)
        row = QHBoxLayout()
        row.addWidget(self.draft_path, 1)
        row.addWidget(self.draft_button)
        return row

    def browse(self) -> None:
        """Choose the file in the system's dialog."""
        recent = self._settings.recent_files
        beside = self.path.text() or (recent[0] if recent else str(Path.home()))
        self._browse("Choose a model or a trace", self.path, beside, FILTER)

    def browse_draft(self) -> None:
        """Choose the draft model in the system's dialog."""
        beside = self.draft_path.text() or self.path.text()
        self._browse("Choose a draft model", self.draft_path, beside, DRAFT_FILTER)

    def _browse(self, title: str, field: QLineEdit, beside: str, filter: str) -> None:
        dialog = QFileDialog(self, title, str(Path(beside).parent), filter)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(field.setText)
        dialog.open()

    def set_path(self, path: Path) -> None:
        """Choose a file."""
        self.path.setText(str(path))

    def accept(self) -> None:
        """Keep the settings, which a trace does not need, and tell which file was chosen."""
        if is_trace(self._chosen()):
            super().accept()
            self.chosen.emit(self._chosen())
            return
        self._settings.set("model/n_gpu_layers", self.n_gpu_layers.value())
        self._settings.set("model/devices", self.devices.text())
        self._settings.set("model/rpc_servers", self.rpc_servers.text().strip())
        self._settings.set("model/use_mmap", self.use_mmap.isChecked())
        values = self._setup.values
        context = replace(
            values.context,
            n_threads=self.n_threads.value(),
            n_ctx=self.n_ctx.value(),
            shift=self.shift.isChecked(),
            prompt_checkpoints_mib=self.prompt_checkpoints.value(),
            prompt_cache_mib=self.prompt_cache.value(),
        )
        self._setup.change(replace(values, context=context))
        path, draft = self._chosen(), self._chosen_draft()
        self._settings.set_draft(path, "" if draft is None else str(draft))
        super().accept()
        self.chosen.emit(path)

    def done(self, result: int) -> None:
        """Close, and wait for the thread that reads the file."""
        self._inspection.close()
        super().done(result)

    def _on_rpc_servers_changed(self) -> None:
        self._tell_rpc_servers()
        self._allow(self._why_not_file)

    def _tell_rpc_servers(self) -> None:
        text = self.rpc_servers.text()
        why_not = why_not_names(text)
        self.rpc_note.setProperty("tone", "bad" if why_not else "warn")
        self.rpc_note.style().polish(self.rpc_note)  # the style sheet looks at the tone only then
        self.rpc_note.setText(why_not or "RPC servers ask nobody who they are: use them in a trusted network only.")
        self.rpc_note.setVisible(bool(text.strip()))

    def _chosen(self) -> Path:
        return Path(self.path.text().strip()).expanduser()

    def _chosen_draft(self) -> Path | None:
        text = self.draft_path.text().strip()
        return Path(text).expanduser() if text else None

    def _on_path_changed(self) -> None:
        before = self.draft_path.text()
        self.draft_path.setText(self._settings.draft_of(self._chosen()))
        if self.draft_path.text() == before:  # else its own signal has led there
            self._inspect()

    def _inspect(self) -> None:
        self._model = None
        self._loading.setEnabled(not is_trace(self._chosen()))
        if not self.path.text().strip():
            self._show_rows([FactRow("", "Choose a file to see what it is.")])
            self._allow("Choose a file first.")
            return
        if is_trace(self._chosen()):
            self._show_rows([FactRow("Trace", "A recorded run. It is shown without loading its model.")])
            self._allow("")
            return
        self._allow("The file is being read.")
        self._inspection.ask(self._chosen(), self._chosen_draft())

    def _on_inspected(self, answer: ModelFile | ErrorReport) -> None:
        if isinstance(answer, ErrorReport):
            self._show_rows([FactRow("", answer.message, "bad"), FactRow("", answer.hint)])
            self._allow(answer.message)
            return
        self._model = answer
        self._tell_facts()
        self._allow(_why_not_open(answer, self._setup.draft_length))

    def _tell_facts(self) -> None:
        if self._model is not None:
            context = replace(self._setup.values.context, n_ctx=self.n_ctx.value())
            self._show_rows(model_facts(self._model, context))

    def _show_rows(self, rows: list[FactRow]) -> None:
        while self.facts.rowCount():
            self.facts.removeRow(0)
        for row in rows:
            value = QLabel(row.value)
            value.setTextFormat(Qt.TextFormat.PlainText)
            value.setWordWrap(True)
            value.setProperty("tone", row.tone)
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self.facts.addRow(row.name, value)
            if self.isVisible():
                value.show()  # else the layout would count it only later
        self._grow()

    def _grow(self) -> None:
        """Make room for what the facts have to say: labels that are squeezed lose lines."""
        layout = self.layout()
        if layout is not None and self.isVisible():
            layout.activate()
            self.resize(self.width(), max(self.height(), layout.totalHeightForWidth(self.width())))

    def _allow(self, why_not_file: str) -> None:
        """Switch the button on, unless the file or the servers speak against it."""
        self._why_not_file = why_not_file
        reason = why_not_file or why_not_names(self.rpc_servers.text())
        self.open_button.setEnabled(not reason)
        self.open_button.setToolTip(reason)


def _why_not_open(model: ModelFile, draft_length: int) -> str:
    """Why the file cannot be loaded; '' too for one whose MTP layers alone cannot be used, while drafting is off."""
    if model.obstacle is None or (model.mtp.needs_no_mtp and draft_length == 0):
        return ""
    way = " Set the draft length to 0 to run it without drafting." if model.mtp.needs_no_mtp else ""
    return f"{model.obstacle.message}{way}"


def _spin(key: str, value: int) -> QSpinBox:
    row = BY_KEY[key]
    spin = QSpinBox()
    spin.setRange(int(row.low), int(row.high))
    spin.setValue(value)
    return spin
