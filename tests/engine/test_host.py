"""The host: one closing message a command, whatever the backend does and whatever comes in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from draftscope.engine.backend import ChatTemplate, Progress
from draftscope.engine.client import InProcessClient
from draftscope.engine.codec import encode
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.host import Host
from draftscope.engine.protocol import (
    ANY_SLOT,
    Answer,
    Cancel,
    Cancelled,
    ChatMessage,
    CommandId,
    Configure,
    ContextSettings,
    Done,
    Failed,
    Finished,
    Load,
    Loaded,
    LogLine,
    ModelSettings,
    Prompt,
    SlotTask,
    Submit,
    Unload,
)
from tests.engine.scripted_backend import ScriptedBackend
from tests.engine.talk import Talk, task

CHAT = SlotTask(0, Prompt(messages=(ChatMessage("user", "hello there"),)))


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend()


@pytest.fixture
def talk(backend: ScriptedBackend) -> Iterator[Talk]:
    client = InProcessClient(lambda _memory: backend)
    yield Talk(client)
    client.close()


@pytest.fixture
def loaded(talk: Talk, backend: ScriptedBackend) -> Talk:
    talk.load("m", n_slots=4)
    backend.calls.clear()
    return talk


def load_of(talk: Talk) -> Load:
    return Load(talk.client.next_id(), ModelSettings("m"), ContextSettings())


def code_of(closing: object) -> ErrorCode:
    assert isinstance(closing, Failed), closing
    return closing.error.code


def log_of(talk: Talk) -> str:
    return "\n".join(line.text for line in talk.of(LogLine))


# ---- loading


def test_a_load_that_breaks_is_internal_with_its_traceback_in_the_log(talk: Talk, backend: ScriptedBackend) -> None:
    backend.fail["load"] = RuntimeError("broken on purpose")
    assert code_of(talk.ask(load_of(talk))) is ErrorCode.INTERNAL
    assert "Traceback" in log_of(talk)
    assert "RuntimeError: broken on purpose" in log_of(talk)
    assert backend.calls[-1] == "unload"
    backend.fail.clear()
    talk.load("m")


def test_a_load_is_cancelled_from_within(talk: Talk, backend: ScriptedBackend) -> None:
    inside = threading.Event()

    def wait_for_the_cancel(progress: Progress) -> None:
        inside.set()
        while progress(0.5, "weights"):
            pass
        raise EngineError(ErrorCode.CANCELLED, "Loading was cancelled.")

    backend.on_load = wait_for_the_cancel
    load = load_of(talk)
    talk.client.send(load)
    assert inside.wait(10)
    assert isinstance(talk.ask(Cancel(talk.client.next_id())), Done)
    assert isinstance(talk.closing_of(load.id), Cancelled)
    assert code_of(talk.ask(Submit(talk.client.next_id(), (task(),)))) is ErrorCode.NOT_LOADED


def test_a_cancel_that_the_backend_did_not_see_still_leaves_nothing_loaded(
    talk: Talk, backend: ScriptedBackend
) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def look_away(_progress: Progress) -> None:
        inside.set()
        go_on.wait(10)

    backend.on_load = look_away
    load = load_of(talk)
    talk.client.send(load)
    assert inside.wait(10)
    talk.ask(Cancel(talk.client.next_id()))
    go_on.set()
    assert isinstance(talk.closing_of(load.id), Cancelled)
    assert backend.calls[-1] == "unload"


def test_a_cancel_does_not_reach_a_load_that_comes_after_it(talk: Talk) -> None:
    talk.client.send(Cancel(talk.client.next_id()))
    assert isinstance(talk.ask(load_of(talk)), Loaded)


def test_a_backend_that_cannot_be_made_is_asked_for_again_by_the_next_load(backend: ScriptedBackend) -> None:
    makes: list[Callable[[memoryview], ScriptedBackend]] = []
    missing = EngineError(ErrorCode.ENGINE_MISSING, "llama-cpp-python is not installed.", "Install it.")

    def make(memory: memoryview) -> ScriptedBackend:
        if not makes:
            raise missing
        return makes[0](memory)

    client = InProcessClient(make)
    talk = Talk(client)
    assert code_of(talk.ask(load_of(talk))) is ErrorCode.ENGINE_MISSING
    assert code_of(talk.ask(Submit(client.next_id(), (task(),)))) is ErrorCode.NOT_LOADED
    makes.append(lambda _memory: backend)
    assert isinstance(talk.ask(load_of(talk)), Loaded)
    client.close()


def test_contexts_that_the_backend_refuses_leave_the_model_loaded(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.fail["configure"] = EngineError(ErrorCode.OUT_OF_MEMORY, "The contexts do not fit.", "Use fewer slots.")
    assert code_of(loaded.ask(Configure(loaded.client.next_id(), ContextSettings()))) is ErrorCode.OUT_OF_MEMORY
    backend.fail.clear()
    assert isinstance(loaded.ask(Configure(loaded.client.next_id(), ContextSettings())), Loaded)


def test_an_unload_that_breaks_is_done_all_the_same(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.fail["unload"] = RuntimeError("broken on purpose")
    assert isinstance(loaded.ask(Unload(loaded.client.next_id())), Done)
    assert "broken on purpose" in log_of(loaded)


# ---- generating


def test_a_text_is_tokenized_with_its_special_tokens(loaded: Talk, backend: ScriptedBackend) -> None:
    loaded.run(task(text="one two"))
    assert backend.calls[0] == "tokenize 'one two' True True"


def test_every_prompt_is_tokenized_before_any_task_is_submitted(loaded: Talk, backend: ScriptedBackend) -> None:
    loaded.run(task(0, "one"), task(1, "two"))
    assert [call.split()[0] for call in backend.calls[:4]] == ["tokenize", "tokenize", "submit", "submit"]


def test_a_tokenizer_that_refuses_starts_nothing(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.fail["tokenize"] = EngineError(ErrorCode.UNSUPPORTED_MODEL, "The model has no tokenizer.")
    tasks = (SlotTask(0, Prompt(tokens=(1, 2))), task(1))
    assert code_of(loaded.ask(Submit(loaded.client.next_id(), tasks))) is ErrorCode.UNSUPPORTED_MODEL
    assert not [call for call in backend.calls if call.startswith("submit")]


def test_a_task_refused_by_the_backend_takes_those_before_it_along(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.fail["submit 1"] = EngineError(ErrorCode.OUT_OF_MEMORY, "No memory for slot 1.")
    backend.n_steps = 100
    tasks = (task(0), task(1), task(2))
    assert code_of(loaded.ask(Submit(loaded.client.next_id(), tasks))) is ErrorCode.OUT_OF_MEMORY
    assert "submit 2" not in backend.calls
    assert backend.calls.count("step") == 1
    backend.fail.clear()
    backend.n_steps = 2
    assert len(loaded.run(task(0), task(1)).results) == 2


@pytest.mark.parametrize("error", [EngineError(ErrorCode.DECODE_FAILED, "It did not work."), RuntimeError("broken")])
def test_a_step_that_fails_closes_every_submit_and_the_host_lives_on(
    loaded: Talk, backend: ScriptedBackend, error: Exception
) -> None:
    failing = threading.Event()

    def fail_once(name: str) -> None:
        if name == "step" and failing.is_set():
            failing.clear()
            raise error

    backend.on_call, backend.n_steps = fail_once, 10**9
    first, second = (Submit(loaded.client.next_id(), (task(slot),)) for slot in range(2))
    loaded.client.send(first)
    loaded.client.send(second)
    failing.set()
    expected = error.code if isinstance(error, EngineError) else ErrorCode.INTERNAL
    assert code_of(loaded.closing_of(first.id)) is expected
    backend.n_steps = 2
    closing = loaded.closing_of(second.id)
    assert isinstance(closing, Finished) or code_of(closing) is expected
    assert len(loaded.run(task(0), task(1)).results) == 2


def test_a_step_that_always_fails_gives_the_model_up(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.fail["step"] = RuntimeError("broken for good")
    assert code_of(loaded.ask(Submit(loaded.client.next_id(), (task(),)))) is ErrorCode.INTERNAL
    assert code_of(loaded.ask(Submit(loaded.client.next_id(), (task(),)))) is ErrorCode.NOT_LOADED
    backend.fail.clear()
    loaded.load("m")
    loaded.run(task())


def test_a_result_that_gets_lost_does_not_leave_its_submit_open(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.loses_results = True
    assert code_of(loaded.ask(Submit(loaded.client.next_id(), (task(3),)))) is ErrorCode.INTERNAL


def test_a_submit_cancelled_before_its_turn_finishes_without_a_token(loaded: Talk, backend: ScriptedBackend) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "configure":
            inside.set()
            go_on.wait(10)

    backend.on_call = hold
    loaded.client.send(Configure(loaded.client.next_id(), ContextSettings(n_slots=2)))
    assert inside.wait(10)
    submit = Submit(loaded.client.next_id(), (task(0), task(1)))
    loaded.client.send(submit)
    loaded.ask(Cancel(loaded.client.next_id()))
    go_on.set()
    finished = loaded.closing_of(submit.id)
    assert isinstance(finished, Finished)
    assert [(result.stop, result.tokens) for result in finished.results] == [("cancelled", ())] * 2
    assert not [call for call in backend.calls if call.startswith("submit")]


def test_a_cancel_that_meets_a_submit_on_its_way_in_is_not_lost(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.n_steps = 10**9
    for _ in range(100):
        submit = Submit(loaded.client.next_id(), (task(0), task(1)))
        loaded.client.send(submit)
        loaded.client.send(Cancel(loaded.client.next_id()))
        finished = loaded.closing_of(submit.id)
        assert isinstance(finished, Finished)
        assert {result.stop for result in finished.results} == {"cancelled"}


def test_half_a_submit_cancelled_on_its_way_in_runs_the_other_half(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.n_steps = 5
    for _ in range(50):
        submit = Submit(loaded.client.next_id(), (task(0), task(1)))
        loaded.client.send(submit)
        loaded.client.send(Cancel(loaded.client.next_id(), slots=(0,)))
        finished = loaded.closing_of(submit.id)
        assert isinstance(finished, Finished)
        assert finished.results[1].stop == "max_tokens"


def test_a_cancel_that_breaks_is_done_all_the_same(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.fail["cancel"] = RuntimeError("broken on purpose")
    backend.n_steps = 50
    submit = Submit(loaded.client.next_id(), (task(),))
    loaded.client.send(submit)
    assert isinstance(loaded.ask(Cancel(loaded.client.next_id())), Done)
    assert isinstance(loaded.closing_of(submit.id), Finished)


# ---- conversations


def test_tasks_for_any_slot_have_each_its_own_conversation_and_grammar(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.template = ChatTemplate("{{ messages[0].content }}", "", "")
    tasks = tuple(
        SlotTask(ANY_SLOT, Prompt(messages=(ChatMessage("user", text),)), json_schema=f'{{"type": "{kind}"}}')
        for text, kind in (("one two three", "integer"), ("one", "boolean"))
    )
    loaded.run(*tasks)
    assert [call for call in backend.calls if call.startswith("tokenize")] == [
        "tokenize 'one two three' True True",
        "tokenize 'one' True True",
    ]
    assert [task.slot for task in backend.tasks] == [0, 1]
    first, second = (task.grammar for task in backend.tasks)
    assert "integral-part" in first
    assert "true" in second
    assert "true" not in first


def test_messages_without_a_template_are_refused(loaded: Talk) -> None:
    assert code_of(loaded.ask(Submit(loaded.client.next_id(), (CHAT,)))) is ErrorCode.BAD_PROMPT


def test_a_template_that_begins_the_sequence_itself_gets_no_second_begin(
    loaded: Talk, backend: ScriptedBackend
) -> None:
    for source, add_special in (("{{ bos_token }}hi", "False"), ("hi", "True")):
        backend.template = ChatTemplate(source, "<s>", "</s>")
        loaded.run(CHAT)
        tokenized = next(call for call in backend.calls if call.startswith("tokenize"))
        assert tokenized.endswith(f"True {add_special}")
        backend.calls.clear()


def test_other_slots_go_on_while_a_template_runs(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.n_steps = 10**9
    running = Submit(loaded.client.next_id(), (task(1),))
    loaded.client.send(running)
    backend.template = ChatTemplate("{{ messages[0].content }}", "", "")
    chat = Submit(loaded.client.next_id(), (CHAT,))
    loaded.client.send(chat)
    loaded.until(lambda: "submit 0" in backend.calls)
    between = backend.calls[backend.calls.index("submit 1") : backend.calls.index("submit 0")]
    assert between.count("step") > 10
    loaded.ask(Cancel(loaded.client.next_id()))
    assert isinstance(loaded.closing_of(running.id), Finished)
    assert isinstance(loaded.closing_of(chat.id), Finished)


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}"


def test_a_template_without_end_is_cancelled(loaded: Talk, backend: ScriptedBackend) -> None:
    backend.template = ChatTemplate(ENDLESS, "", "")
    chat = Submit(loaded.client.next_id(), (CHAT,))
    loaded.client.send(chat)
    loaded.listen(0.3)
    loaded.ask(Cancel(loaded.client.next_id()))
    finished = loaded.closing_of(chat.id)
    assert isinstance(finished, Finished)
    assert finished.results[0].stop == "cancelled"
    backend.template = ChatTemplate("hi", "", "")
    loaded.run(CHAT)


# ---- messages that are none


@pytest.fixture
def host(backend: ScriptedBackend) -> Iterator[tuple[Host, list[Answer]]]:
    answers: list[Answer] = []
    host = Host(lambda: backend, answers.append, lambda: None)
    thread = threading.Thread(target=host.run)
    thread.start()
    yield host, answers
    host.receive(b'{"type": "Shutdown", "id": 999}')
    thread.join(10)
    assert not thread.is_alive()
    assert answers[-1] == Done(CommandId(999))


@pytest.mark.parametrize(
    ("data", "command"),
    [
        (b'{"type": "Fly", "id": 4}', 4),
        (b'{"id": 5}', 5),
        (b'{"type": "Done", "command": 1, "id": 6}', 6),
        (b'{"type": "Load", "id": 7, "model": {}, "context": {}}', 7),
        (b'{"type": "Submit", "id": 8, "tasks": [{"slot": "first"}]}', 8),
    ],
)
def test_what_is_no_command_is_refused_by_its_id(host: tuple[Host, list[Answer]], data: bytes, command: int) -> None:
    host[0].receive(data)
    (answer,) = host[1]
    assert isinstance(answer, Failed)
    assert (answer.command, answer.error.code) == (command, ErrorCode.PROTOCOL)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b'{"type": "Fly"}', b'{"id": "x"}', b'{"type": "Done", "command": 1}']
)
def test_what_has_no_id_is_not_answered(host: tuple[Host, list[Answer]], data: bytes) -> None:
    host[0].receive(data)
    assert host[1] == []


def test_a_second_shutdown_is_closed_too(backend: ScriptedBackend) -> None:
    answers: list[Answer] = []
    host = Host(lambda: backend, answers.append, lambda: None)
    for number in (1, 2):
        host.receive(b'{"type": "Shutdown", "id": %d}' % number)
    host.receive(encode(Unload(CommandId(3))))
    host.run()
    closings = [answer for answer in answers if isinstance(answer, Done | Failed)]
    assert sorted(closing.command for closing in closings) == [1, 2, 3]
    assert isinstance(closings[-1], Done)


def test_what_waits_behind_a_shutdown_or_before_it_is_closed(backend: ScriptedBackend) -> None:
    answers: list[Answer] = []
    host = Host(lambda: backend, answers.append, lambda: None)
    load = Load(CommandId(1), ModelSettings("m"), ContextSettings())
    host.receive(encode(load))
    host.receive(encode(Submit(CommandId(2), (task(0),))))
    host.receive(encode(replace(load, id=CommandId(3))))
    host.receive(b'{"type": "Shutdown", "id": 4}')
    host.run()
    closings = [answer for answer in answers if isinstance(answer, Loaded | Cancelled | Failed | Finished | Done)]
    assert [closing.command for closing in closings] == [1, 2, 3, 4]
