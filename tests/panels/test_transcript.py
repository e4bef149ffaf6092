"""A conversation laid out: what stands is not laid out again, and another script gives what a new layout would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftscope.engine.dialogue import Dialogue
from draftscope.engine.events import Origin
from draftscope.engine.protocol import ChatMessage, Prompt, SlotResult
from draftscope.panels.script import EDIT, EDIT_SYSTEM, MAX_SHOWN, REGENERATE, Block, Mark, Style, Tokens, script_of
from draftscope.panels.token_flow import TokenFlow
from draftscope.panels.transcript import Transcript
from draftscope.session.slot_chat import SlotChat
from draftscope.trace.pieces import PieceTable
from tests.panels.test_token_flow import tokens

PIECES = {1: b" sun", 2: b" moon", 3: b"\n"}


def flow_of(n: int) -> TokenFlow:
    """Tokens of every origin."""
    flow = TokenFlow(PieceTable(PIECES))
    rows = [((Origin.SAMPLED, Origin.ACCEPTED, Origin.REJECTED)[i % 3], 1 + i % 3, i % 3, -1) for i in range(n)]
    if rows:
        flow.append(tokens(*rows))
    return flow


def text_of(transcript: Transcript) -> str:
    """All lines as they read."""
    return "\n".join("".join(part.text for part in line).rstrip() for line in transcript.lines)


def mark(text: str) -> Mark:
    """A plain text."""
    return Mark(Style.PLAIN, text)


def block(*parts: Mark | Tokens, is_message: bool = False) -> Block:
    """A block of these."""
    return Block(parts, is_message)


def result(text: str = "x") -> SlotResult:
    """A result with figures that can be told from others."""
    return SlotResult(0, text, (1, 2, 3), 87, 2, 6, 3, (2, 1), (2, 2), 1, 1, 10.0, "max_tokens", n_reused=60)


def chat_of(*texts: str, is_plain: bool = False) -> SlotChat:
    """Messages and answers in turn."""
    dialogue = Dialogue(is_plain=is_plain)
    for index, text in enumerate(texts):
        if index % 2:
            dialogue.take_answer(result(text))
        else:
            dialogue.say(text)
    return SlotChat(dialogue)


def shown(chat: SlotChat, flow: TokenFlow | None = None) -> Transcript:
    """A wide transcript of a conversation."""
    transcript = Transcript(flow or flow_of(0), 200)
    transcript.set_blocks(script_of(chat))
    return transcript


def test_messages_and_answers_stand_apart_with_their_figures() -> None:
    lines = text_of(shown(chat_of("Who?", "Me."))).split("\n")
    figures = "prompt 27 tokens, 60 reused · answer 3 · 50 % accepted · 200 tok/s · ended at the token limit"
    assert lines == ["You  Edit", "Who?", "", "Me.", f"{figures}  Regenerate"]


def test_only_the_surface_of_a_message_is_another() -> None:
    transcript = shown(chat_of("Who?", "Me."))
    assert [transcript.is_message(line) for line in range(5)] == [True, True, False, False, False]


def test_a_click_on_a_mark_finds_its_turn() -> None:
    transcript = shown(chat_of("Who?", "Me.", "And?"))
    marks = [transcript.mark(part.token) for line in transcript.lines for part in line if part.token < 0]
    actions = dict.fromkeys((mark.action, mark.turn) for mark in marks if mark.action)
    assert list(actions) == [(EDIT, 0), (EDIT, 2), (REGENERATE, -1)]


def test_an_answer_whose_tokens_are_in_the_trace_is_shown_token_by_token() -> None:
    chat = chat_of("Who?", "Me.")
    chat.places[chat.dialogue.turns[1].number] = (2, 6)
    transcript = shown(chat, flow_of(9))
    numbers = [part.token for line in transcript.lines for part in line if part.token >= 0]
    assert sorted(set(numbers)) == [2, 3, 4, 5]
    assert "Me." not in text_of(transcript)


def test_the_running_answer_grows_at_the_end() -> None:
    chat = chat_of("Who?")
    chat.first_token = 3
    flow = flow_of(3)
    transcript = shown(chat, flow)
    assert text_of(transcript).endswith("Who?\n\n")
    flow.append(tokens((Origin.SAMPLED, 1, 0, -1)))
    transcript.extend()
    assert text_of(transcript).endswith("Who?\n\n sun")


def test_a_system_prompt_can_be_edited_and_a_long_one_is_cut() -> None:
    chat = chat_of("Who?")
    chat.dialogue.edit_system("Be short. " * 100)
    transcript = shown(chat)
    assert text_of(transcript).startswith("System prompt  Edit\nBe short. ")
    assert text_of(transcript).count("Be short.") == 28
    actions = [transcript.mark(p.token).action for p in transcript.lines[0] if p.token < 0]
    assert EDIT_SYSTEM in actions


def test_plain_text_and_its_answers_stand_in_one_line() -> None:
    lines = text_of(shown(chat_of("Once ", "upon", " a time", is_plain=True))).split("\n")
    assert lines[0] == "Once upon a time"


def test_a_message_without_an_answer_says_so_and_why() -> None:
    chat = chat_of("Who?")
    assert "There is no answer.  Answer this" in text_of(shown(chat))
    chat.error = "It is too long."
    assert "It is too long.  Answer this" in text_of(shown(chat))


def test_a_plain_text_that_was_not_gone_on_with_offers_that() -> None:
    assert text_of(shown(chat_of("Once ", is_plain=True))) == "Once\n\nGo on"


def test_very_long_messages_are_cut_and_say_so() -> None:
    chat = chat_of("x" * (MAX_SHOWN + 1_234))
    assert "(1,234 more characters)" in text_of(shown(chat)).replace("\n", "")
    plain = SlotChat(Dialogue().started_anew(Prompt(text="a" + "b" * MAX_SHOWN)))
    assert text_of(shown(plain)).startswith("…")
    assert "a" not in text_of(shown(plain))


def test_other_roles_are_named() -> None:
    chat = SlotChat()
    chat.dialogue.replace([ChatMessage("user", "6*7?"), ChatMessage("tool", "42")])
    assert "tool\n42" in text_of(shown(chat))


def test_a_longer_script_lays_out_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = Transcript(flow_of(0), 40)
    transcript.set_blocks(tuple(block(mark(f"text {number}")) for number in range(100)))
    laid_out: list[str] = []
    original = transcript.layout.append

    def append(token: int, text: str, scale: float = 1.0) -> int:
        laid_out.append(text)
        return original(token, text, scale)

    monkeypatch.setattr(transcript.layout, "append", append)
    transcript.set_blocks((*transcript.blocks, block(mark("new"))))
    assert laid_out == ["new"]
    assert transcript.set_blocks(transcript.blocks) is None


def test_what_stands_behind_tokens_waits_for_them() -> None:
    flow = flow_of(2)
    transcript = Transcript(flow, 80)
    transcript.set_blocks((block(Tokens(0, 4)), block(mark("behind"))))
    assert "behind" not in text_of(transcript)
    flow.append(tokens((Origin.SAMPLED, 1, 0, -1), (Origin.SAMPLED, 2, 0, -1)))
    transcript.extend()
    assert text_of(transcript).endswith("behind")


PARTS = st.one_of(
    st.text(alphabet="ab \n", max_size=30).map(mark),
    st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: Tokens(min(pair), max(pair))),
)
BLOCKS = st.lists(st.builds(Block, st.lists(PARTS, max_size=3).map(tuple), st.booleans()), max_size=5).map(tuple)


@example([((block(mark("a")), block()), 0), ((), 0)], True)
@given(st.lists(st.tuples(BLOCKS, st.integers(0, 3)), min_size=1, max_size=6), st.booleans())
def test_any_scripts_and_tokens_in_turn_look_as_if_laid_out_at_once(
    steps: list[tuple[tuple[Block, ...], int]], keeps_beginning: bool
) -> None:
    flow = flow_of(0)
    transcript = Transcript(flow, 12)
    blocks: tuple[Block, ...] = ()
    for new, n_tokens in steps:
        blocks = (*blocks[: len(blocks) // 2], *new) if keeps_beginning else new
        transcript.set_blocks(blocks)
        for _ in range(n_tokens):
            flow.append(tokens((Origin(int(np.int64(len(flow) % 3))), 1 + len(flow) % 3, 1, -1)))
        transcript.extend()
        fresh = Transcript(flow, 12)
        fresh.set_blocks(blocks)
        assert transcript.lines == fresh.lines
        assert transcript.layout.first_lines == fresh.layout.first_lines
        n_lines = range(len(fresh.lines))
        assert [transcript.is_message(line) for line in n_lines] == [fresh.is_message(line) for line in n_lines]
