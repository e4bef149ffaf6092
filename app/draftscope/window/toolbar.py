"""The toolbar, which gives up the texts of its buttons before it hides a control."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QToolBar, QWidget

WITH_TEXT = Qt.ToolButtonStyle.ToolButtonTextBesideIcon
ICONS_ONLY = Qt.ToolButtonStyle.ToolButtonIconOnly


class Toolbar(QToolBar):
    """Buttons with icon and text where there is room for all, else with icons alone; tooltips name them."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__("Toolbar", parent)
        self._full_width = 0
        self.setObjectName("toolbar")
        self.setMovable(False)
        self.setFloatable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.setIconSize(QSize(16, 16))
        self.setToolButtonStyle(WITH_TEXT)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Show texts or leave them out, by the width."""
        super().resizeEvent(event)
        if self.toolButtonStyle() == WITH_TEXT:
            self._full_width = self.sizeHint().width()
        self.setToolButtonStyle(WITH_TEXT if self.width() >= self._full_width else ICONS_ONLY)
