"""What a card shows of a conversation, block by block: messages, answers, figures, and what can be clicked. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from draftscope.engine.dialogue import ASSISTANT, USER, Turn
from draftscope.session.slot_chat import SlotChat
from draftscope.trace.acceptance import from_counts
from draftscope.trace.answer_words import answer_words

EDIT, EDIT_SYSTEM, REGENERATE = "edit", "edit_system", "regenerate"
"""What a click on an action does."""

MOST_OF_SYSTEM = 280
"""Characters of a system prompt that are shown; the whole of it is seen when it is edited."""


MAX_SHOWN = 20_000
"""Characters of a message that are shown: all of them are laid out at once."""


class Style(Enum):
    """How a text is drawn."""

    DIM = auto()
    PLAIN = auto()
    NAME = auto()
    CAPTION = auto()
    ACTION = auto()
    ERROR = auto()


@dataclass(frozen=True, slots=True)
class Mark:
    """A text that is no token. ``action``: what a click does, to the turn at index ``turn``."""

    style: Style
    text: str
    action: str = ""
    turn: int = -1


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of the slot's flow: from ``first`` to before ``end``, or all that come where ``end`` is None."""

    first: int
    end: int | None


Part = Mark | Tokens


@dataclass(frozen=True, slots=True)
class Block:
    """Parts that begin on a line of their own.

    ``is_message``: on the surface of what a person said. ``has_figures``: they end with the figures of an answer.
    """

    parts: tuple[Part, ...]
    is_message: bool = False
    has_figures: bool = False


def script_of(chat: SlotChat, *, is_brief: bool = False) -> tuple[Block, ...]:
    """The blocks of a conversation, the oldest first. ``is_brief``: of the figures only the numbers of tokens."""
    blocks = _plain(chat, is_brief) if chat.dialogue.is_plain else _turns(chat, is_brief)
    if chat.first_token is None and (parts := _end(chat)):
        if chat.dialogue.is_answered and not chat.error and blocks[-1].has_figures:
            last = blocks.pop()
            blocks.append(Block((*last.parts, Mark(Style.CAPTION, "  "), *parts), has_figures=True))
        else:
            blocks.append(Block(parts))
    return tuple(blocks)


def without_actions(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The same where nothing can be changed any more."""
    kept = (
        replace(block, parts=tuple(p for p in block.parts if not (isinstance(p, Mark) and p.style is Style.ACTION)))
        for block in blocks
    )
    return tuple(block for block in kept if block.parts)


def _plain(chat: SlotChat, is_brief: bool) -> list[Block]:
    """Texts and answers of a conversation without a template stand one directly after the other."""
    parts: list[Part] = [Mark(Style.DIM, chat.dialogue.system)] if chat.dialogue.system else []
    for turn in chat.dialogue.turns:
        if turn.role == ASSISTANT:
            parts.append(_answer(chat, turn))
        else:
            parts.append(Mark(Style.DIM, _tail(turn.text)))
    if chat.first_token is not None:
        parts.append(Tokens(chat.first_token, None))
    last = chat.dialogue.turns[-1] if chat.dialogue.turns else None
    has_figures = last is not None and last.result is not None and chat.first_token is None
    if last is not None and has_figures:
        parts += [Mark(Style.CAPTION, "\n"), Mark(Style.CAPTION, _figures(last, is_brief))]
    return [Block(tuple(parts), has_figures=has_figures)] if parts else []


def _turns(chat: SlotChat, is_brief: bool) -> list[Block]:
    dialogue = chat.dialogue
    blocks = [_system(dialogue.system)] if dialogue.system else []
    blocks += [_block(chat, index, turn, is_brief) for index, turn in enumerate(dialogue.turns)]
    if chat.first_token is not None:
        blocks.append(Block((Tokens(chat.first_token, None),)))
    return blocks


def _system(text: str) -> Block:
    shown = text if len(text) <= MOST_OF_SYSTEM else f"{text[:MOST_OF_SYSTEM]}…"
    head = (Mark(Style.NAME, "System prompt  "), Mark(Style.ACTION, "Edit", EDIT_SYSTEM), Mark(Style.NAME, "\n"))
    return Block((*head, Mark(Style.DIM, shown)))


def _block(chat: SlotChat, index: int, turn: Turn, is_brief: bool) -> Block:
    if turn.role == ASSISTANT:
        parts: list[Part] = [_answer(chat, turn)]
        if turn.result is not None:
            parts += [Mark(Style.CAPTION, "\n"), Mark(Style.CAPTION, _figures(turn, is_brief))]
        return Block(tuple(parts), has_figures=turn.result is not None)
    if turn.role != USER:
        return Block((Mark(Style.NAME, f"{turn.role}\n"), Mark(Style.PLAIN, _head(turn.text))))
    head = (Mark(Style.NAME, "You  "), Mark(Style.ACTION, "Edit", EDIT, index), Mark(Style.NAME, "\n"))
    return Block((*head, Mark(Style.PLAIN, _head(turn.text))), is_message=True)


def _answer(chat: SlotChat, turn: Turn) -> Part:
    """An answer token by token where the trace of the run still has it, else its text."""
    place = chat.places.get(turn.number)
    return Mark(Style.PLAIN, _head(turn.text)) if place is None else Tokens(*place)


def _head(text: str) -> str:
    """The beginning of a long message."""
    left_out = len(text) - MAX_SHOWN
    return text if left_out <= 0 else f"{text[:MAX_SHOWN]}… ({left_out:,} more characters)"


def _tail(text: str) -> str:
    """The end of a long text, which the model goes on from."""
    return text if len(text) <= MAX_SHOWN else f"… {text[-MAX_SHOWN:]}"


def _end(chat: SlotChat) -> tuple[Part, ...]:
    """Why there is no answer, and what can be done for another one."""
    dialogue = chat.dialogue
    parts: list[Part] = []
    if chat.error:
        parts.append(Mark(Style.ERROR, f"{chat.error}  "))
    elif dialogue.turns and not dialogue.is_answered and not dialogue.is_plain:
        parts.append(Mark(Style.CAPTION, "There is no answer.  "))
    if dialogue.turns and (len(dialogue.turns) > 1 or not dialogue.is_answered):
        first = "Go on" if dialogue.is_plain else "Answer this"
        parts.append(Mark(Style.ACTION, "Regenerate" if dialogue.is_answered else first, REGENERATE))
    return tuple(parts)


def _figures(turn: Turn, is_brief: bool) -> str:
    result = turn.result
    assert result is not None
    acceptance = from_counts(
        n_rounds=result.n_rounds,
        draft_n=result.draft_n,
        n_accepted=result.draft_n_accepted,
        n_tokens=len(result.tokens),
        generate_ms=result.generate_ms,
    )
    words = answer_words(result.n_prompt, result.n_reused, acceptance, result.stop)
    return " · ".join(words[:2] if is_brief else words)
