"""What ``check`` lets a model do: conversations of which the last turns are then edited, the latest first.

Each edit goes back to another position. The replies are written without MTP and are then part of every prompt, so that
all ways back see the same ones. Models without a tokenizer get token ids made from the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from draftscope.cli.edit_workload import Conversation, talk_prompt
from draftscope.engine.protocol import ModelReport, Prompt, SlotResult

N_TOKENS_A_TEXT = 40
"""Token ids that stand for a text where there is no tokenizer."""


class Form(StrEnum):
    """How the conversations are put to the model."""

    CHAT = "chat"
    TEXT = "text"
    TOKENS = "tokens"

    @property
    def remark(self) -> str:
        """What cannot be done in this form; '' for the whole."""
        if self is Form.TEXT:
            return "The model has no chat template: conversations are put to it as plain text."
        if self is Form.TOKENS:
            return "The model has no tokenizer: conversations are made of token ids, and tokens have no text."
        return ""


def form_of(model: ModelReport) -> Form:
    """The most natural one that the model takes."""
    if not model.has_tokenizer:
        return Form.TOKENS
    return Form.CHAT if model.has_chat_template else Form.TEXT


@dataclass(slots=True)
class Talk:
    """One conversation: its turns, then the edits. ``replies`` grow while it is run for the first time."""

    conversation: Conversation
    form: Form
    n_vocab: int
    replies: list[SlotResult] = field(default_factory=list)

    @property
    def n_turns(self) -> int:
        """Turns before the edits."""
        return len(self.conversation.turns)

    @property
    def n_steps(self) -> int:
        """Prompts in all: every turn, then an edit of each but the first."""
        return 2 * self.n_turns - 1

    def edited_turn(self, step: int) -> int | None:
        """Which turn (from 0) a step edits; None for the turns themselves."""
        return None if step < self.n_turns else self.n_steps - step

    def prompt(self, step: int) -> Prompt:
        """The prompt of a step; the replies before its turn must be there."""
        edited = self.edited_turn(step)
        turn = step if edited is None else edited
        said = list(self.conversation.turns[: turn + 1])
        if edited is not None:
            said[turn] = self.conversation.edited_text
        replies = self.replies[:turn]
        if self.form is not Form.TOKENS:
            return talk_prompt(said, [reply.text for reply in replies], is_chat=self.form is Form.CHAT)
        tokens: list[int] = []
        for text, reply in zip(said, [*(reply.tokens for reply in replies), ()], strict=True):
            tokens += (*_token_ids(text, self.n_vocab), *reply)
        return Prompt(tokens=tuple(tokens))


def _token_ids(text: str, n_vocab: int) -> Iterator[int]:
    """Ids behind the first few, which are often control tokens; the same for the same text."""
    first = min(5, n_vocab - 1)
    for place, byte in enumerate(text.encode()[:N_TOKENS_A_TEXT]):
        yield first + (byte * 37 + place * 11) % (n_vocab - first)
