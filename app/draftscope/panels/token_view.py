"""The text of one slot, painted token by token: scrolls, wraps, follows the end, and knows what the pointer is on."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolTip

from draftscope.base.theme import Theme
from draftscope.panels.paint_clock import PaintClock
from draftscope.panels.script import Block, Mark
from draftscope.panels.token_flow import TokenFlow
from draftscope.panels.token_paint import TokenPainter
from draftscope.panels.token_tip import token_tip
from draftscope.panels.transcript import Transcript

MARGIN = 12
"""Pixels between the text and the edges."""

MOST_AT_ONCE = 8_000
"""Tokens up to which every step of a resize wraps anew: 48,000 take half a second, so more wait for its end."""

WRAP_DELAY_MS = 120

ACCESSIBLE_TAIL = 400
"""Characters at the end of the text that a screen reader is told."""


class TokenView(QAbstractScrollArea):
    """Paints only lines in view, and lays out only new tokens; the whole only when its width or the filter changes.

    ``text_to_copy``: what copying takes; the tokens that were kept, unless somebody knows better.
    """

    round_clicked = Signal(int)
    """A token of this round was clicked, or reached by keyboard."""
    action_clicked = Signal(object)
    """Carries the ``Mark`` of an action that was clicked."""

    def __init__(self, flow: TokenFlow, theme: Theme, clock: PaintClock) -> None:
        super().__init__()
        self._clock = clock
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.shows_rejected = True
        self.is_following = True
        self.text_to_copy: Callable[[], str] = flow.kept_text
        self.transcript = Transcript(flow, 80)
        self._painter = TokenPainter(theme)
        self._is_setting_range = False
        self._wrapping = QTimer(self)
        self._wrapping.setSingleShot(True)
        self._wrapping.setInterval(WRAP_DELAY_MS)
        self._wrapping.timeout.connect(self._lay_out_all)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self._lay_out_all()

    # ---- what it shows

    def sizeHint(self) -> QSize:  # noqa: N802
        """A few lines: it takes the room that there is, and asks for none that would push other cards out of sight."""
        return QSize(240, 60)

    @property
    def flow(self) -> TokenFlow:
        """The tokens of the slot."""
        return self.transcript.flow

    def set_flow(self, flow: TokenFlow) -> None:
        """Show another flow from its start."""
        self.transcript = Transcript(flow, self._n_columns())
        self.is_following = True
        self._painter.hovered_token = None
        self._lay_out_all()

    def set_blocks(self, blocks: tuple[Block, ...]) -> None:
        """Show another script; does nothing when it is the same."""
        first = self.transcript.set_blocks(blocks)
        if first is not None:
            self._painter.hovered_token = None
            self._set_range()
            self.viewport().update()

    def sync(self) -> None:
        """Lay out the tokens that came since the last call, and repaint what they changed."""
        n_lines = self.n_lines
        first = self.transcript.extend()
        self._update_lines(first, self.n_lines)
        if self.n_lines != n_lines:
            self._set_range()

    def set_shows_rejected(self, shows: bool) -> None:
        """Show or hide rejected draft tokens."""
        if shows != self.shows_rejected:
            self.shows_rejected = shows
            self._lay_out_all()

    def set_selected_round(self, selected: int | None) -> None:
        """Mark the tokens of a round, and bring them into view unless some are."""
        if selected == self._painter.selected_round:
            return
        self._painter.selected_round = selected
        self.viewport().update()
        lines = self._lines_of_round(selected) if selected is not None else None
        if lines is not None:
            self._reveal(lines)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""
        self._painter.set_theme(theme)
        self.viewport().update()

    # ---- layout

    @property
    def n_lines(self) -> int:
        """Lines of text at the present width."""
        return len(self.transcript.lines)

    def _lay_out_all(self) -> None:
        anchor = self._anchor()
        self.transcript.lay_out(self._n_columns(), shows_rejected=self.shows_rejected)
        self._set_range()
        if not self.is_following and anchor is not None:
            self._reveal_at_top(anchor)
        self.viewport().update()

    def _n_columns(self) -> int:
        return max(int((self.viewport().width() - 2 * MARGIN) / self._painter.metrics.cell), 8)

    def _anchor(self) -> int | None:
        """The token that a new layout keeps in view: of the selected round the first, else the first in view."""
        selected = self._painter.selected_round
        if selected is not None and selected in self.flow.rounds:
            return self.flow.rounds.index(selected)
        top = max(self.verticalScrollBar().value() - MARGIN, 0) // self._painter.metrics.line
        return self.transcript.first_token_from(top)

    def _reveal_at_top(self, token: int) -> None:
        line = self.transcript.layout.line_of(token)
        if line is not None:
            self.verticalScrollBar().setValue(max(line - 1, 0) * self._painter.metrics.line)

    def _set_range(self) -> None:
        bar = self.verticalScrollBar()
        height = self.n_lines * self._painter.metrics.line + 2 * MARGIN
        self._is_setting_range = True
        bar.setPageStep(self.viewport().height())
        bar.setSingleStep(self._painter.metrics.line)
        bar.setRange(0, max(height - self.viewport().height(), 0))
        if self.is_following:
            bar.setValue(bar.maximum())
        self._is_setting_range = False

    def _on_scrolled(self, value: int) -> None:
        if not self._is_setting_range:
            self.is_following = value >= self.verticalScrollBar().maximum()

    def _lines_of_round(self, selected: int) -> tuple[int, int] | None:
        tokens = [i for i, number in enumerate(self.flow.rounds) if number == selected]
        lines = [line for i in tokens if (line := self.transcript.layout.line_of(i)) is not None]
        return (min(lines), max(lines)) if lines else None

    def _reveal(self, lines: tuple[int, int]) -> None:
        top, bottom = (line * self._painter.metrics.line for line in (lines[0], lines[1] + 1))
        bar = self.verticalScrollBar()
        if bottom <= bar.value() or top >= bar.value() + self.viewport().height() - MARGIN:
            bar.setValue(top - self.viewport().height() // 3)

    # ---- painting

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Paint the lines that meet the area to repaint."""
        with self._clock:
            self._paint(event)

    def _paint(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), self._painter.background)
        height = self._painter.metrics.line
        top = MARGIN - self.verticalScrollBar().value()
        first = max((event.rect().top() - top) // height, 0)
        last = min((event.rect().bottom() - top) // height, self.n_lines - 1)
        width = self.viewport().width()
        for index in range(first, last + 1):
            if self.transcript.is_message(index):
                self._painter.draw_message(painter, QRect(0, top + index * height, width, height))
            self._painter.draw_line(painter, self.transcript, index, MARGIN, top + index * height)

    def scrollContentsBy(self, dx: int, dy: int) -> None:  # noqa: N802
        """Move what is painted already; only the strip that appears is painted again."""
        self.viewport().scroll(dx, dy)

    def _update_lines(self, first: int, end: int) -> None:
        height = self._painter.metrics.line
        top = MARGIN - self.verticalScrollBar().value() + first * height
        self.viewport().update(QRect(0, top, self.viewport().width(), (end - first) * height))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Wrap again when the number of columns changed."""
        super().resizeEvent(event)
        if self._n_columns() != self.transcript.layout.n_columns:
            if len(self.flow) > MOST_AT_ONCE:
                self._wrapping.start()
            else:
                self._lay_out_all()
        else:
            self._set_range()

    # ---- pointer

    def token_at(self, point: QPoint) -> int | None:
        """The token under a point of the viewport, else None; texts of the script are no tokens."""
        number = self._number_at(point)
        return None if number is None or number < 0 else number

    def action_at(self, point: QPoint) -> Mark | None:
        """The action under a point of the viewport, else None."""
        number = self._number_at(point)
        mark = self.transcript.mark(number) if number is not None and number < 0 else None
        return mark if mark is not None and mark.action else None

    def _number_at(self, point: QPoint) -> int | None:
        line = (point.y() - MARGIN + self.verticalScrollBar().value()) // self._painter.metrics.line
        return self.transcript.layout.token_at(line, (point.x() - MARGIN) / self._painter.metrics.cell)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Outline the token, or underline the action, under the pointer."""
        point = event.position().toPoint()
        self._hover(self._number_at(point) if self.action_at(point) is not None else self.token_at(point))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Select the round of the token that is clicked, or do what an action says."""
        point = event.position().toPoint()
        token, action = self.token_at(point), self.action_at(point)
        if event.button() == Qt.MouseButton.LeftButton:
            if token is not None:
                self.round_clicked.emit(self.flow.rounds[token])
            elif action is not None:
                self.action_clicked.emit(action)
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Nothing more happens when the button is let go."""
        event.accept()

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        """Show what is known of the token under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            token = self.token_at(event.pos())
            if token is None:
                QToolTip.hideText()
            else:
                QToolTip.showText(event.globalPos(), token_tip(self.flow.facts(token)), self.viewport())
            return True
        if event.type() == QEvent.Type.Leave:
            self._hover(None)
        return super().viewportEvent(event)

    def _hover(self, token: int | None) -> None:
        before = self._painter.hovered_token
        if token != before:
            self._painter.hovered_token = token
            shape = Qt.CursorShape.ArrowCursor if token is None else Qt.CursorShape.PointingHandCursor
            self.viewport().setCursor(shape)
            for line in (self.transcript.layout.line_of(index) for index in (before, token) if index is not None):
                if line is not None:
                    self._update_lines(line, line + 3)

    # ---- keyboard

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Left and right go to the round before and after; Home and End to the ends; copy copies the slot's text."""
        match event.key():
            case Qt.Key.Key_Left:
                self._select_next_round(-1)
            case Qt.Key.Key_Right:
                self._select_next_round(1)
            case Qt.Key.Key_Home:
                self.verticalScrollBar().setValue(0)
            case Qt.Key.Key_End:
                self.follow()
            case Qt.Key.Key_C if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                self.copy_text()
            case _:
                super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Tell a screen reader how the text ends."""
        self.setAccessibleDescription(self.text_to_copy()[-ACCESSIBLE_TAIL:])
        self.viewport().update()
        super().focusInEvent(event)

    def follow(self) -> None:
        """Go to the end and stay there while tokens come."""
        self.is_following = True
        self._set_range()

    def copy_text(self) -> None:
        """Put the slot's text on the clipboard, without what was rejected."""
        QGuiApplication.clipboard().setText(self.text_to_copy())

    def _select_next_round(self, step: int) -> None:
        rounds = sorted({number for number in self.flow.rounds if number >= 0})
        if not rounds:
            return
        selected = self._painter.selected_round
        if selected not in rounds:
            target = rounds[-1 if step < 0 else 0]
        else:
            target = rounds[min(max(rounds.index(selected) + step, 0), len(rounds) - 1)]
        self.round_clicked.emit(target)
        lines = self._lines_of_round(target)
        if lines is not None:
            self._reveal(lines)
