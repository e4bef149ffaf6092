"""The few rules that a palette cannot say: bars, dock titles, the one filled button, banners."""

from __future__ import annotations

from draftscope.base.paths import resource
from draftscope.base.theme import Theme, mix, readable


def style_sheet(theme: Theme) -> str:
    """The application's style sheet in a theme's colours."""
    hover = mix(theme.raised, theme.text, 0.10)
    pressed = mix(theme.raised, theme.text, 0.18)
    faded = mix(theme.panel, theme.text, 0.45)
    check = resource("icons", f"check_{theme.name}.svg").as_posix()
    return f"""
QMainWindow::separator {{ background: {theme.window}; width: 6px; height: 6px; }}
QMainWindow::separator:hover {{ background: {theme.accent}; }}
QMenuBar {{ background: {theme.raised}; border-bottom: 1px solid {theme.line}; padding: 1px 4px; }}
QMenuBar::item {{ background: transparent; padding: 4px 9px; border-radius: 4px; }}
QMenuBar::item:selected {{ background: {hover}; }}
QToolBar {{ background: {theme.raised}; border: none; border-bottom: 1px solid {theme.line}; padding: 4px 4px;
    spacing: 1px; }}
QToolBar::separator {{ background: {theme.line}; width: 1px; margin: 5px 3px; }}
QToolBar QToolButton {{ background: transparent; border: 1px solid transparent; border-radius: 5px;
    padding: 4px 5px; color: {theme.text}; }}
QToolBar QToolButton:hover {{ background: {hover}; }}
QToolBar QToolButton:pressed {{ background: {pressed}; }}
QToolBar QToolButton:focus {{ border-color: {theme.accent}; }}
QToolBar QToolButton:disabled {{ color: {faded}; }}
QToolBar QLabel {{ background: transparent; color: {theme.dim}; padding: 0 2px 0 5px; }}
QToolBar QLabel:disabled {{ color: {faded}; }}
QToolButton[isPrimary="true"], QPushButton[isPrimary="true"] {{ background: {theme.accent}; color: {theme.on_accent};
    border: 1px solid {theme.accent}; border-radius: 5px; padding: 4px 12px; font-weight: 600; }}
QToolButton[isPrimary="true"]:hover, QPushButton[isPrimary="true"]:hover {{
    background: {mix(theme.accent, theme.text, 0.15)}; }}
QToolButton[isPrimary="true"]:focus, QPushButton[isPrimary="true"]:focus {{ border-color: {theme.text}; }}
QToolButton[isPrimary="true"]:disabled, QPushButton[isPrimary="true"]:disabled {{ background: {theme.raised};
    color: {faded}; border-color: {theme.line}; }}
QWidget#dock_title {{ background: {theme.raised}; border-bottom: 1px solid {theme.line}; }}
QWidget#dock_title QLabel {{ background: transparent; }}
QWidget#dock_title QLabel#headline {{ color: {theme.dim}; }}
QWidget#dock_title QToolButton {{ background: transparent; border: 1px solid transparent; border-radius: 4px;
    padding: 1px; }}
QWidget#dock_title QToolButton:hover {{ background: {hover}; }}
QWidget#dock_title QToolButton:focus {{ border-color: {theme.accent}; }}
QDockWidget > QWidget {{ background: {theme.panel}; }}
QStatusBar {{ background: {theme.raised}; border-top: 1px solid {theme.line}; }}
QStatusBar::item {{ border: none; }}
QStatusBar QLabel {{ background: transparent; color: {theme.dim}; padding: 1px 6px; }}
QToolTip {{ background: {theme.raised}; color: {theme.text}; border: 1px solid {theme.line}; padding: 4px 6px; }}
QFrame#notice {{ background: {theme.raised}; border: 1px solid {theme.line}; border-radius: 6px;
    margin-top: 6px; }}
QFrame#notice[tone="bad"] {{ border-color: {theme.bad}; }}
QFrame#notice[tone="warn"] {{ border-color: {theme.warn}; }}
QFrame#notice QLabel {{ background: transparent; }}
QFrame#notice QLabel#detail {{ color: {theme.dim}; }}
QFrame#trace_bar {{ background: {mix(theme.raised, theme.accent, 0.14)}; border: none;
    border-bottom: 1px solid {theme.accent}; }}
QFrame#trace_bar QLabel {{ background: transparent; }}
QFrame#trace_bar QLabel#message {{ font-weight: 600; }}
QFrame#trace_bar QLabel#missing {{ color: {readable(theme.warn, theme.raised, theme.text)}; }}
QProgressBar {{ background: {theme.window}; border: 1px solid {theme.line}; border-radius: 4px; height: 8px; }}
QProgressBar::chunk {{ background: {theme.accent}; border-radius: 3px; }}
QWidget#first_run QLabel#sentence {{ color: {theme.dim}; }}
QWidget#first_run QLabel#title {{ font-size: 22px; font-weight: 600; }}
QTableView::item {{ padding: 2px 8px; }}
QHeaderView {{ background: {theme.raised}; }}
QHeaderView::section {{ background: {theme.raised}; color: {theme.dim}; border: none;
    border-bottom: 1px solid {theme.line}; padding: 4px 8px; }}
QCheckBox::indicator {{ width: 13px; height: 13px; border: 1px solid {theme.dim}; border-radius: 3px;
    background: {theme.panel}; }}
QCheckBox::indicator:checked {{ background: {theme.accent}; border-color: {theme.accent}; image: url({check}); }}
QCheckBox::indicator:focus {{ border: 1px solid {theme.accent}; }}
QCheckBox::indicator:disabled {{ border-color: {theme.line}; background: {theme.raised}; }}
QRadioButton::indicator {{ width: 13px; height: 13px; border: 1px solid {theme.dim}; border-radius: 7px;
    background: {theme.panel}; }}
QRadioButton::indicator:checked {{ border: 4px solid {theme.accent}; width: 7px; height: 7px;
    background: {theme.on_accent}; }}
QRadioButton::indicator:focus {{ border-color: {theme.accent}; }}
QRadioButton::indicator:disabled {{ border-color: {theme.line}; background: {theme.raised}; }}
QRadioButton:disabled {{ color: {faded}; }}
QLabel[isDim="true"] {{ color: {theme.dim}; }}
QLabel[tone="bad"] {{ color: {theme.bad}; }}
QLabel[tone="warn"] {{ color: {theme.warn}; }}
QLabel[tone="ok"] {{ color: {theme.ok}; }}
"""
