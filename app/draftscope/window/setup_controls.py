"""The controls of the toolbar that set up the next run."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSignalBlocker, Qt
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QLabel, QSpinBox, QToolBar, QWidget

from draftscope.engine.protocol import CheckpointMode, ModelReport
from draftscope.panels.tips import plain_tip
from draftscope.session.run_setup import RunSetup
from draftscope.session.settings import BY_KEY
from draftscope.window.situation import Situation, why_not_setup


class SetupControls(QObject):
    """Slots, draft length, checkpoint mode, temperature and max tokens; their tooltips say what was granted."""

    def __init__(self, setup: RunSetup, parent: QObject) -> None:
        super().__init__(parent)
        self._setup = setup
        self._model: ModelReport | None = None
        self._tips: dict[QWidget, str] = {}
        self._labels: dict[QWidget, QLabel] = {}
        self._reason = ""
        self.slots = _spin("context/n_slots")
        self.draft = _spin("context/n_draft_max")
        self.checkpoint = QComboBox()
        self.temperature = QDoubleSpinBox()
        self.max_tokens = _spin("run/max_tokens")
        self._build()
        setup.changed.connect(self._show)
        self._show()

    def _build(self) -> None:
        self.draft.setSpecialValueText("off")
        for mode in CheckpointMode:
            self.checkpoint.addItem(mode.value, mode)
        self.checkpoint.setMinimumContentsLength(len("auto · rollback") - 2)
        row = BY_KEY["sampling/temperature"]
        self.temperature.setRange(row.low, row.high)
        self.temperature.setSingleStep(0.1)
        self.temperature.setDecimals(2)
        self.slots.valueChanged.connect(self._setup.set_slots)
        self.draft.valueChanged.connect(self._setup.set_draft_length)
        self.checkpoint.activated.connect(self._on_checkpoint_chosen)
        self.temperature.valueChanged.connect(self._setup.set_temperature)
        self.max_tokens.valueChanged.connect(self._setup.set_max_tokens)
        for number in (self.slots, self.draft, self.temperature, self.max_tokens):
            number.setKeyboardTracking(False)

    def add_to(self, toolbar: QToolBar) -> None:
        """Put labels and controls onto a toolbar."""
        for text, control, key in (
            ("Slots", self.slots, "context/n_slots"),
            ("Draft", self.draft, "context/n_draft_max"),
            ("Checkpoint", self.checkpoint, "context/checkpoint"),
            ("Temp", self.temperature, "sampling/temperature"),
            ("Max tokens", self.max_tokens, "run/max_tokens"),
        ):
            label = QLabel(text)
            label.setBuddy(control)
            control.setAccessibleName(BY_KEY[key].description.partition(":")[0].partition(";")[0])
            control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            self._labels[control] = label
            self._tips[control] = BY_KEY[key].description
            toolbar.addWidget(label)
            toolbar.addWidget(control)
        self._tell()

    def show_model(self, model: ModelReport | None) -> None:
        """Say what this model was granted."""
        self._model = model
        self._tell()

    def follow(self, now: Situation) -> None:
        """Disable all while a run goes on, and say so."""
        reason = why_not_setup(now)
        if reason != self._reason:
            self._reason = reason
            for control, label in self._labels.items():
                control.setEnabled(not reason)
                label.setEnabled(not reason)
            self._tell()

    def _show(self) -> None:
        values = self._setup.values
        controls = (self.slots, self.draft, self.checkpoint, self.temperature, self.max_tokens)
        blockers = [QSignalBlocker(control) for control in controls]
        self.slots.setValue(values.context.n_slots)
        self.draft.setValue(self._setup.draft_length)
        self.checkpoint.setCurrentIndex(self.checkpoint.findData(values.context.checkpoint))
        self.temperature.setValue(values.sampling.temperature)
        self.max_tokens.setValue(values.max_tokens)
        del blockers
        self._tell()

    def _on_checkpoint_chosen(self, index: int) -> None:
        self._setup.set_checkpoint(CheckpointMode(self.checkpoint.itemData(index)))

    def _tell(self) -> None:
        """Say in tooltips what is meant, what was granted and why a control is off; in the combo, the way granted."""
        granted = self._granted()
        for control, tip in self._tips.items():
            parts = (tip + ".", granted.get(control, ""), self._reason)
            control.setToolTip(plain_tip("\n".join(part for part in parts if part)))
        for mode in CheckpointMode:
            text = mode.value
            if self._model is not None and self._model.way_back.asked == mode:
                got = self._model.way_back.granted.replace("_", " ")
                text = mode.value if got == mode.value else f"{mode.value} · {got}"
            self.checkpoint.setItemText(self.checkpoint.findData(mode), text)

    def _granted(self) -> dict[QWidget, str]:
        model = self._model
        if model is None:
            return {}
        speculation = model.speculation
        drafts = f"Granted: {speculation.n_draft_max}." if speculation.is_active else f"Off: {speculation.reason}"
        return {
            self.slots: f"Granted: {model.n_slots} of {model.n_slots_asked} asked for.",
            self.draft: drafts,
            self.checkpoint: f"Granted: {model.way_back.granted.replace('_', ' ')}. {model.way_back.why}",
        }


def _spin(key: str) -> QSpinBox:
    row = BY_KEY[key]
    spin = QSpinBox()
    spin.setRange(int(row.low), int(row.high))
    return spin
