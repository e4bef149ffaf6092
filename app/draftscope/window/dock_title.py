"""The title of a dock: the panel's name, its headline figure, and the buttons to float and close it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDockWidget, QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.tips import plain_tip
from draftscope.window.icons import tinted_icon


class DockTitle(QWidget):
    """Takes the place of Qt's own title bar; the bare parts of it move the dock."""

    def __init__(self, dock: QDockWidget, theme: Theme) -> None:
        super().__init__(dock)
        self.setObjectName("dock_title")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        name = dock.windowTitle()
        self._name = QLabel(name)
        font = self._name.font()
        font.setBold(True)
        self._name.setFont(font)
        self._headline = QLabel()
        self._headline.setObjectName("headline")
        self._headline.setTextFormat(Qt.TextFormat.PlainText)
        # The figure gives way when the dock is narrow, the name does not.
        self._headline.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._float = self._button(f"Float the {name} panel")
        self._float.clicked.connect(lambda: dock.setFloating(not dock.isFloating()))
        self._close = self._button(f"Close the {name} panel; the View menu shows it again")
        self._close.clicked.connect(dock.close)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 3, 4, 3)
        layout.setSpacing(6)
        layout.addWidget(self._name)
        layout.addWidget(self._headline, 1)
        layout.addWidget(self._float)
        layout.addWidget(self._close)
        self.set_theme(theme)

    def show_headline(self, text: str) -> None:
        """Show the panel's figure; '' for none."""
        self._headline.setText(text)
        self._headline.setToolTip(plain_tip(text))

    @property
    def headline(self) -> str:
        """The figure shown."""
        return self._headline.text()

    def set_theme(self, theme: Theme) -> None:
        """Draw the buttons in a theme's colours."""
        self._float.setIcon(tinted_icon("float", theme, theme.dim))
        self._close.setIcon(tinted_icon("close", theme, theme.dim))

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setIconSize(QSize(14, 14))
        button.setToolTip(tip)
        button.setAccessibleName(tip.partition(";")[0])
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button
