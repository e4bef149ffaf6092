"""Style sheets of the panels: their ground, slim scroll bars, and the small buttons inside them."""

from __future__ import annotations

from draftscope.base.theme import Theme, mix


def panel_style(name: str, theme: Theme, surface: str) -> str:
    """Style sheet of the panel with this object name, lying on the theme's ``surface``."""
    handle = mix(theme.panel, theme.text, 0.25)
    return (
        f"QWidget#{name} {{ background: {getattr(theme, surface)}; }}"
        " QScrollBar { background: transparent; border: none; margin: 0; }"
        " QScrollBar:vertical { width: 10px; } QScrollBar:horizontal { height: 10px; }"
        f" QScrollBar::handle {{ background: {handle}; border-radius: 3px; margin: 2px; }}"
        f" QScrollBar::handle:hover {{ background: {theme.dim}; }}"
        " QScrollBar::handle:vertical { min-height: 28px; } QScrollBar::handle:horizontal { min-width: 28px; }"
        " QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }"
        " QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }"
    )


def small_button_style(theme: Theme) -> str:
    """Style sheet of a push or tool button; one that is switched on shows it."""
    return (
        f"QAbstractButton {{ background: {theme.raised}; color: {theme.text}; border: 1px solid {theme.line};"
        f" border-radius: 4px; padding: 2px 9px; }}"
        f" QAbstractButton:hover {{ border-color: {theme.dim}; }}"
        f" QAbstractButton:focus {{ border-color: {theme.accent}; }}"
        f" QAbstractButton:checked {{ background: {theme.selection_wash}; border-color: {theme.accent}; }}"
        f" QAbstractButton:disabled {{ color: {theme.dim}; }}"
    )


def tab_bar_style(theme: Theme) -> str:
    """Style sheet of a tab bar inside a panel: words over a line, the chosen one in the colour of the accent."""
    return (
        "QTabBar { background: transparent; }"
        f" QTabBar::tab {{ background: transparent; color: {theme.dim}; border: none;"
        " border-bottom: 2px solid transparent; padding: 3px 8px; margin: 0 1px; }"
        f" QTabBar::tab:hover {{ color: {theme.text}; }}"
        f" QTabBar::tab:selected {{ color: {theme.text}; border-bottom-color: {theme.accent}; }}"
        f" QTabBar::tab:focus {{ color: {theme.text}; background: {theme.hover_wash}; }}"
    )
