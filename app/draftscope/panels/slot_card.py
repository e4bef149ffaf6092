"""The card of one slot: its header over its conversation over the box to write in."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QMenu, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.panels.card_header import CardHeader
from draftscope.panels.empty_chat import EmptyChat
from draftscope.panels.message_box import MessageBox
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.panel_style import small_button_style
from draftscope.panels.slot_strip import SlotStrip
from draftscope.panels.token_flow import TokenFlow
from draftscope.panels.token_view import TokenView

RADIUS = 6


class SlotCard(QWidget):
    """Header, strip, token view and message box on one surface; a button leads back to the end of what was left."""

    pressed = Signal()
    """Somebody clicked on it, wherever."""

    def __init__(self, slot: int, flow: TokenFlow, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self.slot = slot
        self._theme = theme
        self._is_selected = False
        self.header = CardHeader(slot, theme, self)
        self.view = TokenView(flow, theme, clock)
        self.view.setAccessibleName(f"Text of slot {slot}")
        self.view.setWhatsThis("Left and right arrow keys select the round before and after; Ctrl+C copies the text.")
        self.empty = EmptyChat(slot, theme)
        self.box = MessageBox(slot, theme)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.view)
        self.pages.addWidget(self.empty)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2, 4, 2, 2)
        layout.setSpacing(0)
        self.strip = SlotStrip(slot, theme)
        layout.addWidget(self.header)
        layout.addWidget(self.strip)
        layout.addWidget(self.pages, 1)
        layout.addWidget(self.box)
        self.setMinimumSize(240, 190)
        self.view.viewport().installEventFilter(self)
        self._latest = QPushButton("Go to the latest", self)
        self._latest.setCursor(Qt.CursorShape.PointingHandCursor)
        self._latest.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._latest.setToolTip("Follow the text as it comes (End)")
        self._latest.clicked.connect(self.view.follow)
        self.view.verticalScrollBar().valueChanged.connect(self._show_button)
        self.view.verticalScrollBar().rangeChanged.connect(self._show_button)
        self.box.edit.focus_changed.connect(self.update)
        self._show_button()
        self.set_theme(theme)

    def show_conversation(self, shows: bool) -> None:
        """Show the conversation, or what can be done where there is none."""
        self.pages.setCurrentWidget(self.view if shows else self.empty)
        self._show_button()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._theme = theme
        for part in (self.header, self.strip, self.view, self.empty, self.box):
            part.set_theme(theme)
        self._latest.setStyleSheet(small_button_style(theme))
        self.update()

    def set_selected(self, is_selected: bool) -> None:
        """Show whether the selection is about this slot."""
        if is_selected != self._is_selected:
            self._is_selected = is_selected
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell of a click on the head."""
        self.pressed.emit()
        super().mousePressEvent(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Tell of a click on the text, which does with it what it does."""
        if event.type() == QEvent.Type.MouseButtonPress:
            self.pressed.emit()
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The surface and its border: accent while text or box have the keyboard, stronger when selected."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rest = self._theme.dim if self._is_selected else self._theme.line
        border = self._theme.accent if self.view.hasFocus() or self.box.edit.hasFocus() else rest
        painter.setPen(QPen(QColor(border), 1))
        painter.setBrush(QColor(self._theme.panel))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the button in its corner."""
        super().resizeEvent(event)
        self._place_button()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """Offer to copy the text, and what can be done with the conversation."""
        menu = QMenu(self)
        copy = menu.addAction(f"Copy the text of slot {self.slot}")
        copy.setEnabled(bool(self.view.text_to_copy()))
        copy.triggered.connect(self.view.copy_text)
        menu.addSeparator()
        menu.addActions(self.box.menu.actions())
        menu.exec(event.globalPos())
        menu.deleteLater()

    def _show_button(self, *_: int) -> None:
        bar = self.view.verticalScrollBar()
        is_above = bar.value() < bar.maximum() and not self.view.is_following
        self._latest.setVisible(is_above and self.pages.currentWidget() is self.view)
        self._place_button()

    def _place_button(self) -> None:
        size = self._latest.sizeHint()
        bar = self.view.verticalScrollBar()
        right = self.width() - 12 - (bar.width() if bar.isVisible() else 0)
        bottom = self.pages.geometry().bottom() - 6
        self._latest.setGeometry(right - size.width(), bottom - size.height(), size.width(), size.height())
        self._latest.raise_()
