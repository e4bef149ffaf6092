"""Chips that name the way back of each context."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from draftscope.base.theme import Theme, readable
from draftscope.panels.checkpoint_words import Badge
from draftscope.panels.fonts import figure_font
from draftscope.panels.tips import plain_tip


class MechanismBadges(QWidget):
    """A row of chips; a chip that is not what was asked for has the colour of a warning."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._badges: tuple[Badge, ...] = ()
        self._labels: list[QLabel] = []
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(6)
        self._row.addStretch(1)

    def show_badges(self, badges: Sequence[Badge]) -> None:
        """Show these; does nothing when they are shown already."""
        if tuple(badges) == self._badges:
            return
        self._badges = tuple(badges)
        while len(self._labels) < len(badges):
            label = QLabel()
            label.setFont(figure_font(0.95))
            label.setTextFormat(Qt.TextFormat.RichText)
            label.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
            self._row.insertWidget(len(self._labels), label)
            self._labels.append(label)
        for index, label in enumerate(self._labels):
            label.setVisible(index < len(badges))
        self._fill()

    @property
    def words(self) -> str:
        """All chips as one line."""
        return "; ".join(" ".join(filter(None, badge[:3])) for badge in self._badges)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        self._fill()

    def _fill(self) -> None:
        theme = self._theme
        for label, badge in zip(self._labels, self._badges, strict=False):
            edge = theme.warn if badge.is_warning else theme.line
            how = readable(theme.warn, theme.raised, theme.text) if badge.is_warning else theme.dim
            tail = f" <span style='color:{how}'>· {escape(badge.how)}</span>" if badge.how else ""
            label.setText(f"<span style='color:{theme.dim}'>{badge.context}</span> <b>{escape(badge.way)}</b>{tail}")
            label.setToolTip(plain_tip(badge.means))
            label.setAccessibleName(" ".join(filter(None, badge[:3])))
            label.setAccessibleDescription(badge.means)
            label.setStyleSheet(
                f"QLabel {{ background: {theme.raised}; color: {theme.text}; border: 1px solid {edge};"
                " border-radius: 7px; padding: 1px 8px; }"
            )
