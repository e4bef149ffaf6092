"""Our own SVG icons in the colours of the theme."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from draftscope.base.paths import resource
from draftscope.base.theme import Theme, mix

SIZES = (16, 20, 24, 32, 40, 48)
"""Edges in device pixels that an icon is drawn at: 16 to 24 at one, one and a half and two pixels a point."""

PROGRAM_SIZES = (16, 24, 32, 48, 64, 128)
"""Edges in pixels that window managers ask the program's icon for: title bars, task lists, switchers."""


def tinted_icon(name: str, theme: Theme, colour: str | None = None) -> QIcon:
    """An icon of ``resources/icons`` in the theme's text colour (or another), faded where it is disabled.

    Raises:
        FileNotFoundError: there is no such icon.
    """
    drawing = QByteArray(resource("icons", f"{name}.svg").read_bytes())
    icon = QIcon()
    modes = {
        QIcon.Mode.Normal: colour or theme.text,
        QIcon.Mode.Disabled: mix(theme.panel, theme.text, 0.45),
    }
    renderer = QSvgRenderer(drawing)
    for mode, tint in modes.items():
        for size in SIZES:
            icon.addPixmap(_draw(renderer, size, QColor(tint)), mode)
    return icon


def program_icon() -> QIcon:
    """The program's own icon, in its own colours.

    Raises:
        FileNotFoundError: the program was installed without it.
    """
    renderer = QSvgRenderer(QByteArray(resource("icons", "draftscope.svg").read_bytes()))
    icon = QIcon()
    for size in PROGRAM_SIZES:
        icon.addPixmap(_draw(renderer, size))
    return icon


def _draw(renderer: QSvgRenderer, size: int, tint: QColor | None = None) -> QPixmap:
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    renderer.render(painter, QRectF(0, 0, size, size))
    if tint is not None:
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
        painter.fillRect(pixmap.rect(), tint)
    painter.end()
    return pixmap
