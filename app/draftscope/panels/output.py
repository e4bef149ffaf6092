"""The Output panel: what each slot writes, one card a slot, every token drawn as it came to be."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QCheckBox, QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.engine.events import Kind
from draftscope.panels.card_header import Figure
from draftscope.panels.card_talk import CardTalk
from draftscope.panels.panel import Panel, why_no_run
from draftscope.panels.slot_card import SlotCard
from draftscope.panels.slot_words import slot_words
from draftscope.panels.token_flow import TokenFlow
from draftscope.panels.token_legend import TokenLegend
from draftscope.session.shown_run import ShownRun
from draftscope.trace.acceptance import SlotAcceptance

BEST_ASPECT = 1.4
"""Width of a card divided by its height that reads best; the grid comes as near as it can."""

MIN_CARD_WIDTH = 260

ACCEPTED_MEANS = "Accepted draft tokens divided by drafted tokens, in this slot and run."
PER_ROUND_MEANS = "Tokens per round: 1 + accepted / rounds, with the target's own token of each round."
SPEED_MEANS = "Generated tokens per second of this slot since its first token; the prompt is not counted."


class CardArea(QScrollArea):
    """Scrolls the cards, and keeps the box that is written in in sight when cards grow."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """A card grows with what is written in its box, and pushes the rows below out of sight."""
        done = super().eventFilter(watched, event)
        if watched is self.widget() and event.type() == QEvent.Type.Resize:
            QTimer.singleShot(0, self, self._keep_in_sight)  # when all layouts within have been done
        return done

    def _keep_in_sight(self) -> None:
        written = self.focusWidget()
        box = written.parentWidget() if written is not None and written.hasFocus() else None
        if box is not None:  # of what is written in itself, Qt shows the cursor only
            self.ensureWidgetVisible(box)


TOKENS_A_FRAME = 500
"""Tokens that are laid out at once, in about 8 ms: those of a large trace come over many frames."""


class OutputPanel(Panel):
    """Cards of the slots that there are, and of those that have records; the grid follows their number and the room."""

    id: ClassVar[str] = "output"
    title: ClassVar[str] = "Output"
    surface: ClassVar[str] = "window"

    slot_menu_asked = Signal(int, QPoint)
    """A menu of what can be done with a slot is to appear there, in global coordinates."""

    def __init__(self, session: ShownRun, theme: Theme) -> None:
        super().__init__(session, theme)
        self.cards: dict[int, SlotCard] = {}
        self._talks: dict[int, CardTalk] = {}
        self._n_tokens_seen = 0
        self._generation = session.trace.generation
        self._grid_host = QWidget()
        self._grid = QGridLayout(self._grid_host)
        self._scroll = CardArea()
        self._legend = TokenLegend(theme)
        self._rejected = QCheckBox("Show rejected")
        self._build()
        self._apply_theme()
        session.records_appended.connect(self.mark_news)
        session.run_started.connect(self._on_run_started)
        session.turn_started.connect(self.mark_stale)
        session.run_finished.connect(self.mark_stale)
        session.slots.changed.connect(self.mark_stale)
        session.chats.changed.connect(self.mark_stale)
        session.view.selected_round_changed.connect(self._on_round_selected)
        session.view.selected_slot_changed.connect(self._on_slot_selected)
        session.view.show_rejected_changed.connect(self._on_show_rejected)

    def _build(self) -> None:
        self._grid.setContentsMargins(8, 8, 8, 4)
        self._grid.setSpacing(8)
        self._scroll.setWidget(self._grid_host)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._rejected.setToolTip("Show the draft tokens that the target rejected")
        self._rejected.setChecked(self.session.view.show_rejected)
        self._rejected.toggled.connect(self.session.view.set_show_rejected)
        kept = self._legend.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self._legend.setSizePolicy(kept)
        foot = QHBoxLayout()
        foot.setContentsMargins(12, 0, 12, 4)
        foot.addWidget(self._legend)
        foot.addStretch(1)
        foot.addWidget(self._rejected)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._scroll, 1)
        layout.addLayout(foot)

    def _why_empty(self) -> tuple[str, str] | None:
        if self._wanted():
            return None
        return why_no_run(self.session, "the text of every slot, token by token")

    def _refresh_body(self) -> None:
        if self._generation != self.session.trace.generation:
            self._on_run_started()
        self._make_cards()
        for talk in self._talks.values():
            talk.refresh()
        self._take_tokens()
        words = slot_words(self.session.trace, is_running=self.session.is_running)
        tasks = {task.slot for task in self.session.tasks}
        rest = "waiting" if self.session.is_running else "did not run"
        for slot, card in self.cards.items():
            word = words.get(slot, rest if slot in tasks else "")
            card.header.show_figures(word, _figures(self.session.acceptance.slot(slot)))
            holds_more = slot in self.session.busy_slots or bool(self.session.saved_facts)
            card.strip.show_held(self.session.slots.held.get(slot), is_running=holds_more)
        total = self.session.acceptance.total()
        self._legend.show_positions(sum(1 for drafted in total.drafted_at if drafted > 0))
        self._rejected.setVisible(total.draft_n > 0)
        self._legend.setVisible(self.session.trace.n_records > 0)

    def _wanted(self) -> set[int]:
        """Slots that a card is shown of."""
        model = self.session.model
        slots = {task.slot for task in self.session.tasks} | set(self.session.trace.slots())
        slots |= {slot for slot, held in self.session.slots.held.items() if held.n_tokens}
        return slots | set(self.session.chats.slots) | set(range(model.n_slots if model is not None else 0))

    def _make_cards(self) -> None:
        wanted = self._wanted()
        if wanted == set(self.cards):
            return
        for slot in sorted(wanted - set(self.cards)):
            card = self.cards[slot] = SlotCard(slot, TokenFlow(self.session.pieces), self.theme, self.paint_clock)
            card.view.set_shows_rejected(self.session.view.show_rejected)
            card.view.set_selected_round(self.session.view.selected_round)
            card.view.round_clicked.connect(self.session.view.select_round)
            card.set_selected(slot == self.session.view.selected_slot)
            card.pressed.connect(partial(self.session.view.select_slot, slot))
            card.strip.menu_asked.connect(partial(self.slot_menu_asked.emit, slot))
            self._talks[slot] = CardTalk(card, self.session)
        for slot in set(self.cards) - wanted:
            self._discard(slot)
        self._arrange()

    def _take_tokens(self) -> None:
        tokens = self.session.trace.kind(Kind.TOKEN)
        new = tokens[self._n_tokens_seen : self._n_tokens_seen + TOKENS_A_FRAME]
        self._n_tokens_seen += len(new)
        if self._n_tokens_seen < len(tokens):
            self.mark_stale()
        model = self.session.model
        has_pieces = self.session.is_running and (model is None or model.has_tokenizer)
        for slot, card in self.cards.items():
            card.view.flow.append(new[new["slot"] == slot], has_pieces=has_pieces)
            card.view.sync()

    def _on_run_started(self) -> None:
        """Another trace is there: cards stay, with their boxes as they are, and their tokens begin anew."""
        for card in self.cards.values():
            card.view.set_flow(TokenFlow(self.session.pieces))
        for talk in self._talks.values():
            talk.forget()
        self._n_tokens_seen = 0
        self._generation = self.session.trace.generation
        self.mark_stale()

    def write(self) -> None:
        """Give the keyboard to the message box behind the one that has it, or to the first."""
        slots = sorted(self.cards)
        focused = [index for index, slot in enumerate(slots) if self.cards[slot].box.edit.hasFocus()]
        if slots:
            card = self.cards[slots[(focused[0] + 1) % len(slots) if focused else 0]]
            self._scroll.ensureWidgetVisible(card)
            card.box.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _discard(self, slot: int) -> None:
        card = self.cards.pop(slot)
        del self._talks[slot]
        self._grid.removeWidget(card)
        card.hide()
        card.deleteLater()

    def _arrange(self) -> None:
        area = self._scroll.viewport().size()
        columns = grid_columns(len(self.cards), area.width(), area.height())
        for rank, slot in enumerate(sorted(self.cards)):
            self._grid.addWidget(self.cards[slot], rank // columns, rank % columns)
        n_rows = -(-len(self.cards) // columns)
        for line in range(max(self._grid.columnCount(), columns)):
            self._grid.setColumnStretch(line, 1 if line < columns else 0)
        for line in range(max(self._grid.rowCount(), n_rows)):
            self._grid.setRowStretch(line, 1 if line < n_rows else 0)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Arrange the cards for the new room."""
        super().resizeEvent(event)
        if self.cards:
            self._arrange()
            self.mark_stale()

    def _on_round_selected(self) -> None:
        for card in self.cards.values():
            card.view.set_selected_round(self.session.view.selected_round)

    def _on_slot_selected(self) -> None:
        for slot, card in self.cards.items():
            card.set_selected(slot == self.session.view.selected_slot)

    def _on_show_rejected(self) -> None:
        shows = self.session.view.show_rejected
        self._rejected.setChecked(shows)
        for card in self.cards.values():
            card.view.set_shows_rejected(shows)

    def _apply_theme(self) -> None:
        self._grid_host.setStyleSheet("background: transparent;")
        self._scroll.setStyleSheet("QScrollArea { background: transparent; }")
        self._legend.set_theme(self.theme)
        for card in self.cards.values():
            card.set_theme(self.theme)


def grid_columns(n_cards: int, width: int, height: int) -> int:
    """Columns that bring ``n_cards`` nearest to the best shape of a card within this room; 1 at least."""

    def badness(columns: int) -> float:
        rows = -(-n_cards // columns)
        aspect = (width / columns) / max(height / rows, 1)
        n_unused = columns * rows - n_cards
        return abs(math.log(max(aspect, 1e-6) / BEST_ASPECT)) + 0.3 * n_unused

    possible = [n for n in range(1, max(n_cards, 1) + 1) if n == 1 or width / n >= MIN_CARD_WIDTH]
    return min(possible, key=badness)


def _figures(acceptance: SlotAcceptance) -> tuple[Figure, ...]:
    figures = []
    if acceptance.draft_n > 0:
        figures.append(Figure(f"{units.figure(acceptance.rate * 100)} %", "accepted", "", ACCEPTED_MEANS))
        figures.append(Figure(units.figure(acceptance.mean_accepted_length), "per round", "a round", PER_ROUND_MEANS))
    if not math.isnan(acceptance.tokens_per_second):
        figures.append(Figure(units.figure(acceptance.tokens_per_second), "tok/s", "tok/s", SPEED_MEANS))
    return tuple(figures)
