"""What every client promises, whichever engine it leads to and wherever that runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.client import Client, make_client
from draftscope.engine.errors import ErrorCode
from draftscope.engine.events import KINDS, Kind, SlotState
from draftscope.engine.protocol import (
    ANY_SLOT,
    Cancel,
    Cancelled,
    ChatMessage,
    Configure,
    ContextSettings,
    Done,
    Failed,
    Finished,
    Load,
    Loaded,
    LoadProgress,
    ModelSettings,
    Pieces,
    Prompt,
    Shutdown,
    SlotTask,
    Submit,
    Unload,
)
from tests.engine.talk import GREEDY, Talk, long_task, task


@dataclass(frozen=True)
class Engine:
    """Which engine, and where it runs."""

    backend: str
    in_process: bool

    def __str__(self) -> str:
        return f"{self.backend.partition(':')[0]}-{'in-process' if self.in_process else 'worker'}"


ENGINES = [Engine(backend, in_process) for backend in ("native", "fake:0") for in_process in (False, True)]


@pytest.fixture(params=ENGINES, ids=str)
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def client(engine: Engine) -> Iterator[Client]:
    client = make_client(engine.backend, in_process=engine.in_process)
    yield client
    client.close()


@pytest.fixture
def talk(client: Client) -> Talk:
    return Talk(client)


@pytest.fixture
def model(demo_model: Path) -> str:
    """The scripted engine takes any path."""
    return str(demo_model)


@pytest.fixture
def loaded(talk: Talk, model: str) -> Talk:
    talk.load(model)
    return talk


def code_of(closing: object) -> ErrorCode:
    assert isinstance(closing, Failed), closing
    assert closing.error.message.endswith((".", "?")), closing.error.message
    return closing.error.code


def test_a_load_tells_its_progress_and_what_was_granted(talk: Talk, model: str) -> None:
    report = talk.load(model, n_slots=3, n_draft_max=2)
    assert (report.path, report.n_slots_asked, report.n_slots) == (model, 3, 3)
    assert report.speculation.is_active
    assert report.way_back.granted == "rollback"
    fractions = [answer.fraction for answer in talk.of(LoadProgress)]
    assert fractions
    assert all(0 <= fraction <= 1 for fraction in fractions)


def test_a_load_of_a_missing_file_fails_and_the_next_one_works(engine: Engine, talk: Talk, model: str) -> None:
    path = "/nowhere/model.gguf" if engine.backend == "native" else "fake:fail-load"
    refused = talk.ask(Load(talk.client.next_id(), ModelSettings(path), ContextSettings()))
    assert code_of(refused) is ErrorCode.BAD_FILE
    assert talk.load(model).n_slots == 2


def test_contexts_that_no_engine_can_make_are_refused(talk: Talk, model: str) -> None:
    for context in (ContextSettings(n_slots=0), ContextSettings(n_ctx=2**40), ContextSettings(n_draft_max=-1)):
        refused = talk.ask(Load(talk.client.next_id(), ModelSettings(model), context))
        assert code_of(refused) is ErrorCode.BAD_SETTINGS
    assert talk.load(model).n_slots == 2


def test_slots_generate_together_and_are_finished_in_the_order_of_the_tasks(loaded: Talk) -> None:
    finished = loaded.run(task(1, "def main():\n", 10), task(0, max_tokens=20))
    assert [result.slot for result in finished.results] == [1, 0]
    assert [len(result.tokens) for result in finished.results] == [10, 20]
    assert {result.stop for result in finished.results} == {"max_tokens"}
    decodes = finished.report.decodes
    assert decodes.rounds > 0
    assert decodes.draft == 3 * decodes.rounds
    assert decodes.target == decodes.rounds + decodes.replay


def test_the_report_counts_this_run_only(loaded: Talk) -> None:
    first, second = loaded.run(task()), loaded.run(task())
    assert first.report.decodes == second.report.decodes
    assert second.report.wall_ms > 0


def test_records_agree_with_the_results(loaded: Talk) -> None:
    result = loaded.run(task(max_tokens=30)).results[0]
    records = loaded.records
    assert np.array_equal(records["sequence"], np.arange(len(records)))
    assert set(records["kind"].tolist()) <= set(KINDS)
    rounds = records[records["kind"] == Kind.ROUND]
    assert (len(rounds), rounds["n"].sum(), rounds["m"].sum()) == (
        result.n_rounds,
        result.draft_n,
        result.draft_n_accepted,
    )
    tokens = records[(records["kind"] == Kind.TOKEN) & (records["code"] != 2)]
    assert tuple(tokens["token"]) == result.tokens
    states = records[records["kind"] == Kind.SLOT]["code"].tolist()
    assert states == [SlotState.PROMPT, SlotState.GENERATING, SlotState.DONE]
    assert loaded.client.n_dropped == 0


def test_the_pieces_spell_every_recorded_token(loaded: Talk) -> None:
    result = loaded.run(task(max_tokens=30)).results[0]
    known = {token: piece for answer in loaded.of(Pieces) for token, piece in answer.pieces.items()}
    recorded = loaded.records[loaded.records["kind"] == Kind.TOKEN]
    assert set(recorded["token"].tolist()) <= set(known)
    assert b"".join(known[token] for token in result.tokens).decode() == result.text


def test_the_same_prompt_gives_the_same_tokens_in_every_slot_and_without_drafts(talk: Talk, model: str) -> None:
    talk.load(model)
    first, second = talk.run(task(0, max_tokens=24), task(1, max_tokens=24)).results
    assert first.tokens == second.tokens
    assert first.draft_n > 0
    talk.load(model, use_mtp=False)
    plain = talk.run(task(max_tokens=24)).results[0]
    assert plain.tokens == first.tokens
    assert plain.draft_n == 0


def test_checkpoints_are_counted_and_change_no_text(talk: Talk, model: str) -> None:
    talk.load(model, checkpoint="rollback")
    expected = talk.run(task(max_tokens=24)).results[0].tokens
    assert talk.load(model, checkpoint="host").way_back.granted == "host"
    finished = talk.run(task(max_tokens=24))
    assert finished.results[0].tokens == expected
    assert finished.report.n_saves > 0
    assert np.count_nonzero(talk.records["kind"] == Kind.SAVE) == finished.report.n_saves


def test_a_prompt_may_be_messages_or_tokens(loaded: Talk) -> None:
    messages = (ChatMessage("user", "What does the function read do?"),)
    chat = loaded.run(SlotTask(0, Prompt(messages=messages), sampling=GREEDY, max_tokens=8)).results[0]
    tokens = loaded.run(SlotTask(0, Prompt(tokens=(300, 301, 302)), sampling=GREEDY, max_tokens=8)).results[0]
    assert chat.n_prompt > 3
    assert tokens.n_prompt == 3


BAD_TASKS = [
    (task(7), ErrorCode.BAD_SETTINGS),
    (task(-2), ErrorCode.BAD_SETTINGS),
    (task(0), ErrorCode.BAD_SETTINGS),  # a second task for the slot of the good one
    (task(1, max_tokens=0), ErrorCode.BAD_SETTINGS),
    (task(1, max_tokens=2**50), ErrorCode.BAD_SETTINGS),
    (replace(task(1), sampling=replace(GREEDY, top_p=float("nan"))), ErrorCode.BAD_SETTINGS),
    (replace(task(1), sampling=replace(GREEDY, repeat_last_n=-9)), ErrorCode.BAD_SETTINGS),
    (task(1, text=""), ErrorCode.BAD_PROMPT),
    (task(1, text="half a \ud800 character"), ErrorCode.BAD_PROMPT),
    (task(1, text="word " * 5000), ErrorCode.BAD_PROMPT),
    (SlotTask(1, Prompt(tokens=(1, 2**30))), ErrorCode.BAD_PROMPT),
    (SlotTask(1, Prompt(tokens=(1, -5))), ErrorCode.BAD_PROMPT),
    (SlotTask(1, Prompt(text="a", tokens=(1,))), ErrorCode.BAD_PROMPT),
    (task(1, grammar='root ::= "a"', json_schema="{}"), ErrorCode.BAD_GRAMMAR),
    (task(1, grammar="root ::= nothing"), ErrorCode.BAD_GRAMMAR),
    (task(1, grammar='root ::= "a"{3,2}'), ErrorCode.BAD_GRAMMAR),
    (task(1, grammar="root ::= \ud800"), ErrorCode.BAD_GRAMMAR),
    (task(1, grammar="root ::= " + "x" * 300_000), ErrorCode.BAD_GRAMMAR),
    (task(1, json_schema="[]"), ErrorCode.BAD_GRAMMAR),
    (task(1, json_schema='{"type": "colour"}'), ErrorCode.BAD_GRAMMAR),
    (task(1, json_schema='{"$ref": "https://localhost:1/schema.json"}'), ErrorCode.BAD_GRAMMAR),
    (task(1, json_schema='{"type": "string", "minLength": 2000000000}'), ErrorCode.BAD_GRAMMAR),
    (SlotTask(ANY_SLOT, Prompt(text="a", is_continuation=True)), ErrorCode.BAD_SETTINGS),
    (SlotTask(1, Prompt(text="a", is_continuation=True), reuse=False), ErrorCode.BAD_SETTINGS),
    (SlotTask(1, Prompt(messages=(ChatMessage("user", "a"),), is_continuation=True)), ErrorCode.BAD_PROMPT),
]


def test_a_submit_with_one_bad_task_starts_none_of_them(loaded: Talk) -> None:
    for bad, code in BAD_TASKS:
        refused = loaded.ask(Submit(loaded.client.next_id(), (task(0), bad)))
        assert code_of(refused) is code, bad
    assert len(loaded.run(task(0), task(1)).results) == 2


def test_a_task_may_have_a_grammar_or_a_schema_and_others_go_on_beside_it(loaded: Talk) -> None:
    plain = loaded.run(task(0), task(1)).results
    formed, free = loaded.run(task(0, grammar='root ::= "yes" | [a-z]+'), task(1)).results
    assert (formed.error, free.tokens) == ("", plain[1].tokens)
    chat = Prompt(messages=(ChatMessage("user", "Say something."),))
    schema = '{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}'
    by_schema, free = loaded.run(replace(task(0, json_schema=schema), prompt=chat), task(1)).results
    assert (by_schema.error, free.tokens) == ("", plain[1].tokens)


def test_nothing_can_be_run_before_a_load_and_after_an_unload(talk: Talk, model: str) -> None:
    assert code_of(talk.ask(Submit(talk.client.next_id(), (task(),)))) is ErrorCode.NOT_LOADED
    assert code_of(talk.ask(Configure(talk.client.next_id(), ContextSettings()))) is ErrorCode.NOT_LOADED
    talk.load(model)
    assert isinstance(talk.ask(Unload(talk.client.next_id())), Done)
    assert code_of(talk.ask(Submit(talk.client.next_id(), (task(),)))) is ErrorCode.NOT_LOADED


def test_a_submit_without_tasks_is_refused(loaded: Talk) -> None:
    assert code_of(loaded.ask(Submit(loaded.client.next_id(), ()))) is ErrorCode.BAD_SETTINGS


def test_a_task_for_a_busy_slot_waits_and_holds_up_no_other(talk: Talk, model: str) -> None:
    talk.load(model, n_ctx=8192)
    running = talk.start(long_task(0))
    waiting = Submit(talk.client.next_id(), (task(1), task(0)))
    talk.client.send(waiting)
    assert isinstance(talk.ask(Submit(talk.client.next_id(), (task(1),))), Finished)
    assert not talk.closings(waiting.id)
    talk.ask(Cancel(talk.client.next_id(), commands=(running,)))
    stopped, finished = talk.closing_of(running), talk.closing_of(waiting.id)
    assert isinstance(stopped, Finished)
    assert stopped.results[0].stop == "cancelled"
    assert isinstance(finished, Finished)
    assert [(result.slot, result.stop) for result in finished.results] == [(1, "max_tokens"), (0, "max_tokens")]


def test_more_tasks_than_slots_take_the_slot_that_is_free_first(loaded: Talk) -> None:
    finished = loaded.run(*(task(ANY_SLOT, max_tokens=n) for n in (30, 5, 5, 5)))
    assert [len(result.tokens) for result in finished.results] == [30, 5, 5, 5]
    assert [result.slot for result in finished.results] == [0, 1, 1, 1]


def test_a_queued_task_is_cancelled_by_its_command_and_the_running_one_goes_on(talk: Talk, model: str) -> None:
    talk.load(model, n_slots=1, n_ctx=8192)
    running = talk.start(task(max_tokens=150, ignore_eos=True))
    queued = [Submit(talk.client.next_id(), (task(slot),)) for slot in (0, ANY_SLOT)]
    for command in queued:
        talk.client.send(command)
    assert isinstance(talk.ask(Cancel(talk.client.next_id(), commands=tuple(c.id for c in queued))), Done)
    for command in queued:
        closing = talk.closing_of(command.id)
        assert isinstance(closing, Finished)
        assert (closing.results[0].stop, closing.results[0].tokens) == ("cancelled", ())
    finished = talk.closing_of(running)
    assert isinstance(finished, Finished)
    assert (finished.results[0].stop, len(finished.results[0].tokens)) == ("max_tokens", 150)


def test_a_cancel_ends_the_named_slots_and_leaves_the_others(talk: Talk, model: str) -> None:
    talk.load(model, n_ctx=8192)
    running = talk.start(long_task(0), long_task(1, "def main():\n"))
    assert isinstance(talk.ask(Cancel(talk.client.next_id(), slots=(0,))), Done)
    assert isinstance(talk.ask(Submit(talk.client.next_id(), (task(0),))), Finished)  # free again
    assert not talk.closings(running)  # since slot 1 goes on
    assert isinstance(talk.ask(Cancel(talk.client.next_id())), Done)
    finished = talk.closing_of(running)
    assert isinstance(finished, Finished)
    assert [result.stop for result in finished.results] == ["cancelled", "cancelled"]
    assert isinstance(talk.ask(Submit(talk.client.next_id(), (task(0),))), Finished)


def test_commands_that_wait_behind_a_load_are_cancelled_with_it_or_carried_out(talk: Talk, model: str) -> None:
    load = Load(talk.client.next_id(), ModelSettings(model), ContextSettings(n_slots=1))
    submit, cancel = Submit(talk.client.next_id(), (task(),)), Cancel(talk.client.next_id())
    again = Load(talk.client.next_id(), ModelSettings(model), ContextSettings(n_slots=1))
    for command in (load, submit, cancel, again):
        talk.client.send(command)
    assert isinstance(talk.closing_of(again.id), Loaded)
    assert isinstance(talk.closings(load.id)[0], Loaded | Cancelled)
    assert isinstance(talk.closings(submit.id)[0], Finished | Failed)
    assert [len(talk.closings(command.id)) for command in (load, submit, cancel, again)] == [1, 1, 1, 1]


def test_new_contexts_end_the_tasks_of_the_old_ones(talk: Talk, model: str) -> None:
    talk.load(model, n_ctx=8192)
    running = talk.start(long_task(0))
    closing = talk.ask(Configure(talk.client.next_id(), ContextSettings(n_slots=4, n_ctx=256)))
    assert isinstance(closing, Loaded)
    assert closing.report.n_slots == 4
    finished = talk.closings(running)[0]
    assert isinstance(finished, Finished)
    assert finished.results[0].stop == "cancelled"
    assert len(talk.run(*(task(slot) for slot in range(4))).results) == 4


def test_a_shutdown_in_the_middle_of_a_generation_closes_everything(talk: Talk, model: str) -> None:
    talk.load(model, n_ctx=8192)
    running = talk.start(long_task(0), long_task(1))
    shutdown = Shutdown(talk.client.next_id())
    late = Submit(talk.client.next_id(), (task(),))
    talk.client.send(shutdown)
    talk.client.send(late)
    assert isinstance(talk.closing_of(shutdown.id), Done)
    assert isinstance(talk.closing_of(running), Finished)
    assert isinstance(talk.closing_of(late.id), Failed)
    talk.until(lambda: not talk.client.is_alive)
    after = Unload(talk.client.next_id())
    assert code_of(talk.ask(after)) is ErrorCode.ENGINE_DIED
    assert [len(talk.closings(command)) for command in (running, shutdown.id, late.id, after.id)] == [1, 1, 1, 1]


def test_an_id_that_is_still_open_is_refused_and_its_owner_goes_on(talk: Talk, model: str) -> None:
    talk.load(model, n_ctx=8192)
    running = talk.start(long_task(0))
    talk.client.send(Submit(running, (task(1),)))
    talk.client.send(Cancel(running))
    talk.until(lambda: len(talk.closings(running)) == 2)
    assert {code_of(closing) for closing in talk.closings(running)} == {ErrorCode.PROTOCOL}
    talk.ask(Cancel(talk.client.next_id()))
    talk.until(lambda: len(talk.closings(running)) == 3)
    assert isinstance(talk.closings(running)[-1], Finished)


def test_a_restart_gives_a_fresh_engine_and_first_the_records_of_the_old_one(talk: Talk, model: str) -> None:
    talk.load(model, n_ctx=8192)
    running = talk.start(long_task(0))
    time.sleep(0.05)  # nobody reads meanwhile
    talk.client.restart()
    talk.answers += talk.client.drain()
    assert len(talk.closings(running)) == 1
    old = talk.client.read_records()
    assert old.size
    assert talk.client.is_alive
    talk.records = talk.records[:0]
    talk.load(model)
    talk.run(task())
    assert talk.records["sequence"][0] == 0
    assert len(talk.closings(running)) == 1


def test_silence_is_counted_only_while_something_is_open(loaded: Talk) -> None:
    assert loaded.client.silence_s == 0.0
    running = loaded.start(long_task(0))
    assert loaded.client.silence_s < 5.0
    loaded.ask(Cancel(loaded.client.next_id()))
    loaded.closing_of(running)
    assert loaded.client.silence_s == 0.0


def test_a_client_that_closes_while_generating_leaves_nothing(talk: Talk, model: str) -> None:
    talk.load(model, n_ctx=8192)
    running = talk.start(long_task(0))
    talk.client.close()
    talk.listen()
    assert len(talk.closings(running)) == 1
    assert not talk.client.is_alive
    talk.client.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("draftscope")]
    assert not list_shared_memory()


def list_shared_memory() -> list[str]:
    """Names of our shared memory that the system knows: there must never be one."""
    folder = Path("/dev/shm")
    return [path.name for path in folder.glob("*draftscope*")]
