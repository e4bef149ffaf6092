"""Dark and light: follows the system where it says what it wants, and paints the whole application itself."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from draftscope.base.theme import DARK, LIGHT, Theme, mix
from draftscope.window.style_sheet import style_sheet

CHOICES = ("system", "dark", "light")


class Appearance(QObject):
    """Applies a theme to the application.

    ``setColorScheme`` reaches what Qt does not draw (title bars) but does nothing on some platforms, so palette and
    style are always our own, on Fusion.
    """

    theme_changed = Signal(object)
    """Carries the ``Theme``."""

    def __init__(self, app: QApplication, choice: str = "system", parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._app = app
        # Taken before our own palette hides it: the only sign of the system's taste where it names no scheme.
        self._looked_dark = app.palette().color(QPalette.ColorRole.Window).lightness() < 128
        self._choice = choice if choice in CHOICES else "system"
        app.setStyle("Fusion")
        app.styleHints().colorSchemeChanged.connect(self._on_system_changed)
        self.theme = self._wanted()
        self._apply()

    @property
    def choice(self) -> str:
        """What the user chose: ``system``, ``dark`` or ``light``."""
        return self._choice

    def choose(self, choice: str) -> None:
        """Follow the system, or stay dark or light.

        Raises:
            ValueError: none of ``CHOICES``.
        """
        if choice not in CHOICES:
            raise ValueError(f"{choice!r} is none of {', '.join(CHOICES)}.")
        self._choice = choice
        hints = self._app.styleHints()
        if choice == "system":
            hints.unsetColorScheme()
        else:
            hints.setColorScheme(Qt.ColorScheme.Dark if choice == "dark" else Qt.ColorScheme.Light)
        self._update()

    def _wanted(self) -> Theme:
        if self._choice != "system":
            return DARK if self._choice == "dark" else LIGHT
        match self._app.styleHints().colorScheme():
            case Qt.ColorScheme.Dark:
                return DARK
            case Qt.ColorScheme.Light:
                return LIGHT
            case _:
                return DARK if self._looked_dark else LIGHT

    def _on_system_changed(self) -> None:
        self._update()

    def _update(self) -> None:
        theme = self._wanted()
        if theme is not self.theme:
            self.theme = theme
            self._apply()
            self.theme_changed.emit(theme)

    def _apply(self) -> None:
        self._app.setPalette(make_palette(self.theme))
        self._app.setStyleSheet(style_sheet(self.theme))


def make_palette(theme: Theme) -> QPalette:
    """Every role of a palette in a theme's colours."""
    role = QPalette.ColorRole
    palette = QPalette()
    active = {
        role.Window: theme.window,
        role.WindowText: theme.text,
        role.Base: theme.panel,
        role.AlternateBase: theme.raised,
        role.Text: theme.text,
        role.PlaceholderText: theme.dim,
        role.Button: theme.raised,
        role.ButtonText: theme.text,
        role.BrightText: theme.bad,
        role.ToolTipBase: theme.raised,
        role.ToolTipText: theme.text,
        role.Highlight: theme.accent,
        role.HighlightedText: theme.on_accent,
        role.Accent: theme.accent,
        role.Link: theme.accent,
        role.LinkVisited: theme.accent,
        role.Light: mix(theme.raised, theme.text, 0.12),
        role.Midlight: mix(theme.raised, theme.text, 0.06),
        role.Mid: theme.line,
        role.Dark: theme.line,
        role.Shadow: theme.window,
    }
    for name, colour in active.items():
        palette.setColor(name, QColor(colour))
    faded = QColor(mix(theme.panel, theme.text, 0.45))
    for name in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, faded)
    palette.setColor(QPalette.ColorGroup.Disabled, role.Highlight, QColor(theme.line))
    return palette
