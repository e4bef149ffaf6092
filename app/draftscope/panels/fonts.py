"""The fonts of the panels: fixed width for text of a model, and the window's with digits of one width for figures."""

from __future__ import annotations

from PySide6.QtGui import QFont, QFontDatabase, QGuiApplication

_TABULAR = QFont.Tag("tnum")


def fixed_font(scale: float = 1.0) -> QFont:
    """The system's fixed-width font, at the size of the window's font times ``scale``."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setStyleHint(QFont.StyleHint.Monospace)
    _resize(font, scale)
    return font


def figure_font(scale: float = 1.0, *, is_bold: bool = False) -> QFont:
    """The window's font with tabular digits, so that a figure that changes does not move its neighbours."""
    font = QFont(QGuiApplication.font())
    font.setFeature(_TABULAR, 1)
    font.setBold(is_bold)
    _resize(font, scale)
    return font


def _resize(font: QFont, scale: float) -> None:
    window = QGuiApplication.font()
    if window.pointSizeF() > 0:
        font.setPointSizeF(window.pointSizeF() * scale)
    else:
        font.setPixelSize(max(round(window.pixelSize() * scale), 1))
