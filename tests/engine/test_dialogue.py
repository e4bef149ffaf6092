"""Conversations: every operation, what it keeps, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.engine.dialogue import (
    ASSISTANT,
    MAX_VERSIONS,
    USER,
    Dialogue,
    DialogueError,
    Source,
)
from draftscope.engine.protocol import ChatMessage, Prompt, SlotResult


def answer(text: str) -> SlotResult:
    """A result with this text."""
    return SlotResult(0, text, (1, 2), 5, 1, 3, 1, (1,), (1,), 1.0, 1.0, 1.0, "end_of_generation")


def talk(*texts: str, is_plain: bool = False) -> Dialogue:
    """A dialogue of messages and answers in turn."""
    dialogue = Dialogue(is_plain=is_plain)
    for index, text in enumerate(texts):
        if index % 2:
            dialogue.take_answer(answer(text))
        else:
            dialogue.say(text)
    return dialogue


def texts(dialogue: Dialogue) -> list[str]:
    """What was said, in order."""
    return [turn.text for turn in dialogue.turns]


def test_a_message_becomes_a_prompt_of_messages() -> None:
    dialogue = talk("hello")
    assert dialogue.prompt() == Prompt(messages=(ChatMessage("user", "hello"),))


def test_the_second_prompt_holds_the_first_answer() -> None:
    dialogue = talk("hello", "yes?", "who are you?")
    assert [(m.role, m.content) for m in dialogue.prompt().messages] == [
        ("user", "hello"),
        ("assistant", "yes?"),
        ("user", "who are you?"),
    ]


def test_the_system_prompt_goes_first_and_can_be_taken_away() -> None:
    dialogue = talk("hello")
    dialogue.edit_system("Be short.")
    assert dialogue.prompt().messages[0] == ChatMessage("system", "Be short.")
    dialogue.edit_system("")
    assert dialogue.prompt().messages[0].role == "user"


def test_turns_know_how_they_came() -> None:
    dialogue = talk("a", "b", "c")
    dialogue.edit(0, "A")
    assert dialogue.turns[0].source is Source.EDITED
    dialogue.take_answer(answer("B"))
    assert dialogue.turns[1].source is Source.GENERATED
    assert dialogue.turns[1].result == answer("B")


def test_an_answered_dialogue_gives_no_prompt() -> None:
    with pytest.raises(DialogueError, match="answered already"):
        talk("a", "b").prompt()


def test_an_empty_dialogue_gives_no_prompt() -> None:
    with pytest.raises(DialogueError, match="Nothing has been said"):
        Dialogue().prompt()


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_message_is_refused(text: str) -> None:
    dialogue = talk("a", "b")
    with pytest.raises(DialogueError, match="empty"):
        dialogue.say(text)
    assert texts(dialogue) == ["a", "b"]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(DialogueError, match="half a character"):
        Dialogue().say("a\ud800")


def test_an_answer_without_text_is_no_turn() -> None:
    dialogue = talk("a")
    assert dialogue.take_answer(answer("")) is None
    assert not dialogue.is_answered


def test_what_follows_an_answer_makes_it_longer() -> None:
    dialogue = talk("a", "b")
    dialogue.lengthen_answer(answer(" and c"))
    assert texts(dialogue) == ["a", "b and c"]
    dialogue.lengthen_answer(answer(""))
    assert texts(dialogue) == ["a", "b and c"]
    dialogue.say("d")
    dialogue.lengthen_answer(answer("e"))
    assert texts(dialogue) == ["a", "b and c", "d", "e"]


def test_regenerating_drops_the_last_answer_and_keeps_it_as_a_version() -> None:
    dialogue = talk("a", "b")
    dialogue.regenerate()
    assert texts(dialogue) == ["a"]
    dialogue.take_answer(answer("B"))
    dialogue.bring_back()
    assert texts(dialogue) == ["a", "b"]
    dialogue.bring_back()
    assert texts(dialogue) == ["a", "B"]


def test_regenerating_without_an_answer_just_asks_again() -> None:
    dialogue = talk("a")
    dialogue.regenerate()
    assert texts(dialogue) == ["a"]
    assert dialogue.n_versions == 0


def test_there_is_nothing_to_regenerate_before_the_first_message() -> None:
    with pytest.raises(DialogueError, match="no answer"):
        Dialogue().regenerate()


def test_an_answer_to_nothing_cannot_be_regenerated() -> None:
    dialogue = Dialogue()
    dialogue.replace([ChatMessage("assistant", "Welcome.")])
    with pytest.raises(DialogueError, match="follows no message"):
        dialogue.regenerate()
    assert texts(dialogue) == ["Welcome."]


def test_editing_a_message_drops_what_followed_and_brings_it_back() -> None:
    dialogue = talk("a", "b", "c", "d")
    dialogue.edit(0, "A")
    assert texts(dialogue) == ["A"]
    dialogue.bring_back()
    assert texts(dialogue) == ["a", "b", "c", "d"]
    assert dialogue.n_versions == 1


@pytest.mark.parametrize("index", [1, 4, -1])
def test_only_messages_of_the_user_can_be_edited(index: int) -> None:
    dialogue = talk("a", "b", "c", "d")
    with pytest.raises(DialogueError, match="none that a user wrote"):
        dialogue.edit(index, "x")
    assert texts(dialogue) == ["a", "b", "c", "d"]


def test_a_message_cannot_be_edited_away() -> None:
    dialogue = talk("a")
    with pytest.raises(DialogueError, match="empty"):
        dialogue.edit(0, " ")


def test_deleting_takes_the_last_message_with_its_answer() -> None:
    dialogue = talk("a", "b", "c", "d")
    dialogue.delete_last()
    assert texts(dialogue) == ["a", "b"]
    dialogue.delete_last()
    assert texts(dialogue) == []
    with pytest.raises(DialogueError, match="nothing to delete"):
        dialogue.delete_last()


def test_clearing_keeps_the_system_prompt_and_can_be_taken_back() -> None:
    dialogue = talk("a", "b")
    dialogue.edit_system("Be short.")
    dialogue.clear()
    assert (dialogue.system, texts(dialogue)) == ("Be short.", [])
    dialogue.bring_back()
    assert texts(dialogue) == ["a", "b"]
    assert dialogue.n_versions == 0


def test_bringing_back_goes_through_every_version_in_turn() -> None:
    dialogue = talk("a", "1")
    for text in ("2", "3"):
        dialogue.regenerate()
        dialogue.take_answer(answer(text))
    seen = []
    for _ in range(4):
        dialogue.bring_back()
        seen.append(dialogue.turns[-1].text)
    assert seen == ["2", "1", "3", "2"]


def test_without_an_earlier_version_there_is_nothing_to_bring_back() -> None:
    with pytest.raises(DialogueError, match="no earlier version"):
        talk("a", "b").bring_back()


def test_the_oldest_versions_are_forgotten() -> None:
    dialogue = talk("a")
    for number in range(MAX_VERSIONS + 5):
        dialogue.take_answer(answer(str(number)))
        dialogue.regenerate()
    assert dialogue.n_versions == MAX_VERSIONS


def test_messages_take_the_place_of_all_turns() -> None:
    dialogue = talk("a", "b")
    dialogue.replace([ChatMessage("system", "S"), ChatMessage("user", "x"), ChatMessage("assistant", "y")])
    assert (dialogue.system, texts(dialogue)) == ("S", ["x", "y"])
    assert {turn.source for turn in dialogue.turns} == {Source.LOADED}
    dialogue.bring_back()
    assert (dialogue.system, texts(dialogue)) == ("", ["a", "b"])


def test_other_roles_stay_as_they_are() -> None:
    dialogue = Dialogue()
    given = (ChatMessage("user", "x"), ChatMessage("tool", "42"), ChatMessage("system", "late"))
    dialogue.replace(given)
    assert dialogue.prompt().messages == given


def test_a_plain_dialogue_is_one_text() -> None:
    dialogue = talk("Once ", "upon", " a time", is_plain=True)
    dialogue.edit_system("Story: ")
    assert dialogue.prompt() == Prompt(text="Story: Once upon a time")


def test_a_plain_dialogue_goes_on_from_its_answer() -> None:
    dialogue = talk("Once ", "upon", is_plain=True)
    dialogue.say("")
    assert dialogue.prompt() == Prompt(text="Once upon")
    dialogue.say("\n")
    assert dialogue.prompt() == Prompt(text="Once upon\n")


def test_a_plain_dialogue_needs_something_to_go_on_from() -> None:
    with pytest.raises(DialogueError, match="empty"):
        Dialogue(is_plain=True).say("")


def test_a_run_begins_a_dialogue_of_its_prompt() -> None:
    plain = Dialogue().started_anew(Prompt(text="def main():"))
    assert plain.is_plain
    assert plain.prompt() == Prompt(text="def main():")
    chat = plain.started_anew(Prompt(messages=(ChatMessage("system", "S"), ChatMessage("user", "x"))))
    assert (chat.is_plain, chat.system, texts(chat)) == (False, "S", ["x"])
    assert chat.turns[0].source is Source.TYPED
    assert chat.started_anew(Prompt(tokens=(1, 2))).turns == ()


def test_a_run_can_bring_back_the_dialogue_before_it_and_leaves_that_one_as_it_was() -> None:
    before = talk("a", "b")
    anew = before.started_anew(Prompt(text="def main():"))
    anew.bring_back()
    assert (texts(anew), anew.is_plain, anew.n_versions) == (["a", "b"], False, 1)
    assert (texts(before), before.n_versions) == (["a", "b"], 0)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from(["x", "", "long message"])),
        st.tuples(st.just("take_answer"), st.sampled_from(["y", ""]).map(answer)),
        st.tuples(st.just("edit"), st.integers(0, 5), st.sampled_from(["z", ""])),
        st.tuples(st.sampled_from(["regenerate", "delete_last", "clear", "bring_back"])),
    ),
    max_size=30,
)


@given(OPERATIONS, st.booleans())
def test_whatever_is_done_no_turn_is_ever_changed_and_a_refusal_changes_nothing(
    operations: list[tuple[object, ...]], is_plain: bool
) -> None:
    dialogue = Dialogue(is_plain=is_plain)
    seen: dict[int, str] = {}
    for name, *arguments in operations:
        before = (dialogue.turns, dialogue.system, dialogue.n_versions)
        try:
            getattr(dialogue, str(name))(*arguments)
        except DialogueError:
            assert (dialogue.turns, dialogue.system, dialogue.n_versions) == before
        for turn in dialogue.turns:
            assert seen.setdefault(turn.number, turn.text) == turn.text
        numbers = [turn.number for turn in dialogue.turns]
        assert numbers == sorted(set(numbers))
        assert {turn.role for turn in dialogue.turns} <= {USER, ASSISTANT}
