"""Palettes, icons and style in both themes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QIcon, QPalette
from PySide6.QtWidgets import QApplication

from draftscope.base.theme import DARK, LIGHT, MIN_TEXT_CONTRAST, Theme, contrast_ratio
from draftscope.window import appearance as module
from draftscope.window.actions import ACTIONS
from draftscope.window.appearance import Appearance, make_palette
from draftscope.window.icons import SIZES, program_icon, tinted_icon


@pytest.fixture
def appearance(qapp: QApplication) -> Iterator[Appearance]:
    appearance = Appearance(qapp, "light")
    yield appearance
    appearance.deleteLater()


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_text_can_be_read_on_every_surface_of_the_palette(theme: Theme) -> None:
    palette = make_palette(theme)
    role = QPalette.ColorRole
    for text, surface in (
        (role.WindowText, role.Window),
        (role.Text, role.Base),
        (role.Text, role.AlternateBase),
        (role.ButtonText, role.Button),
        (role.ToolTipText, role.ToolTipBase),
        (role.HighlightedText, role.Highlight),
        (role.PlaceholderText, role.Base),
        (role.Link, role.Base),
    ):
        ratio = contrast_ratio(palette.color(text).name(), palette.color(surface).name())
        assert ratio >= MIN_TEXT_CONTRAST, (text, surface, ratio)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_every_icon_is_drawn_in_the_colour_of_the_theme(qapp: QApplication, theme: Theme) -> None:
    for name in {row.icon for row in ACTIONS if row.icon} | {"float", "close"}:
        icon = tinted_icon(name, theme)
        assert not icon.isNull()
        image = icon.pixmap(SIZES[-1]).toImage()
        opaque = [
            image.pixelColor(x, y)
            for x in range(image.width())
            for y in range(image.height())
            if image.pixelColor(x, y).alpha() == 255
        ]
        assert opaque, name
        assert {colour.name() for colour in opaque} == {theme.text}, name
        faded = icon.pixmap(SIZES[-1], QIcon.Mode.Disabled).toImage()
        assert faded != image, name


def test_the_program_has_an_icon(qapp: QApplication) -> None:
    assert not program_icon().pixmap(64).isNull()


def test_a_missing_icon_is_an_error(qapp: QApplication) -> None:
    with pytest.raises(FileNotFoundError):
        tinted_icon("no-such-icon", DARK)


def test_the_choice_is_followed_and_an_unknown_one_refused(appearance: Appearance) -> None:
    told: list[Theme] = []
    appearance.theme_changed.connect(told.append)
    appearance.choose("dark")
    appearance.choose("dark")
    appearance.choose("light")
    assert told == [DARK, LIGHT]
    with pytest.raises(ValueError, match="mauve"):
        appearance.choose("mauve")


@pytest.mark.parametrize(
    ("scheme", "looks_dark", "theme"),
    [
        (Qt.ColorScheme.Dark, False, DARK),
        (Qt.ColorScheme.Light, True, LIGHT),
        (Qt.ColorScheme.Unknown, True, DARK),
        (Qt.ColorScheme.Unknown, False, LIGHT),
    ],
)
def test_the_system_is_followed_with_its_colours_as_the_last_resort(
    appearance: Appearance, monkeypatch: pytest.MonkeyPatch, scheme: Qt.ColorScheme, looks_dark: bool, theme: Theme
) -> None:
    class Hints:
        """As far as ``Appearance`` asks."""

        def colorScheme(self) -> Qt.ColorScheme:  # noqa: N802
            """What the system wants."""
            return scheme

        def unsetColorScheme(self) -> None:  # noqa: N802
            """Follow the system."""

    class App:
        """An application whose system is scripted."""

        def styleHints(self) -> Hints:  # noqa: N802
            """See ``Hints``."""
            return Hints()

    monkeypatch.setattr(appearance, "_apply", lambda: None)
    monkeypatch.setattr(appearance, "_app", App())
    monkeypatch.setattr(appearance, "_looked_dark", looks_dark)
    appearance.choose("system")
    assert appearance.theme is theme
    assert module.CHOICES == ("system", "dark", "light")


def test_highlight_is_the_accent() -> None:
    assert make_palette(DARK).color(QPalette.ColorRole.Highlight) == QColor(DARK.accent)
