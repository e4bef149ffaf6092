"""The workload ``edit``: a conversation a slot, of which an earlier turn is edited; the reply to that turn is timed.

The replies are written once, before anything is timed, and are then part of every setting's prompts: all have the same
prompts, whatever they generate themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from draftscope.base.paths import resource
from draftscope.engine.protocol import ChatMessage, Prompt

Say = Callable[[dict[int, Prompt]], dict[int, str]]
"""Generates from prompts by the number of their conversation; returns the replies, or fewer when it was interrupted."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the user says. ``edited_turn`` (from 0) becomes ``edited_text``, and all behind it is left out."""

    title: str
    turns: tuple[str, ...]
    edited_turn: int
    edited_text: str

    def prompts(self, replies: Sequence[str], *, is_chat: bool) -> Iterator[Prompt]:
        """The prompt of every turn whose predecessors have replies; when all but the last have, also the edited one."""
        for turn in range(min(len(self.turns), len(replies) + 1)):
            yield talk_prompt(self.turns[: turn + 1], replies, is_chat=is_chat)
        if len(replies) >= len(self.turns) - 1:
            said = (*self.turns[: self.edited_turn], self.edited_text)
            yield talk_prompt(said, replies, is_chat=is_chat)


def talk_prompt(said: Sequence[str], replies: Sequence[str], *, is_chat: bool) -> Prompt:
    """What was said, with the replies in between: as a chat, or as text for models without a chat template."""
    if not is_chat:
        parts = [f"Question: {text}\nAnswer: {reply}\n\n" for text, reply in zip(said[:-1], replies, strict=False)]
        return Prompt(text=f"{''.join(parts)}Question: {said[-1]}\nAnswer:")
    messages = []
    for text, reply in zip(said[:-1], replies, strict=False):
        messages += [ChatMessage("user", text), ChatMessage("assistant", reply)]
    return Prompt(messages=(*messages, ChatMessage("user", said[-1])))


@dataclass(frozen=True, slots=True)
class EditWorkload:
    """The conversations, all of as many turns."""

    conversations: tuple[Conversation, ...]

    @property
    def n_prompts_each(self) -> int:
        """Prompts of a conversation: its turns, then the edited one."""
        return len(self.conversations[0].turns) + 1

    def write(self, say: Say, *, is_chat: bool) -> list[Prompt]:
        """Let replies be written, turn by turn, and return every prompt, those of a conversation together."""
        replies: list[list[str]] = [[] for _ in self.conversations]
        for turn in range(self.n_prompts_each - 2):  # the last turn's reply is in no prompt
            asked = {
                number: list(conversation.prompts(replies[number], is_chat=is_chat))[turn]
                for number, conversation in enumerate(self.conversations)
            }
            said = say(asked)
            if len(said) < len(asked):
                return []
            for number, reply in said.items():
                replies[number].append(reply)
        return [
            prompt
            for conversation, own in zip(self.conversations, replies, strict=True)
            for prompt in conversation.prompts(own, is_chat=is_chat)
        ]


def bundled_conversations() -> tuple[Conversation, ...]:
    """The conversations that come with the program."""
    lines = resource("prompts", "edit.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(_conversation(json.loads(line)) for line in lines)


def _conversation(line: dict[str, object]) -> Conversation:
    edit, turns = line["edit"], line["turns"]
    assert isinstance(edit, dict)  # the file is ours
    assert isinstance(turns, list)
    return Conversation(str(line["title"]), tuple(turns), int(edit["turn"]) - 1, str(edit["text"]))
