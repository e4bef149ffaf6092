"""The engine in a child process: its death in every situation, and the end of its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from draftscope.engine.client import WorkerClient
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Kind
from draftscope.engine.protocol import (
    Cancel,
    Cancelled,
    CommandId,
    ContextSettings,
    EngineDied,
    Failed,
    Load,
    Loaded,
    LogLine,
    ModelSettings,
    Submit,
    Unload,
)
from draftscope.engine.spawning import python_command
from tests.engine.talk import Talk, long_task, task

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")


@pytest.fixture
def make_talk() -> Iterator[Callable[..., Talk]]:
    clients: list[WorkerClient] = []

    def make(backend: str = "fake", **rest: int) -> Talk:
        clients.append(WorkerClient(backend, **rest))
        return Talk(clients[-1])

    yield make
    for client in clients:
        client.close()


def pid_of(talk: Talk) -> int:
    assert isinstance(talk.client, WorkerClient)
    return talk.client.pid


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def load_of(talk: Talk, path: str) -> Load:
    return Load(talk.client.next_id(), ModelSettings(path), ContextSettings())


@pytest.mark.parametrize("backend", ["fake", "native"])
def test_a_kill_in_the_middle_of_a_generation_is_noticed_within_a_second(
    make_talk: Callable[..., Talk], demo_model: Path, backend: str
) -> None:
    talk = make_talk(backend)
    talk.load(str(demo_model), n_ctx=8192)
    running = talk.start(long_task(0), long_task(1))
    talk.until(lambda: bool((talk.records["kind"] == Kind.ROUND).any()))
    n_before = len(talk.records)
    time.sleep(0.1)  # what it records meanwhile, nobody has read when it dies
    killed_s = time.monotonic()
    os.kill(pid_of(talk), signal.SIGKILL)
    talk.until(lambda: bool(talk.of(EngineDied)))
    assert time.monotonic() - killed_s < 1.0
    (death,) = talk.of(EngineDied)
    assert (death.signal, death.exit_code) == (signal.SIGKILL, 128 + signal.SIGKILL)
    assert "in round" in death.last_operation
    closing = talk.closing_of(running)
    assert isinstance(closing, Failed)
    assert closing.error.code is ErrorCode.ENGINE_DIED
    assert talk.answers.index(death) < talk.answers.index(closing)
    talk.until(lambda: len(talk.records) > n_before)
    assert not talk.client.is_alive
    assert talk.client.silence_s == 0.0


def test_a_dead_engine_refuses_at_once_and_a_restarted_one_works(make_talk: Callable[..., Talk]) -> None:
    talk = make_talk("fake:0")
    talk.load("m")
    os.kill(pid_of(talk), signal.SIGKILL)
    talk.until(lambda: not talk.client.is_alive)
    talk.client.send(Unload(CommandId(77)))
    talk.listen()
    (refused,) = talk.closings(CommandId(77))
    assert isinstance(refused, Failed)
    old = pid_of(talk)
    talk.client.restart()
    assert pid_of(talk) != old
    talk.load("m")
    talk.run(task())
    assert len(talk.of(EngineDied)) == 1


@pytest.mark.parametrize("path", ["fake:die-in-load"])
def test_a_death_in_a_load_says_so(make_talk: Callable[..., Talk], path: str) -> None:
    talk = make_talk("fake:0")
    closing = talk.ask(load_of(talk, path))
    assert isinstance(closing, Failed)
    (death,) = talk.of(EngineDied)
    assert death.last_operation == "loading a model"
    assert death.log_tail[-1] == "The scripted engine was told to die."


def test_a_death_by_a_prompt_repeats_the_last_words(make_talk: Callable[..., Talk]) -> None:
    talk = make_talk("fake:0")
    talk.load("m")
    talk.ask(Submit(talk.client.next_id(), (task(text="fake:die"),)))
    (death,) = talk.of(EngineDied)
    assert death.signal == signal.SIGKILL
    assert death.log_tail[-1] == "The scripted engine was told to die."
    assert death.last_operation == "verifying drafts"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV])
def test_the_signal_that_ended_it_is_named(make_talk: Callable[..., Talk], number: signal.Signals) -> None:
    talk = make_talk()
    talk.load("m")
    os.kill(pid_of(talk), number)
    talk.until(lambda: bool(talk.of(EngineDied)))
    assert talk.of(EngineDied)[0].signal == number


def test_an_engine_that_does_not_answer_is_silent_and_can_be_started_again(make_talk: Callable[..., Talk]) -> None:
    talk = make_talk()
    talk.load("m")
    running = Submit(talk.client.next_id(), (task(text="fake:hang"),))
    talk.client.send(running)
    talk.until(lambda: talk.client.silence_s > 0.3)
    os.kill(pid_of(talk), signal.SIGSTOP)
    talk.client.restart()
    assert isinstance(talk.closing_of(running.id), Failed)
    assert talk.of(EngineDied) == []
    talk.load("m")


def test_a_stopped_engine_does_not_block_whoever_sends(make_talk: Callable[..., Talk]) -> None:
    talk = make_talk()
    talk.load("m")
    os.kill(pid_of(talk), signal.SIGSTOP)
    started_s = time.monotonic()
    for _ in range(50):
        talk.client.send(Submit(talk.client.next_id(), (task(text="word " * 20_000),)))
    assert time.monotonic() - started_s < 2.0


def test_many_restarts_leave_no_descriptor(make_talk: Callable[..., Talk]) -> None:
    talk = make_talk("fake:0")
    talk.client.restart()
    n_before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        talk.client.restart()
        talk.load("m")
    assert len(list(Path("/proc/self/fd").iterdir())) <= n_before


def test_200_loads_raced_by_cancels_are_each_closed_once(make_talk: Callable[..., Talk]) -> None:
    talk = make_talk("fake:0")
    loads = []
    for number in range(200):
        loads.append(load_of(talk, "m"))
        talk.client.send(loads[-1])
        if number % 3:
            time.sleep(0.0005 * (number % 3))
        talk.client.send(Cancel(talk.client.next_id()))
    talk.load("m")
    closings = [talk.closings(load.id) for load in loads]
    assert [len(of_one) for of_one in closings] == [1] * 200
    assert {type(of_one[0]) for of_one in closings} <= {Loaded, Cancelled}
    assert Cancelled in {type(of_one[0]) for of_one in closings}
    talk.run(task())


def test_records_that_nobody_reads_are_dropped_and_counted(make_talk: Callable[..., Talk]) -> None:
    talk = make_talk("fake:0", capacity=64)
    talk.load("m")
    submit = Submit(talk.client.next_id(), (task(max_tokens=100),))
    talk.client.send(submit)
    while not talk.closings(submit.id):
        talk.answers += talk.client.drain()
        time.sleep(0.01)
    records = talk.client.read_records()
    assert len(records) == 64
    assert talk.client.n_dropped > 0
    talk.client.restart()
    assert talk.client.n_dropped > 0


PARENT = """
import sys, time
from draftscope.engine.client import WorkerClient
from draftscope.engine.protocol import *
client = WorkerClient("fake")
client.send(Load(client.next_id(), ModelSettings("m"), ContextSettings()))
client.send(Submit(client.next_id(), (SlotTask(0, Prompt(text="a"), max_tokens=10000, ignore_eos=True),)))
while not len(client.read_records()):
    client.wait(0.1)
