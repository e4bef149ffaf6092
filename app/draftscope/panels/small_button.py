"""The look of the small buttons inside panels; one that is switched on shows it."""

from __future__ import annotations

from draftscope.base.theme import Theme


def small_button_style(theme: Theme) -> str:
    """Style sheet of a push or tool button."""
    return (
        f"QAbstractButton {{ background: {theme.raised}; color: {theme.text}; border: 1px solid {theme.line};"
        f" border-radius: 4px; padding: 2px 9px; }}"
        f" QAbstractButton:hover {{ border-color: {theme.dim}; }}"
        f" QAbstractButton:focus {{ border-color: {theme.accent}; }}"
        f" QAbstractButton:checked {{ background: {theme.selection_wash}; border-color: {theme.accent}; }}"
        f" QAbstractButton:disabled {{ color: {theme.faint}; }}"
    )
