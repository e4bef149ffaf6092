"""A conversation that can be edited: what was said, by whom, and what of it goes into the next prompt.

No engine and no Qt: a ``Dialogue`` gives a ``Prompt`` and takes a ``SlotResult``. Window and command line share it.
Nothing that was said is lost by an edit: the conversation as it was before is kept, and ``bring_back`` shows it again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from draftscope.engine.protocol import ChatMessage, Prompt, SlotResult

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"

MAX_VERSIONS = 20
"""Earlier versions of a conversation that are kept; the oldest go first."""


class DialogueError(ValueError):
    """What was asked of a conversation cannot be done; the sentence says why, ``hint`` what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Source(StrEnum):
    """How a turn came to be."""

    TYPED = "typed"
    EDITED = "edited"
    GENERATED = "generated"
    LOADED = "loaded"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message.

    ``number``: no two turns of a dialogue share it, in whatever version. ``result``: of an answer that was generated
    here, with the engine's counts.
    """

    number: int
    role: str
    text: str
    source: Source
    result: SlotResult | None = None


@dataclass(frozen=True, slots=True)
class _Version:
    system: str
    turns: tuple[Turn, ...]
    is_plain: bool


class Dialogue:
    """System prompt and turns, oldest first.

    ``is_plain``: there is no chat template to put the turns in, so the model goes on from their texts, one directly
    after the other. Every operation either is done as a whole or raises ``DialogueError`` and changes nothing.
    """

    def __init__(self, *, is_plain: bool = False) -> None:
        self.is_plain = is_plain
        self._system = ""
        self._turns: tuple[Turn, ...] = ()
        self._versions: deque[_Version] = deque(maxlen=MAX_VERSIONS)
        self._n_numbered = 0
        self._n_answers: Counter[int] = Counter()

    # ---- what there is

    @property
    def system(self) -> str:
        """The system prompt; '' for none."""
        return self._system

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of the version in use."""
        return self._turns

    @property
    def n_versions(self) -> int:
        """Earlier versions that ``bring_back`` goes through."""
        return len(self._versions)

    @property
    def is_answered(self) -> bool:
        """Whether the last word was the model's."""
        return bool(self._turns) and self._turns[-1].role == ASSISTANT

    @property
    def user_turns(self) -> tuple[int, ...]:
        """Indices of the turns that a person can edit."""
        return tuple(index for index, turn in enumerate(self._turns) if turn.role == USER)

    @property
    def n_answers(self) -> int:
        """Answers that were generated to what was said last, also those dropped since: each takes the next seed."""
        return self._n_answers[self._turns[-1].number] if self._turns else 0

    def messages(self) -> tuple[ChatMessage, ...]:
        """All turns as chat templates and other programs know them, the system prompt first."""
        system = (ChatMessage(SYSTEM, self._system),) if self._system else ()
        return (*system, *(ChatMessage(turn.role, turn.text) for turn in self._turns))

    def prompt(self) -> Prompt:
        """What the next answer starts from.

        Raises:
            DialogueError: nothing was said, or the last word was the model's.
        """
        if not self._turns:
            raise DialogueError("Nothing has been said yet.", "Write a message first.")
        if self.is_plain:
            return Prompt(text=self._system + "".join(turn.text for turn in self._turns))
        if self.is_answered:
            raise DialogueError("The last message is answered already.", "Write another one, or regenerate the answer.")
        return Prompt(messages=self.messages())

    # ---- what can be done

    def say(self, text: str) -> None:
        """Append a user's message. In a plain dialogue '' lets the model go on from where it is."""
        _check(text)
        if not text.strip():
            if not (self.is_plain and self._turns):
                raise DialogueError("The message is empty.", "Write something first.")
            if not text:
                return
        self._turns += (self._turn(USER, text, Source.TYPED),)

    def take_answer(self, result: SlotResult) -> Turn | None:
        """Append what a slot generated; None when it generated nothing that is text."""
        if self._turns:
            self._n_answers[self._turns[-1].number] += 1
        if not result.text:
            return None
        turn = self._turn(ASSISTANT, result.text, Source.GENERATED, result)
        self._turns += (turn,)
        return turn

    def lengthen_answer(self, result: SlotResult) -> None:
        """Append what a slot generated on from the end of the last answer to that answer, which stays one turn."""
        last = self._turns[-1] if self.is_answered and not self.is_plain else None
        if last is None:
            self.take_answer(result)
        elif result.text:
            self._turns = (*self._turns[:-1], self._turn(ASSISTANT, last.text + result.text, last.source, result))

    def take_cut_off(self, text: str) -> Turn | None:
        """Append what there is of an answer whose engine ended; None when that is nothing."""
        if not text:
            return None
        turn = self._turn(ASSISTANT, text, Source.GENERATED)
        self._turns += (turn,)
        return turn

    def regenerate(self) -> None:
        """Drop the last answer, so that another one can take its place."""
        if not self._turns:
            raise DialogueError("There is no answer to generate again.", "Write a message first.")
        if len(self._turns) == 1 and self.is_answered:
            raise DialogueError("The answer follows no message, so it cannot be generated again.", "Write a message.")
        if self.is_answered:
            self._change(self._turns[:-1])

    def edit(self, index: int, text: str) -> None:
        """Put another text in the place of a user's message and drop what followed it."""
        _check(text)
        if index not in self.user_turns:
            raise DialogueError(f"Message {index + 1} is none that a user wrote.", "Only those can be edited.")
        if not text.strip():
            raise DialogueError("The message is empty.", "Write something, or delete it.")
        self._change((*self._turns[:index], self._turn(USER, text, Source.EDITED)))

    def edit_system(self, text: str) -> None:
        """Give another system prompt, '' for none; the turns stay."""
        _check(text)
        self._system = text

    def delete_last(self) -> None:
        """Drop the user's last message and what followed it."""
        if not self._turns:
            raise DialogueError("There is nothing to delete.", "Write a message first.")
        users = self.user_turns
        self._change(self._turns[: users[-1]] if users else ())

    def clear(self) -> None:
        """Drop all turns; the system prompt stays."""
        if self._turns:
            self._change(())

    def bring_back(self) -> None:
        """Show the version before the last change that dropped turns; again and again goes through all of them."""
        if not self._versions:
            raise DialogueError("There is no earlier version of this conversation.", "Edits and new answers make them.")
        version = self._versions.pop()
        if self._turns:
            self._versions.appendleft(_Version(self._system, self._turns, self.is_plain))
        self._system, self._turns, self.is_plain = version.system, version.turns, version.is_plain

    def replace(self, messages: Iterable[ChatMessage]) -> None:
        """Take these messages in the place of all turns; system messages in front become the system prompt."""
        given = list(messages)
        for message in given:
            _check(message.role, message.content)
        n_system = next((n for n, message in enumerate(given) if message.role != SYSTEM), len(given))
        self._change(tuple(self._turn(m.role, m.content, Source.LOADED) for m in given[n_system:]))
        self._system = "\n\n".join(message.content for message in given[:n_system])

    def started_anew(self, prompt: Prompt) -> Dialogue:
        """The dialogue that a run of this prompt begins; it can bring this one back. Token ids have no text here."""
        anew = Dialogue(is_plain=bool(prompt.text))
        anew._versions, anew._n_numbered = self._versions.copy(), self._n_numbered
        anew._n_answers = self._n_answers.copy()
        if self._turns:
            anew._versions.append(_Version(self._system, self._turns, self.is_plain))
        if prompt.text:
            anew._turns = (anew._turn(USER, prompt.text, Source.TYPED),)
        elif prompt.messages:
            anew.replace(prompt.messages)
            anew._turns = tuple(replace(turn, source=Source.TYPED) for turn in anew._turns)
        return anew

    # ---- inside

    def _turn(self, role: str, text: str, source: Source, result: SlotResult | None = None) -> Turn:
        self._n_numbered += 1
        return Turn(self._n_numbered, role, text, source, result)

    def _change(self, turns: tuple[Turn, ...]) -> None:
        """Take other turns, and keep those that were there."""
        if self._turns:
            self._versions.append(_Version(self._system, self._turns, self.is_plain))
        self._turns = turns


def _check(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            what = f"The text holds half a character (a lone surrogate at {error.start}), which no model can read."
            raise DialogueError(what, "Remove it.") from error