print(client.pid, flush=True)
{end}
"""


def run_parent(end: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{PARENT.format(end=end)}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    "end",
    ["time.sleep(60)", "sys.exit(0)", "import os; os.abort()", "raise RuntimeError"],
    ids=["killed", "exit", "abort", "exception"],
)
def test_a_parent_that_ends_while_generating_takes_its_engine_along(end: str) -> None:
    parent = run_parent(end)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    if "sleep" in end:
        parent.kill()
    _, errors = parent.communicate(timeout=20)
    deadline_s = time.monotonic() + 5
    while is_running(pid):
        assert time.monotonic() < deadline_s, "the engine outlived its parent"
        time.sleep(0.02)
    assert b"resource_tracker" not in errors
    assert b"Fatal Python error: _enter_buffered_busy" not in errors


def test_what_the_engine_prints_is_in_the_log_and_not_among_the_answers(make_talk: Callable[..., Talk]) -> None:
    talk = make_talk("nonsense")
    talk.until(lambda: bool(talk.of(EngineDied)))
    assert talk.of(EngineDied)[0].exit_code == 1
    assert "There is no engine named 'nonsense'." in "\n".join(line.text for line in talk.of(LogLine))


def test_an_interpreter_that_cannot_be_started_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(EngineError) as caught:
        WorkerClient("fake")
    assert caught.value.code is ErrorCode.ENGINE_DIED
    assert python_command("m")[0] == "/nowhere/python"


def test_a_restart_that_fails_leaves_a_client_that_can_be_tried_again(
    make_talk: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = make_talk("fake:0")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(EngineError):
            talk.client.restart()
    assert not talk.client.is_alive
    assert isinstance(talk.ask(Unload(talk.client.next_id())), Failed)
    talk.client.restart()
    talk.load("m")
