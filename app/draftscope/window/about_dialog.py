"""What this program is, and what it is made of."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from PySide6.QtCore import Qt, qVersion
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from draftscope import __version__
from draftscope.engine.protocol import ModelReport

PARTS = (
    ("PySide6-Essentials", "LGPL-3.0"),
    ("pyqtgraph", "MIT"),
    ("llama-cpp-python", "MIT"),
    ("numpy", "BSD-3-Clause"),
)
"""Packages that the program runs on, with their licences."""


class AboutDialog(QDialog):
    """Version, licence and parts; the text can be selected for a report."""

    def __init__(self, model: ModelReport | None, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("About Draftscope")
        self.text = QLabel(about_text(model))
        self.text.setTextFormat(Qt.TextFormat.PlainText)
        self.text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.text.setAccessibleName("About Draftscope")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 14)
        layout.addWidget(self.text)
        layout.addWidget(buttons)


def about_text(model: ModelReport | None) -> str:
    """The lines of the dialog."""
    lines = [
        f"Draftscope {__version__}",
        "Inspects speculative decoding with multi-token prediction (MTP) in llama.cpp.",
        "MIT licence.",
        "",
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, Qt {qVersion()}",
        *(f"{name} {_version(name)} ({licence})" for name, licence in PARTS),
    ]
    if model is not None:
        lines += ["", f"Engine: {model.engine}"]
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
