"""Slots that outlive their tasks: reuse, continuations, and every command on a slot, whichever engine it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftscope.engine.client import Client, make_client
from draftscope.engine.errors import ErrorCode
from draftscope.engine.protocol import (
    ClearSlot,
    Closing,
    Failed,
    ForkSlot,
    Prompt,
    RestoreSlot,
    RewindSlot,
    SaveSlot,
    ShiftSlot,
    SlotChanged,
    SlotCommand,
    SlotFacts,
    SlotResult,
    SlotTask,
    Submit,
)
from tests.engine.talk import GREEDY, Talk, long_task, task

PROMPT = "def main():\n    import sys\n    for line in sys.stdin:\n        print(line)\n"

SPACING = 16


@pytest.fixture(params=["native", "fake:0"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    client = make_client(request.param, in_process=True)
    yield client
    client.close()


@pytest.fixture
def talk(client: Client, demo_model: Path) -> Talk:
    talk = Talk(client)
    talk.load(str(demo_model), n_slots=3, n_ctx=512, prompt_checkpoint_spacing=SPACING)
    return talk


def going_on(slot: int, text: str = "", max_tokens: int = 12) -> SlotTask:
    return SlotTask(slot, Prompt(text=text, is_continuation=True), sampling=GREEDY, max_tokens=max_tokens)


def run_one(talk: Talk, one: SlotTask) -> SlotResult:
    return talk.run(one).results[0]


def refused(closing: Closing, code: ErrorCode) -> str:
    assert isinstance(closing, Failed), closing
    assert closing.error.code is code, closing
    assert closing.error.message.endswith("."), closing
    return closing.error.message


def without_numbers(facts: SlotFacts) -> SlotFacts:
    """The facts that do not depend on which slot it is and how it came to hold this."""
    return dataclasses.replace(facts, slot=0, n_prompt_checkpoints=0, prompt_checkpoint_bytes=0)


def test_the_first_prompt_of_a_slot_reuses_nothing_and_the_same_again_nearly_all(talk: Talk) -> None:
    first = run_one(talk, task(0, PROMPT))
    again = run_one(talk, task(0, PROMPT))
    assert (first.n_reused, first.reuse) == (0, "none")
    assert again.tokens == first.tokens
    assert again.n_prompt - again.n_reused <= SPACING + 1
    assert again.reuse in ("restored", "tail_dropped", "kept")


def test_reuse_is_turned_off_by_the_task_and_changes_no_text(talk: Talk) -> None:
    first = run_one(talk, task(0, PROMPT))
    again = run_one(talk, task(0, PROMPT, reuse=False))
    assert (again.n_reused, again.reuse, again.tokens) == (0, "turned_off", first.tokens)


def test_prompts_with_nothing_in_common_say_so(talk: Talk) -> None:
    talk.run(SlotTask(0, Prompt(tokens=(300, 301, 302)), sampling=GREEDY, max_tokens=4))
    other = run_one(talk, SlotTask(0, Prompt(tokens=(310, 301, 302)), sampling=GREEDY, max_tokens=4))
    assert (other.n_reused, other.reuse) == (0, "nothing_common")


def test_a_continuation_without_a_prompt_says_what_one_task_would_have_said(talk: Talk) -> None:
    whole = run_one(talk, task(1, PROMPT, max_tokens=24))
    first = run_one(talk, task(0, PROMPT, max_tokens=12))
    rest = run_one(talk, going_on(0, max_tokens=12))
    assert first.tokens + rest.tokens == whole.tokens
    assert rest.reuse == "kept"
    assert rest.n_prompt - rest.n_reused <= 2 * (1 + 3)  # what the last rounds brought may not be in the memory yet


def test_a_continuation_is_appended_to_what_the_slot_holds(talk: Talk) -> None:
    run_one(talk, task(0, PROMPT))
    held = talk.change(RewindSlot(talk.client.next_id(), 0, 5)).tokens
    result = run_one(talk, SlotTask(0, Prompt(tokens=(300, 301), is_continuation=True), GREEDY, max_tokens=6))
    whole = run_one(talk, SlotTask(1, Prompt(tokens=(*held, 300, 301)), GREEDY, max_tokens=6))
    assert result.n_prompt == whole.n_prompt == 7
    assert result.tokens == whole.tokens


def test_a_continuation_of_nothing_starts_no_task_of_its_submit(talk: Talk) -> None:
    closing = talk.ask(Submit(talk.client.next_id(), (task(1), going_on(0, "more"))))
    assert "Slot 0 holds nothing" in refused(closing, ErrorCode.BAD_PROMPT)
    assert len(talk.records) == 0


def test_a_clear_empties_a_slot_and_leaves_the_others(talk: Talk) -> None:
    talk.run(task(0, PROMPT), task(1, PROMPT))
    cleared = talk.change(ClearSlot(talk.client.next_id(), 0))
    assert (cleared.slot, cleared.n_tokens, cleared.tokens, cleared.text) == (0, 0, (), "")
    assert (cleared.n_prompt_checkpoints, cleared.prompt_checkpoint_bytes) == (0, 0)
    assert run_one(talk, task(0, PROMPT)).reuse == "none"
    assert run_one(talk, task(1, PROMPT)).n_reused > 0


def test_a_slot_that_was_rewound_says_the_same_again(talk: Talk) -> None:
    said = run_one(talk, task(0, PROMPT, max_tokens=20))
    facts = talk.change(RewindSlot(talk.client.next_id(), 0, said.n_prompt + 5))
    assert facts.n_tokens == len(facts.tokens) == said.n_prompt + 5
    assert facts.tokens[-5:] == said.tokens[:5]
    assert run_one(talk, going_on(0, max_tokens=15)).tokens == said.tokens[5:]


def test_a_rewind_beyond_what_is_held_is_refused(talk: Talk) -> None:
    run_one(talk, task(0, PROMPT))
    for n_tokens in (-1, 10_000):
        closing = talk.ask(RewindSlot(talk.client.next_id(), 0, n_tokens))
        assert "cannot go back" in refused(closing, ErrorCode.BAD_SETTINGS)


def test_a_fork_goes_on_as_the_slot_that_it_came_from_and_both_go_their_ways(talk: Talk) -> None:
    run_one(talk, task(0, PROMPT))
    held = talk.change(RewindSlot(talk.client.next_id(), 0, 20))
    forked = talk.change(ForkSlot(talk.client.next_id(), 0, 2))
    assert forked.slot == 2
    assert without_numbers(forked) == without_numbers(held)
    first, second = talk.run(going_on(2), going_on(0)).results
    assert first.tokens == second.tokens


def test_forks_that_make_no_sense_are_refused(talk: Talk) -> None:
    refused(talk.ask(ForkSlot(talk.client.next_id(), 0, 0)), ErrorCode.BAD_SETTINGS)
    assert "nothing to fork" in refused(talk.ask(ForkSlot(talk.client.next_id(), 0, 1)), ErrorCode.BAD_STATE)


def test_a_recurrent_slot_refuses_a_shift_and_stays_as_it_was(talk: Talk) -> None:
    said = run_one(talk, task(0, PROMPT, max_tokens=20))
    refused(talk.ask(ShiftSlot(talk.client.next_id(), 0, 0, 10_000)), ErrorCode.BAD_SETTINGS)
    refused(talk.ask(ShiftSlot(talk.client.next_id(), 0, 2, 4)), ErrorCode.UNSUPPORTED)
    facts = talk.change(RewindSlot(talk.client.next_id(), 0, said.n_prompt + 20))
    assert facts.tokens[said.n_prompt :] == said.tokens


@pytest.mark.parametrize("command", [ClearSlot, SaveSlot, RestoreSlot, RewindSlot, ForkSlot, ShiftSlot])
def test_commands_on_a_slot_that_is_at_work_or_not_there_are_refused(
    talk: Talk, demo_model: Path, command: type[SlotCommand], tmp_path: Path
) -> None:
    talk.load(str(demo_model), n_slots=3, n_ctx=16_384)
    rest: tuple[object, ...] = {
        SaveSlot: (str(tmp_path / "a.slot"),),
        RestoreSlot: (str(tmp_path / "a.slot"),),
        RewindSlot: (0,),
        ForkSlot: (2,),
        ShiftSlot: (0, 1),
    }.get(command, ())
    running = talk.start(long_task(0))
    closing = talk.ask(command(talk.client.next_id(), 0, *rest))  # type: ignore[call-arg, arg-type]
    assert refused(closing, ErrorCode.BUSY) == "Slot 0 is still generating."
    closing = talk.ask(command(talk.client.next_id(), 9, *rest))  # type: ignore[call-arg, arg-type]
    refused(closing, ErrorCode.BAD_SETTINGS)
    assert not talk.closings(running)
    assert list(tmp_path.iterdir()) == []


def test_a_saved_slot_goes_on_after_another_load_in_another_slot(talk: Talk, demo_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "kept.slot"
    run_one(talk, task(0, PROMPT, max_tokens=12))
    saved = talk.ask(SaveSlot(talk.client.next_id(), 0, str(path)))
    assert isinstance(saved, SlotChanged)
    assert saved.size_bytes == path.stat().st_size > 0
    rest = run_one(talk, going_on(0))
    talk.load(str(demo_model), n_slots=3, n_ctx=512)
    restored = talk.ask(RestoreSlot(talk.client.next_id(), 2, str(path)))
    assert isinstance(restored, SlotChanged)
    assert restored.size_bytes == saved.size_bytes
    assert without_numbers(restored.slot) == without_numbers(saved.slot)
    assert restored.slot.text.startswith(PROMPT)
    again = run_one(talk, going_on(2))
    assert (again.tokens, again.n_reused, again.n_prompt) == (rest.tokens, rest.n_reused, rest.n_prompt)


def test_a_slot_that_holds_nothing_is_not_saved(talk: Talk, tmp_path: Path) -> None:
    path = tmp_path / "kept.slot"
    closing = talk.ask(SaveSlot(talk.client.next_id(), 1, str(path)))
    assert refused(closing, ErrorCode.BAD_STATE) == "Slot 1 holds nothing, so there is nothing to save."
    assert not path.exists()


def test_a_file_that_cannot_be_restored_leaves_the_slot_as_it_was(talk: Talk, tmp_path: Path) -> None:
    path, client = tmp_path / "kept.slot", talk.client
    said = run_one(talk, task(0, PROMPT, max_tokens=20))
    talk.change(SaveSlot(client.next_id(), 0, str(path)))
    whole = path.read_bytes()
    for data in (b"", b"GGUF" + whole, whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(data)
        refused(talk.ask(RestoreSlot(client.next_id(), 0, str(path))), ErrorCode.BAD_FILE)
    facts = talk.change(RewindSlot(client.next_id(), 0, said.n_prompt + 20))
    assert facts.tokens[said.n_prompt :] == said.tokens


def test_a_state_with_more_tokens_than_a_slot_has_room_for_is_refused(
    talk: Talk, demo_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "kept.slot"
    run_one(talk, task(0, PROMPT, max_tokens=80, ignore_eos=True))
    talk.change(SaveSlot(talk.client.next_id(), 0, str(path)))
    talk.load(str(demo_model), n_slots=1, n_ctx=64)
    closing = talk.ask(RestoreSlot(talk.client.next_id(), 0, str(path)))
    assert "a slot has room for 64" in refused(closing, ErrorCode.BAD_STATE)
