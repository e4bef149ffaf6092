"""Prompts of the slots and the sampling of the run."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from draftscope.engine.errors import EngineError
from draftscope.engine.protocol import ModelReport, Prompt
from draftscope.session.run_setup import RunSetup
from draftscope.session.samples import Sample, sample_prompts
from draftscope.window.format_editor import FormatEditor
from draftscope.window.prompt_editor import PromptEditor
from draftscope.window.sampling_form import SamplingForm


class PromptsDialog(QDialog):
    """One tab a slot at the left, sampling at the right, the output's form below.

    OK keeps prompts and sampling for this run and the next start, and the form until the window closes.
    """

    def __init__(self, setup: RunSetup, model: ModelReport | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._setup = setup
        self.setWindowTitle("Prompts and sampling")
        self.resize(860, 600)
        self.is_same = QCheckBox("Same prompt in all slots")
        self.samples = QComboBox()
        self.tabs = QTabWidget()
        self.editors: list[PromptEditor] = []
        self.sampling = SamplingForm(setup.values)
        self.format = FormatEditor(setup.values.grammar, setup.values.json_schema)
        self._note = QLabel()
        self._make_editors(_why_no_chat(model))
        self._fill_samples()
        self._build()
        self.is_same.setChecked(len(self.editors) > 1 and len({editor.prompt for editor in self.editors}) == 1)

    def _make_editors(self, why_no_chat: str) -> None:
        prompts = self._setup.values.prompts or (Prompt(),)
        for slot in range(self._setup.values.context.n_slots):
            editor = PromptEditor(slot, prompts[slot % len(prompts)], why_no_chat)
            self.editors.append(editor)
            self.tabs.addTab(editor, f"Slot {slot}")

    def _fill_samples(self) -> None:
        self.samples.setAccessibleName("Sample prompts")
        self.samples.addItem("Choose a sample…", None)
        try:
            for sample in sample_prompts():
                self.samples.addItem(sample.title, sample)
        except EngineError as error:
            self.samples.setEnabled(False)
            self.samples.setToolTip(error.message)
        else:
            self.samples.setToolTip("Puts a sample prompt into the slot, with the sampling that suits it")

    def _build(self) -> None:
        self.is_same.toggled.connect(self._on_same_toggled)
        self.samples.activated.connect(self._on_sample_chosen)
        self._note.setProperty("isDim", True)
        self._note.setWordWrap(True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self._ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        self._ok.setProperty("isPrimary", True)
        self.format.changed.connect(self._on_format_changed)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        head = QHBoxLayout()
        head.addWidget(self.is_same)
        head.addStretch(1)
        head.addWidget(self.samples)
        left = QVBoxLayout()
        left.addLayout(head)
        left.addWidget(self.tabs, 1)
        left.addWidget(self._note)
        left.addWidget(self.format)
        right = QGroupBox("Sampling, for all slots")
        right_layout = QVBoxLayout(right)
        right_layout.addWidget(self.sampling)
        right_layout.addStretch(1)
        body = QHBoxLayout()
        right.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        body.addLayout(left, 1)
        body.addWidget(right)
        layout = QVBoxLayout(self)
        layout.addLayout(body, 1)
        layout.addWidget(buttons)
        self._tell()
        self._on_format_changed()

    def accept(self) -> None:
        """Keep prompts and sampling."""
        chosen = self.editors[:1] if self.is_same.isChecked() else self.editors
        self._setup.change(
            replace(
                self._setup.values,
                prompts=tuple(editor.prompt for editor in chosen),
                sampling=self.sampling.sampling,
                max_tokens=self.sampling.max_tokens.value(),
                stop=self.sampling.stop_strings,
                ignore_eos=self.sampling.ignore_eos.isChecked(),
                grammar=self.format.grammar,
                json_schema=self.format.json_schema,
            )
        )
        super().accept()

    def _on_format_changed(self) -> None:
        problem = self.format.problem
        self._ok.setEnabled(not problem)
        self._ok.setToolTip(problem)

    def _on_same_toggled(self) -> None:
        self.tabs.setCurrentIndex(0)
        for slot in range(1, self.tabs.count()):
            self.tabs.setTabEnabled(slot, not self.is_same.isChecked())
        self._tell()

    def _on_sample_chosen(self, index: int) -> None:
        sample = self.samples.itemData(index)
        if isinstance(sample, Sample):
            self.editors[self.tabs.currentIndex()].show_prompt(sample.prompt)
            self.sampling.show_sampling(sample.sampling, sample.max_tokens)
        self.samples.setCurrentIndex(0)

    def _tell(self) -> None:
        if self.is_same.isChecked():
            self._note.setText("With the same prompt and seed every slot writes the same text.")
        else:
            self._note.setText("A slot whose prompt is empty stays idle.")


def _why_no_chat(model: ModelReport | None) -> str:
    if model is None or model.has_chat_template:
        return ""
    return "The loaded model brings no chat template; a chat will be refused."
