"""How tokens are chosen, as a form."""

from __future__ import annotations

from PySide6.QtWidgets import QCheckBox, QDoubleSpinBox, QFormLayout, QPlainTextEdit, QSizePolicy, QSpinBox, QWidget

from draftscope.engine.protocol import SamplingSettings
from draftscope.session.run_setup import SetupValues
from draftscope.session.settings import BY_KEY

_WHOLE = ("top_k", "repeat_last_n", "seed")
_LABELS = {
    "temperature": "Temperature",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "min_p": "Min-p",
    "repeat_penalty": "Repetition penalty",
    "repeat_last_n": "Repetition looks back",
    "presence_penalty": "Presence penalty",
    "seed": "Seed",
}


class SamplingForm(QWidget):
    """One control a field of ``SamplingSettings``, and the limits of a run."""

    def __init__(self, values: SetupValues) -> None:
        super().__init__()
        form = QFormLayout(self)
        self.fields: dict[str, QSpinBox | QDoubleSpinBox] = {}
        for name, label in _LABELS.items():
            control = _number(name)
            control.setAccessibleName(label)
            self.fields[name] = control
            form.addRow(label, control)
        self.max_tokens = QSpinBox()
        row = BY_KEY["run/max_tokens"]
        self.max_tokens.setRange(int(row.low), int(row.high))
        self.max_tokens.setAccessibleName("Max tokens")
        self.max_tokens.setToolTip(row.description)
        form.addRow("Max tokens", self.max_tokens)
        self.stop = QPlainTextEdit()
        self.stop.setPlaceholderText("One a line")
        self.stop.setAccessibleName("Stop strings")
        self.stop.setToolTip("A slot ends when its text contains one of these.")
        self.stop.setTabChangesFocus(True)
        self.stop.setMaximumHeight(70)
        # As wide as the numbers above it, so that the room is the prompt's.
        self.stop.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.stop.setMinimumWidth(130)
        form.addRow("Stop strings", self.stop)
        self.ignore_eos = QCheckBox("Ignore end of generation")
        self.ignore_eos.setToolTip(BY_KEY["run/ignore_eos"].description)
        form.addRow("", self.ignore_eos)
        self.show_values(values)

    def show_values(self, values: SetupValues) -> None:
        """Show the sampling and limits of a setup."""
        self.show_sampling(values.sampling, values.max_tokens)
        self.stop.setPlainText("\n".join(values.stop))
        self.ignore_eos.setChecked(values.ignore_eos)

    def show_sampling(self, sampling: SamplingSettings, max_tokens: int) -> None:
        """Show a sampling and a limit, and leave the rest."""
        for name, control in self.fields.items():
            control.setValue(getattr(sampling, name))
        self.max_tokens.setValue(max_tokens)

    @property
    def sampling(self) -> SamplingSettings:
        """What the form says."""
        return SamplingSettings(**{name: control.value() for name, control in self.fields.items()})  # type: ignore[arg-type]

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """The stop strings; empty lines are none."""
        return tuple(line for line in self.stop.toPlainText().split("\n") if line)


def _number(name: str) -> QSpinBox | QDoubleSpinBox:
    row = BY_KEY[f"sampling/{name}"]
    control: QSpinBox | QDoubleSpinBox
    if name in _WHOLE:
        control = QSpinBox()
        control.setRange(int(row.low), int(row.high))
    else:
        control = QDoubleSpinBox()
        control.setRange(row.low, row.high)
        control.setDecimals(3 if name in ("top_p", "min_p") else 2)
        control.setSingleStep(0.05)
    control.setToolTip(row.description)
    return control
