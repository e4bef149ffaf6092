"""A page of a panel: its content, or why there is none."""

from __future__ import annotations

from PySide6.QtWidgets import QStackedLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.empty_state import EmptyState


class Page(QWidget):
    """Shows its content, or an empty state in its place."""

    def __init__(self, theme: Theme, content: QWidget) -> None:
        super().__init__()
        self.empty = EmptyState(theme)
        self.content = content
        self._stack = QStackedLayout(self)
        self._stack.addWidget(content)
        self._stack.addWidget(self.empty)

    def show_content(self, reason: tuple[str, str] | None) -> bool:
        """Show the content, or title and sentence of the reason why there is none; True for the content."""
        if reason is not None:
            self.empty.explain(*reason)
        self._stack.setCurrentWidget(self.empty if reason is not None else self.content)
        return reason is None

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self.empty.set_theme(theme)
