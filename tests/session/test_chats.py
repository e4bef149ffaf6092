"""Conversations in the session: turns beside each other and within a run, and what is left of what was refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.errors import ErrorReport
from draftscope.engine.events import Kind, Origin, Records, SlotState, empty_records
from draftscope.engine.protocol import (
    Cancel,
    Configure,
    DecodeCounts,
    Failed,
    Finished,
    Pieces,
    Prompt,
    RunReport,
    SlotResult,
    Submit,
)
from draftscope.session.chats import DEFAULTS
from draftscope.session.session import Session
from draftscope.session.state import SessionState
from tests.session.scripted_client import DEATH, ScriptedClient, refusal, request, state_of


@pytest.fixture
def talking(ready: Session) -> Session:
    """A session whose answers are generated in the contexts that are there."""
    ready.chats.values = lambda: replace(DEFAULTS, context=request().context)
    return ready


@pytest.fixture
def failures(ready: Session) -> list[ErrorReport]:
    """What the session said went wrong."""
    found: list[ErrorReport] = []
    ready.failed.connect(found.append)
    return found


def submits(client: ScriptedClient) -> list[Submit]:
    """The Submits that were sent."""
    return [command for command in client.sent if isinstance(command, Submit)]


def result(slot: int, text: str, stop: str = "end_of_generation") -> SlotResult:
    """A result of two tokens."""
    return SlotResult(slot, text, (1, 2), 9, 1, 3, 1, (1,), (1,), 1.0, 1.0, 1.0, stop)


def records(slot: int, first: int, *rounds: int) -> Records:
    """What the engine records of a turn: its begin, a sampled and a rejected token in each round, its end."""
    made = empty_records(2 + 3 * len(rounds))
    made["sequence"] = np.arange(first, first + len(made))
    made["slot"], made["round"], made["kind"] = slot, -1, Kind.SLOT
    made["code"][[0, -1]] = SlotState.PROMPT, SlotState.DONE
    for index, number in enumerate(rounds):
        part = made[1 + 3 * index : 4 + 3 * index]
        part["round"] = number
        part["kind"] = Kind.TOKEN, Kind.TOKEN, Kind.ROUND
        part["code"][:2] = Origin.SAMPLED, Origin.REJECTED
        part["token"] = 1, 2, -1
    return made


def answer(client: ScriptedClient, text: str, submit: Submit | None = None) -> None:
    """Let a Submit of one slot end with this text."""
    command = submit or submits(client)[-1]
    slot = command.tasks[0].slot
    client.answers.append(Finished(command.id, (result(slot, text),), RunReport(DecodeCounts(), 0, 0, 0, 1.0)))


def said(session: Session, slot: int) -> list[str]:
    """What was said in a slot."""
    return [turn.text for turn in session.chats.chat(slot).dialogue.turns]


def test_a_message_is_submitted_and_its_answer_taken(talking: Session, client: ScriptedClient) -> None:
    assert talking.chats.say(0, "hello")
    (submit,) = submits(client)
    assert [message.content for message in submit.tasks[0].prompt.messages] == ["hello"]
    assert state_of(talking) is SessionState.RUNNING
    answer(client, "yes?")
    talking.poll()
    assert state_of(talking) is SessionState.READY
    assert said(talking, 0) == ["hello", "yes?"]


def test_a_turn_continues_the_run_with_rounds_numbered_on(talking: Session, client: ScriptedClient) -> None:
    started: list[str] = []
    talking.run_started.connect(lambda: started.append("run"))
    talking.turn_started.connect(lambda: started.append("turn"))
    for text, first in (("one", 0), ("two", 20)):
        talking.chats.say(0, text)
        client.records = records(0, first, 0, 1)
        answer(client, f"to {text}")
        talking.poll()
    assert started == ["run", "turn"]
    assert talking.trace.kind(Kind.ROUND)["round"].tolist() == [0, 1, 2, 3]
    assert [task.prompt.messages[-1].content for task in talking.tasks] == ["one", "two"]
    chat = talking.chats.chat(0)
    places = [chat.places[turn.number] for turn in chat.dialogue.turns if turn.number in chat.places]
    assert places == [(0, 4), (4, 8)]
    assert talking.run_report is None


def test_two_slots_talk_at_the_same_time_and_each_answer_goes_to_its_own(
    talking: Session, client: ScriptedClient
) -> None:
    finished: list[int] = []
    talking.run_finished.connect(lambda: finished.append(1))
    talking.chats.say(0, "a")
    talking.chats.say(1, "b")
    first, second = submits(client)
    assert talking.busy_slots == {0, 1}
    answer(client, "to b", second)
    talking.poll()
    assert (said(talking, 0), said(talking, 1)) == (["a"], ["b", "to b"])
    assert state_of(talking) is SessionState.RUNNING
    assert not finished
    talking.chats.say(1, "c")
    answer(client, "to a", first)
    answer(client, "to c")
    talking.poll()
    assert (said(talking, 0), said(talking, 1)) == (["a", "to a"], ["b", "to b", "c", "to c"])
    assert (state_of(talking), finished) == (SessionState.READY, [1])


def test_a_slot_that_answers_takes_no_other_message(
    talking: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    talking.chats.say(0, "a")
    assert talking.chats.why_not(0)
    assert not talking.chats.say(0, "b")
    assert not talking.chats.clear(0)
    assert (said(talking, 0), len(submits(client)), len(failures)) == (["a"], 1, 2)
    assert talking.chats.why_not(1) == ""


def test_one_slot_is_stopped_and_the_other_goes_on(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "a")
    talking.chats.say(1, "b")
    talking.chats.stop(0)
    talking.chats.stop(0)
    assert [command.slots for command in client.sent if isinstance(command, Cancel)] == [(0,)]
    assert state_of(talking) is SessionState.RUNNING
    assert talking.stopping_slots == {0}
    answer(client, "cut", submits(client)[0])
    talking.poll()
    assert (said(talking, 0), talking.stopping_slots) == (["a", "cut"], frozenset())


def test_stopping_the_only_slot_stops_the_run(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "a")
    talking.chats.stop(0)
    assert state_of(talking) is SessionState.STOPPING
    assert talking.chats.why_not(1)
    answer(client, "")
    talking.poll()
    assert said(talking, 0) == ["a"]
    assert talking.chats.chat(0).first_token is None


def test_another_answer_takes_the_next_seed(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "a")
    for text in ("1", "2", "3"):
        answer(client, text)
        talking.poll()
        talking.chats.regenerate(0)
    assert [submit.tasks[0].sampling.seed for submit in submits(client)] == [0, 1, 2, 3]
    assert {submit.tasks[0].prompt for submit in submits(client)} == {submits(client)[0].tasks[0].prompt}


def test_an_edit_goes_on_from_there_and_the_old_answer_keeps_its_tokens(
    talking: Session, client: ScriptedClient
) -> None:
    for text, first in (("one", 0), ("two", 20)):
        talking.chats.say(0, text)
        client.records = records(0, first, 0)
        answer(client, f"to {text}")
        talking.poll()
    old = talking.chats.chat(0).dialogue.turns
    talking.chats.edit(0, 0, "other")
    assert [message.content for message in submits(client)[-1].tasks[0].prompt.messages] == ["other"]
    answer(client, "to other")
    talking.poll()
    talking.chats.bring_back(0)
    assert talking.chats.chat(0).dialogue.turns == old
    assert {old[1].number, old[3].number} <= set(talking.chats.chat(0).places)


def test_a_refused_turn_keeps_the_message_the_reason_and_the_run(
    talking: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    talking.chats.say(0, "one")
    client.records = records(0, 0, 0)
    answer(client, "to one")
    talking.poll()
    n_records = talking.trace.n_records
    talking.chats.say(0, "much too long")
    client.answers.append(Failed(submits(client)[-1].id, refusal("It is too long.")))
    talking.poll()
    chat = talking.chats.chat(0)
    assert said(talking, 0) == ["one", "to one", "much too long"]
    assert chat.error.startswith("It is too long.")
    assert (talking.trace.n_records, len(chat.places), failures[0].message) == (n_records, 1, "It is too long.")
    talking.chats.edit(0, 2, "short")
    assert chat.error == ""


def test_a_first_turn_that_is_refused_leaves_the_run_before_it(talking: Session, client: ScriptedClient) -> None:
    talking.run(request())
    client.records = records(0, 0, 0)
    client.answer_run()
    talking.poll()
    wanted = replace(request().context, n_draft_max=5)
    talking.chats.values = lambda: replace(DEFAULTS, context=wanted)
    talking.chats.say(1, "hello")
    assert isinstance(client.last, Configure)
    client.answer_load()
    talking.poll()
    assert talking.trace.n_records == 0
    client.answers.append(Failed(submits(client)[-1].id, refusal("No.")))
    talking.poll()
    assert talking.trace.n_records == len(records(0, 0, 0))
    assert talking.chats.chat(1).error.startswith("No.")


def test_other_contexts_begin_a_new_run_and_the_texts_stay(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "one")
    client.records = records(0, 0, 0)
    answer(client, "to one")
    talking.poll()
    wanted = replace(request().context, n_draft_max=5)
    talking.chats.values = lambda: replace(DEFAULTS, context=wanted)
    talking.chats.say(0, "two")
    client.answer_load()
    talking.poll()
    assert talking.trace.n_records == 0
    assert said(talking, 0) == ["one", "to one", "two"]
    assert talking.chats.chat(0).places == {}


def test_a_run_begins_the_conversations_anew_and_they_can_be_brought_back(
    talking: Session, client: ScriptedClient
) -> None:
    talking.chats.say(0, "one")
    answer(client, "to one")
    talking.poll()
    talking.run(request(text="def main():"))
    assert said(talking, 0) == ["def main():"]
    assert talking.chats.chat(0).dialogue.is_plain
    client.answers.append(
        Finished(submits(client)[-1].id, (result(0, "\n    pass"),), RunReport(DecodeCounts(), 0, 0, 0, 1.0))
    )
    talking.poll()
    talking.chats.say(0, "\n\ndef other():")
    assert submits(client)[-1].tasks[0].prompt.text == "def main():\n    pass\n\ndef other():"
    answer(client, "")
    talking.poll()
    talking.chats.clear(0)
    talking.chats.bring_back(0)
    talking.chats.bring_back(0)
    assert said(talking, 0) == ["one", "to one"]
    assert not talking.chats.chat(0).dialogue.is_plain


def test_a_refused_run_puts_the_conversations_back(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "one")
    client.records = records(0, 0, 0)
    answer(client, "to one")
    talking.poll()
    before = talking.chats.chat(0).dialogue.turns
    talking.run(request(text="too long"))
    client.answers.append(Failed(submits(client)[-1].id, refusal()))
    talking.poll()
    assert talking.chats.chat(0).dialogue.turns == before
    assert talking.chats.chat(0).places == {before[1].number: (0, 2)}


def test_what_was_written_before_the_engine_died_is_an_answer(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "one")
    client.answers.append(Pieces({1: b"half"}))
    client.records = records(0, 0, 0)
    talking.poll()
    client.answers.append(DEATH)
    talking.poll()
    chat = talking.chats.chat(0)
    assert said(talking, 0) == ["one", "half"]
    assert chat.places[chat.dialogue.turns[-1].number] == (0, 2)
    assert "engine ended" in chat.error
    assert talking.busy_slots == frozenset()


def test_another_model_begins_new_conversations_that_bring_back_the_old(
    talking: Session, client: ScriptedClient
) -> None:
    talking.chats.edit_system(0, "Be short.")
    talking.chats.say(0, "one")
    answer(client, "to one")
    talking.poll()
    talking.open_model("b.gguf", request().context)
    client.answer_load()
    talking.poll()
    assert said(talking, 0) == []
    assert talking.chats.chat(0).dialogue.system == "Be short."
    talking.chats.bring_back(0)
    assert said(talking, 0) == ["one", "to one"]


def test_what_cannot_be_said_is_told_before(session: Session, client: ScriptedClient) -> None:
    assert "No model" in session.chats.why_not(0)
    session.open_model("m.gguf", request().context)
    assert "loading" in session.chats.why_not(0)
    client.answer_load()
    session.poll()
    assert session.chats.why_not(0) == ""
    assert session.model is not None
    session._flow.model = replace(session.model, has_tokenizer=False)
    assert "no tokenizer" in session.chats.why_not(0)


def test_a_slot_that_is_done_waits_for_the_others_of_its_run(talking: Session, client: ScriptedClient) -> None:
    talking.run(request())
    client.records = records(0, 0, 0)
    talking.poll()
    assert (talking.chats.is_answering(0), talking.chats.is_answering(1)) == (False, True)
    assert talking.chats.why_not(0) == "The run goes on in other slots."
    client.answer_run()
    talking.poll()
    assert talking.chats.why_not(0) == ""
    talking.chats.say(0, "more")
    assert talking.chats.is_answering(0)


def test_a_slot_that_will_not_be_there_takes_no_message(talking: Session, client: ScriptedClient) -> None:
    assert talking.chats.why_not(2)
    talking.chats.values = lambda: replace(DEFAULTS, context=replace(request().context, n_slots=1))
    assert "not there any more" in talking.chats.why_not(1)
    talking.chats.values = lambda: replace(DEFAULTS, context=replace(request().context, n_slots=3))
    assert talking.chats.why_not(2) == ""


def test_an_answer_that_was_cut_goes_on_from_what_the_slot_holds(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "one")
    answer(client, "half")
    talking.poll()
    talking.chats.go_on(0)
    assert submits(client)[-1].tasks[0].prompt == Prompt(is_continuation=True)
    answer(client, " and half")
    talking.poll()
    assert said(talking, 0) == ["one", "half and half"]
    assert len(talking.tasks) == 2
    talking.chats.say(0, "two")
    assert not talking.chats.go_on(0)


def test_a_run_that_goes_on_keeps_what_was_said(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "one")
    answer(client, "half")
    talking.poll()
    task = DEFAULTS.task(0, Prompt(is_continuation=True))
    talking.run(replace(request(), tasks=(task,)))
    answer(client, " and half")
    talking.poll()
    assert said(talking, 0) == ["one", "half and half"]


def test_a_text_that_a_slot_was_given_by_hand_is_its_conversation(talking: Session, client: ScriptedClient) -> None:
    talking.chats.say(0, "one")
    answer(client, "to one")
    talking.poll()
    talking.chats.hold(0, "from a file")
    assert said(talking, 0) == ["from a file"]
    assert talking.chats.chat(0).dialogue.is_plain
    talking.chats.hold(0, "")
    assert said(talking, 0) == []
    assert not talking.chats.chat(0).dialogue.is_plain
    talking.chats.bring_back(0)
    talking.chats.bring_back(0)
    assert said(talking, 0) == ["one", "to one"]


def test_conversations_are_saved_and_loaded(
    talking: Session, client: ScriptedClient, failures: list[ErrorReport], tmp_path: Path
) -> None:
    talking.chats.say(0, "one")
    answer(client, "to one")
    talking.poll()
    assert talking.chats.save(0, tmp_path / "talk.json")
    assert talking.chats.load(1, tmp_path / "talk.json")
    assert said(talking, 1) == said(talking, 0)
    assert not talking.chats.load(1, tmp_path / "missing.json")
    assert not talking.chats.save(0, tmp_path / "no" / "talk.json")
    assert len(failures) == 2
    assert len(json.loads((tmp_path / "talk.json").read_text())["messages"]) == 2
