"""The conversations of the slots: what can be said and done in them, and how they follow the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from draftscope.engine.dialogue import Dialogue, DialogueError, Turn
from draftscope.engine.dialogue_file import load_dialogue, save_dialogue
from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.events import Kind, Origin, Records, SlotState
from draftscope.engine.protocol import (
    ContextSettings,
    Failed,
    Finished,
    Prompt,
    SamplingSettings,
    SlotResult,
    SlotTask,
)
from draftscope.session.chat_host import ChatHost
from draftscope.session.run_setup import SetupValues
from draftscope.session.slot_chat import SlotChat
from draftscope.session.state import SessionState

DEFAULTS = SetupValues(ContextSettings(), SamplingSettings(), 256, (), False, ())
"""How answers are generated where nobody gave a setup."""

SAVED = "A saved trace cannot be written to."
"""Why nothing can be said while a trace from a file is shown."""

NO_TEXT = "The loaded model has no tokenizer, so it cannot be written to."


class Chats(QObject):
    """One conversation a slot. A run begins them anew from its prompts; a turn goes on with one.

    What cannot be done is told through ``session.failed`` and changes nothing; ``why_not`` says so before.

    Attributes:
        values: gives the setup that answers are generated with, when they are asked for.
    """

    changed = Signal(int)
    """The conversation of this slot, or what it is doing, has changed."""

    def __init__(self, session: ChatHost, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.values: Callable[[], SetupValues] = lambda: DEFAULTS
        self._session = session
        self._chats: dict[int, SlotChat] = {}
        self._before: dict[int, SlotChat] | None = None

    # ---- what there is

    def chat(self, slot: int) -> SlotChat:
        """The conversation of a slot; an empty one where nobody has said anything."""
        if slot not in self._chats:
            self._chats[slot] = SlotChat(Dialogue(is_plain=self._has_no_template()))
        return self._chats[slot]

    @property
    def slots(self) -> tuple[int, ...]:
        """Slots in which something was said."""
        return tuple(sorted(slot for slot, chat in self._chats.items() if chat.dialogue.turns))

    def why_not(self, slot: int) -> str:
        """Why nothing can be said in this slot now, or ''."""
        session = self._session
        match session.state:
            case SessionState.SAVED:
                return SAVED
            case SessionState.NO_MODEL:
                return "No model is loaded: open a GGUF file, or run the demo."
            case SessionState.LOADING:
                return "The model is loading."
            case SessionState.ENGINE_DIED:
                return "The engine has ended: start it again."
            case SessionState.STOPPING:
                return "The run is being stopped."
            case _ if slot in session.busy_slots:
                return self._why_busy(slot)
            case _:
                return self._why_not_written_to(slot)

    def is_answering(self, slot: int) -> bool:
        """Whether this slot writes; in a run it may be done while others go on."""
        return self.chat(slot).first_token is not None and not self._is_done(slot)

    def _why_busy(self, slot: int) -> str:
        if slot in self._session.stopping_slots:
            return "The answer is being stopped."
        if self._is_done(slot):
            return "The run goes on in other slots."
        return "The answer is being generated."

    def _is_done(self, slot: int) -> bool:
        states = self._session.trace.kind(Kind.SLOT)
        codes = states["code"][states["slot"] == slot]
        return len(codes) > 0 and int(codes[-1]) == SlotState.DONE and self._n_tokens(slot) > self._first_token(slot)

    def _first_token(self, slot: int) -> int:
        first = self.chat(slot).first_token
        return 0 if first is None else first

    def _why_not_written_to(self, slot: int) -> str:
        model, n_wanted = self._session.model, self.values().context.n_slots
        if model is None or not model.has_tokenizer:
            return NO_TEXT
        is_there = slot < n_wanted and (slot < model.n_slots or n_wanted != model.n_slots_asked)
        return "" if is_there else f"Slot {slot} is not there any more: set up more slots."

    # ---- what can be done

    def say(self, slot: int, text: str) -> bool:
        """Say something and generate the answer; whether it was said."""
        return self._act(slot, lambda dialogue: dialogue.say(text), asks=True)

    def regenerate(self, slot: int) -> bool:
        """Generate another answer to the last message."""
        return self._act(slot, Dialogue.regenerate, asks=True)

    def edit(self, slot: int, index: int, text: str) -> bool:
        """Write a message of the user anew and generate the answer to it; what followed is kept as a version."""
        return self._act(slot, lambda dialogue: dialogue.edit(index, text), asks=True)

    def go_on(self, slot: int) -> bool:
        """Let the model go on from what the slot holds, as it is: an answer that was cut gets longer."""
        if reason := self.why_not(slot):
            self._fail(DialogueError(reason))
            return False
        values = self.values()
        # In other contexts the slot would hold nothing.
        context = self._session.context or values.context
        self._session.run_turn(context, values.task(slot, Prompt(is_continuation=True)))
        return True

    def hold(self, slot: int, text: str) -> None:
        """The slot was given another text by hand: the conversation is that text, and can bring back what it was."""
        chat = self.chat(slot)
        anew = SlotChat(chat.dialogue.started_anew(Prompt(text=text)), revision=chat.revision)
        anew.dialogue.is_plain |= self._has_no_template()
        self._chats[slot] = anew
        self._tell(slot)

    def bring_back(self, slot: int) -> bool:
        """Show an earlier version of the conversation."""
        return self._act(slot, Dialogue.bring_back)

    def delete_last(self, slot: int) -> bool:
        """Drop the last message and its answer."""
        return self._act(slot, Dialogue.delete_last)

    def clear(self, slot: int) -> bool:
        """Begin a new conversation, in the model's chat template if it has one; the system prompt stays."""

        def begin(dialogue: Dialogue) -> None:
            dialogue.clear()
            dialogue.is_plain = self._has_no_template()

        return self._act(slot, begin)

    def edit_system(self, slot: int, text: str) -> bool:
        """Give another system prompt to the answers to come."""
        return self._act(slot, lambda dialogue: dialogue.edit_system(text))

    def load(self, slot: int, path: Path) -> bool:
        """Go on with a saved conversation."""

        def read(dialogue: Dialogue) -> None:
            load_dialogue(dialogue, path)
            dialogue.is_plain |= self._has_no_template()

        return self._act(slot, read)

    def save(self, slot: int, path: Path) -> bool:
        """Write the conversation as a file of messages."""
        try:
            save_dialogue(self.chat(slot).dialogue, path)
        except DialogueError as error:
            self._fail(error)
            return False
        return True

    def stop(self, slot: int) -> None:
        """Stop the answer; what is there of it stays."""
        self._session.stop_slot(slot)
        self.changed.emit(slot)

    def _act(self, slot: int, do: Callable[[Dialogue], None], *, asks: bool = False) -> bool:
        chat = self.chat(slot)
        try:
            if asks and (reason := self.why_not(slot)):
                raise DialogueError(reason)
            if slot in self._session.busy_slots:
                raise DialogueError(self._why_busy(slot), "Wait for it, or stop it.")
            do(chat.dialogue)
            if asks:
                prompt = chat.dialogue.prompt()
        except DialogueError as error:
            self._fail(error)
            return False
        chat.error = ""
        self._tell(slot)
        if asks:
            self._session.run_turn(self.values().context, self._task(slot, prompt, chat.dialogue.n_answers))
        return True

    def _task(self, slot: int, prompt: Prompt, n_answers: int) -> SlotTask:
        """Every further answer to the same takes the next seed, or it would be the same again."""
        task = self.values().task(slot, prompt)
        return replace(task, sampling=replace(task.sampling, seed=task.sampling.seed + n_answers))

    def _fail(self, error: DialogueError) -> None:
        self._session.failed.emit(ErrorReport(ErrorCode.BAD_PROMPT, error.message, error.hint))

    def _has_no_template(self) -> bool:
        model = self._session.model
        return model is not None and not model.has_chat_template

    def _tell(self, slot: int) -> None:
        self.chat(slot).revision += 1
        self.changed.emit(slot)

    # ---- what the session tells

    def show_saved(self, chats: Mapping[int, SlotChat]) -> None:
        """Show conversations that a file holds."""
        for slot, chat in chats.items():
            chat.revision = self.chat(slot).revision
            self._chats[slot] = chat
        self._tell_all()

    def begin_run(self, tasks: tuple[SlotTask, ...]) -> None:
        """A new run begins: its slots' conversations start from its prompts, and no earlier answer is in the trace."""
        self._before = dict(self._chats)
        started = {task.slot: self._started(task) for task in tasks}
        self._begin_trace(started)
        for task in tasks:
            self._begin_answer(task, 0)
        self._tell_all()

    def _started(self, task: SlotTask) -> Dialogue:
        dialogue = self.chat(task.slot).dialogue
        return dialogue if task.prompt.is_continuation else dialogue.started_anew(task.prompt)

    def _begin_answer(self, task: SlotTask, first_token: int) -> None:
        chat = self.chat(task.slot)
        chat.first_token, chat.goes_on = first_token, task.prompt.is_continuation

    def begin_turn(self, tasks: tuple[SlotTask, ...], *, is_new_run: bool = False) -> None:
        """A turn begins, in the run that is here or in a new one."""
        self._before = None
        if is_new_run:
            self._before = dict(self._chats)
            self._begin_trace({})
        for task in tasks:
            self._begin_answer(task, self._n_tokens(task.slot))
        self._tell_all()

    def _begin_trace(self, started: dict[int, Dialogue]) -> None:
        self._chats = {
            slot: SlotChat(started.get(slot, chat.dialogue), revision=chat.revision)
            for slot, chat in self._chats.items()
        }

    def end_tasks(self, tasks: tuple[SlotTask, ...], answer: Finished | Failed | None) -> None:
        """The tasks of a Submit have ended; None: with their engine."""
        if isinstance(answer, Finished):
            self._before = None
            for result in answer.results:
                self._take(result)
        for task in tasks:
            chat = self.chat(task.slot)
            if not isinstance(answer, Finished):
                self._take_cut_off(task.slot, chat)
                chat.error = _words(answer)
            chat.first_token = None
            self._tell(task.slot)

    def _take(self, result: SlotResult) -> None:
        chat = self.chat(result.slot)
        if chat.goes_on:
            chat.dialogue.lengthen_answer(result)
        else:
            self._place(result.slot, chat, chat.dialogue.take_answer(result))
        chat.error = result.error

    def _take_cut_off(self, slot: int, chat: SlotChat) -> None:
        """Keep what the trace has of an answer that no result came of."""
        if chat.first_token is not None:
            tokens = self._tokens(slot)[chat.first_token :]
            kept = tokens["token"][tokens["code"] != Origin.REJECTED]
            self._place(slot, chat, chat.dialogue.take_cut_off(self._session.pieces.text(kept.tolist())))

    def _place(self, slot: int, chat: SlotChat, turn: Turn | None) -> None:
        """Note where the tokens of an answer stand."""
        if turn is not None and chat.first_token is not None:
            chat.places[turn.number] = (chat.first_token, self._n_tokens(slot))

    def put_back(self) -> None:
        """The run never began: what was said before it is there again."""
        if self._before is None:
            return
        refused, self._chats, self._before = self._chats, self._before, None
        for slot, chat in refused.items():
            there = self.chat(slot)
            there.revision = max(there.revision, chat.revision)
            if there.dialogue is chat.dialogue:  # a turn was refused: its message is still there, and so is the reason
                there.error = chat.error
        self._tell_all()

    def forget_run(self) -> None:
        """Another model is there: conversations begin anew, and can be brought back."""
        self._before = None
        self._begin_trace({})
        for chat in self._chats.values():
            chat.dialogue.clear()
            chat.dialogue.is_plain = self._has_no_template()
        self._tell_all()

    def _tell_all(self) -> None:
        for slot in tuple(self._chats):
            self._tell(slot)

    def _n_tokens(self, slot: int) -> int:
        return int((self._session.trace.kind(Kind.TOKEN)["slot"] == slot).sum())

    def _tokens(self, slot: int) -> Records:
        """The TOKEN records of a slot in the run."""
        tokens = self._session.trace.kind(Kind.TOKEN)
        of_slot: Records = tokens[tokens["slot"] == slot]
        return of_slot


def _words(failed: Failed | None) -> str:
    """Why there is no answer, or no whole one."""
    if failed is None:
        return "The engine ended within this answer."
    return f"{failed.error.message} {failed.error.hint}".strip()
