"""Joins a card to the conversation of its slot: shows what is said there, and passes on what is done in the card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QFileDialog

from draftscope.panels.message_box import BoxState
from draftscope.panels.script import EDIT, EDIT_SYSTEM, Mark, script_of, without_actions
from draftscope.panels.slot_card import SlotCard
from draftscope.session.samples import chat_examples
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState

NO_TEMPLATE = "No chat template: your text goes in as it is."
BRIEF_WIDTH = 340
"""Pixels of a card below which figures that its header has are not said again under each answer."""

FILES = "Conversations (*.json)"


class CardTalk(QObject):
    """Follows one slot; ``refresh`` brings its card up to date."""

    def __init__(self, card: SlotCard, session: ShownRun) -> None:
        super().__init__(card)
        self._card = card
        self._session = session
        self._chats = session.chats
        self._slot = card.slot
        self._shown: object = None
        self._actions: list[tuple[QAction, Callable[[], str]]] = []
        self._connect()
        self._fill_menu()
        card.view.text_to_copy = self._text_to_copy

    def _connect(self) -> None:
        card, chats, slot = self._card, self._chats, self._slot
        box = card.box
        box.said.connect(self._say)
        box.edited.connect(lambda turn, text: chats.edit(slot, turn, text))
        box.system_edited.connect(lambda text: chats.edit_system(slot, text))
        box.stop_asked.connect(lambda: chats.stop(slot))
        box.earlier_asked.connect(self._edit_earlier)
        box.menu.aboutToShow.connect(self._follow_actions)
        card.empty.chosen.connect(self._say)
        card.view.action_clicked.connect(self._on_action)

    def _fill_menu(self) -> None:
        chats, slot = self._chats, self._slot
        self._add("Regenerate the answer", lambda: chats.regenerate(slot), self._why_not_regenerate, "Ctrl+R")
        self._add("Edit the last message", lambda: self._edit_earlier(-1), self._why_not_edit)
        self._add("Delete the last message", lambda: chats.delete_last(slot), self._why_no_turns)
        self._add("Bring back the version before", lambda: chats.bring_back(slot), self._why_no_versions)
        self._card.box.menu.addSeparator()
        self._add("System prompt…", self._edit_system, self._why_busy)
        self._add("New conversation", lambda: chats.clear(slot), self._why_no_turns)
        self._card.box.menu.addSeparator()
        self._add("Load a conversation…", self._load, self._why_busy)
        self._add("Save the conversation…", self._save, lambda: "" if self._has_turns() else "Nothing has been said.")
        self._card.box.menu.setToolTipsVisible(True)

    def _add(self, text: str, do: Callable[[], object], why_not: Callable[[], str], shortcut: str = "") -> None:
        action = QAction(text, self._card)
        action.triggered.connect(lambda: why_not() or do())
        if shortcut:
            action.setShortcut(QKeySequence(shortcut))
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            self._card.addAction(action)
        self._card.box.menu.addAction(action)
        self._actions.append((action, why_not))

    def _follow_actions(self) -> None:
        for action, why_not in self._actions:
            reason = why_not()
            action.setEnabled(not reason)
            action.setToolTip(reason or action.text())

    # ---- what is shown

    def forget(self) -> None:
        """The card's view has begun anew."""
        self._shown = None

    def refresh(self) -> None:
        """Bring the card up to date; cheap where nothing was said."""
        chat, why_not = self._chats.chat(self._slot), self._chats.why_not(self._slot)
        is_answering = not self._is_saved and self._chats.is_answering(self._slot)
        is_plain = chat.dialogue.is_plain
        is_brief = self._card.width() < BRIEF_WIDTH
        state = (chat.revision, self._session.trace.generation, is_brief)
        if state != self._shown:
            self._shown = state
            blocks = script_of(chat, is_brief=is_brief)
            self._card.view.set_blocks(without_actions(blocks) if self._is_saved else blocks)
            self._follow_actions()
        has_turns = bool(chat.dialogue.turns)
        has_text = has_turns or bool(chat.dialogue.system) or chat.first_token is not None
        self._card.show_conversation(has_text)
        self._card.box.show_state(
            BoxState(
                why_not,
                is_answering,
                self._slot in self._session.stopping_slots,
                is_plain,
                may_be_empty=is_plain and has_turns,
                invitation=("Go on, as plain text" if has_turns else "Text to begin with") if is_plain else "Message",
                note=self._note(is_plain),
            )
        )
        if not has_text:
            self._explain(why_not, is_plain)

    def _note(self, is_plain: bool) -> str:
        model = self._session.model
        return NO_TEMPLATE if is_plain and model is not None and not model.has_chat_template else ""

    def _explain(self, why_not: str, is_plain: bool) -> None:
        if self._is_saved:
            self._card.empty.explain("Nothing of this slot is in the trace.", (), why_not)
            return
        model = self._session.model
        words = "Write a text for the model to go on with" if is_plain else "Write a message to this slot"
        examples = () if is_plain or model is None else chat_examples(model.path)
        tail = ", or begin with one of these:" if examples else ". Run starts the prompts of all slots instead."
        self._card.empty.explain(words + tail, examples, why_not)

    def _text_to_copy(self) -> str:
        """The answer that is being generated, else the last one."""
        chat = self._chats.chat(self._slot)
        if chat.first_token is not None:
            return self._card.view.flow.kept_text(chat.first_token)
        turns = chat.dialogue.turns
        return next((turn.text for turn in reversed(turns) if turn.role == "assistant"), "")

    # ---- what is done

    def _say(self, text: str) -> None:
        self._card.view.follow()
        if not self._chats.say(self._slot, text):
            self._card.box.edit.setPlainText(text)

    def _on_action(self, mark: Mark) -> None:
        if mark.action == EDIT:
            self._begin_edit(mark.turn)
        elif mark.action == EDIT_SYSTEM:
            self._edit_system()
        else:
            self._chats.regenerate(self._slot)

    def _begin_edit(self, turn: int) -> None:
        dialogue = self._chats.chat(self._slot).dialogue
        users = dialogue.user_turns
        place = f"message {users.index(turn) + 1} of {len(users)}"
        self._card.box.begin_edit(turn, place, dialogue.turns[turn].text)

    def _edit_earlier(self, turn: int) -> None:
        """Edit the user's message before this turn; the last one where ``turn`` is none."""
        users = self._chats.chat(self._slot).dialogue.user_turns
        earlier = [index for index in users if turn < 0 or index < turn]
        if earlier:
            self._begin_edit(earlier[-1])

    def _edit_system(self) -> None:
        self._card.box.begin_system(self._chats.chat(self._slot).dialogue.system)

    def _load(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self._card.window(), "Load a conversation", "", FILES)
        if name:
            self._chats.load(self._slot, Path(name))

    def _save(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self._card.window(), "Save the conversation", "conversation.json", FILES)
        if name:
            self._chats.save(self._slot, Path(name))

    # ---- why something cannot be done

    def _has_turns(self) -> bool:
        return bool(self._chats.chat(self._slot).dialogue.turns)

    @property
    def _is_saved(self) -> bool:
        return self._session.state is SessionState.SAVED

    def _why_busy(self) -> str:
        is_closed = self._is_saved or self._slot in self._session.busy_slots
        return self._chats.why_not(self._slot) if is_closed else ""

    def _why_no_turns(self) -> str:
        return self._why_busy() or ("" if self._has_turns() else "Nothing has been said.")

    def _why_not_regenerate(self) -> str:
        return self._chats.why_not(self._slot) or self._why_no_turns()

    def _why_not_edit(self) -> str:
        has_users = bool(self._chats.chat(self._slot).dialogue.user_turns)
        return self._why_busy() or ("" if has_users else "There is no message of yours.")

    def _why_no_versions(self) -> str:
        n_versions = self._chats.chat(self._slot).dialogue.n_versions
        return self._why_busy() or ("" if n_versions else "There is no earlier version.")
