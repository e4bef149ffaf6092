"""A server that goes away takes the engine's process with it: who was lost is told, and what was recorded is kept."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftscope.engine.client import WorkerClient
from draftscope.engine.errors import ErrorCode
from draftscope.engine.protocol import (
    Cancel,
    CheckpointMode,
    ContextSettings,
    Done,
    EngineDied,
    Failed,
    Finished,
    Load,
    ModelSettings,
    Submit,
)
from tests.engine.talk import Talk, long_task, task
from tests.models.rpc_server import RpcServerProcess


@pytest.fixture
def talk() -> Iterator[Talk]:
    client = WorkerClient("native")
    yield Talk(client)
    client.close()


@contextlib.contextmanager
def relay(server: RpcServerProcess, breaks_after: int) -> Iterator[str]:
    """Carries every connection to a server, and drops one that has sent so many bytes; its ``HOST:PORT``."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(source: socket.socket, target: socket.socket) -> None:
        n_left = breaks_after
        with contextlib.suppress(OSError):
            while n_left > 0 and (data := source.recv(min(65536, n_left))):
                target.sendall(data)
                n_left -= len(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as client, socket.create_connection(("127.0.0.1", server.port)) as back:
                    answers = threading.Thread(target=carry, args=(back, client))
                    answers.start()
                    carry(client, back)
                    answers.join()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def wait_for_death(talk: Talk, since_s: float) -> EngineDied:
    talk.until(lambda: bool(talk.of(EngineDied)))
    assert time.monotonic() - since_s < 1.0
    return talk.of(EngineDied)[-1]


@pytest.mark.parametrize("mode", list(CheckpointMode))
def test_that_a_server_killed_in_a_run_is_named_and_the_records_are_kept(
    talk: Talk, demo_model: Path, rpc_server: RpcServerProcess, mode: CheckpointMode
) -> None:
    talk.load(str(demo_model), rpc_servers=(rpc_server.name,), n_ctx=8192, checkpoint=mode)
    running = talk.start(long_task(0), long_task(1))
    talk.until(lambda: len(talk.records) > 200)
    n_before = len(talk.records)
    rpc_server.kill()
    death = wait_for_death(talk, time.monotonic())
    assert death.lost_servers == (rpc_server.name,)
    assert death.signal == signal.SIGABRT
    assert "in round" in death.last_operation
    closing = talk.closing_of(running)
    assert isinstance(closing, Failed)
    assert closing.error.code is ErrorCode.ENGINE_DIED
    assert len(talk.records) >= n_before


def test_that_a_new_engine_loads_once_the_server_is_back(
    talk: Talk, demo_model: Path, rpc_server: RpcServerProcess
) -> None:
    servers = (rpc_server.name,)
    before = talk.load(str(demo_model), rpc_servers=servers)
    expected = talk.run(task()).results[0].tokens
    rpc_server.restart()
    talk.client.send(Submit(talk.client.next_id(), (task(),)))
    assert wait_for_death(talk, time.monotonic()).lost_servers == servers
    talk.client.restart()
    assert talk.load(str(demo_model), rpc_servers=servers).devices == before.devices
    assert talk.run(task()).results[0].tokens == expected


def test_that_the_lost_one_of_two_servers_is_named(talk: Talk, demo_model: Path, rpc_server: RpcServerProcess) -> None:
    other = RpcServerProcess()
    try:
        talk.load(str(demo_model), rpc_servers=(rpc_server.name, other.name))
        talk.start(long_task())
        other.kill()
        assert wait_for_death(talk, time.monotonic()).lost_servers == (other.name,)
    finally:
        other.close()


def test_that_a_server_lost_while_idle_is_named_when_another_model_is_loaded(
    talk: Talk, demo_model: Path, rpc_server: RpcServerProcess
) -> None:
    talk.load(str(demo_model), rpc_servers=(rpc_server.name,))
    rpc_server.kill()
    time.sleep(0.1)  # the system has noticed
    closing = talk.ask(Load(talk.client.next_id(), ModelSettings(str(demo_model)), ContextSettings()))
    assert isinstance(closing, Failed)
    assert talk.of(EngineDied)[0].lost_servers == (rpc_server.name,)


def test_that_a_connection_that_breaks_while_weights_are_sent_is_named(
    talk: Talk, demo_model: Path, rpc_server: RpcServerProcess
) -> None:
    with relay(rpc_server, breaks_after=1_000_000) as name:
        load = Load(talk.client.next_id(), ModelSettings(str(demo_model), rpc_servers=(name,)), ContextSettings())
        assert isinstance(talk.ask(load), Failed)
        death = talk.of(EngineDied)[0]
    assert (death.lost_servers, death.last_operation) == ((name,), "loading a model")


def test_that_another_death_names_no_server(talk: Talk, demo_model: Path, rpc_server: RpcServerProcess) -> None:
    talk.load(str(demo_model), rpc_servers=(rpc_server.name,))
    talk.start(long_task())
    assert isinstance(talk.client, WorkerClient)
    os.kill(talk.client.pid, signal.SIGKILL)
    assert wait_for_death(talk, time.monotonic()).lost_servers == ()


def test_that_a_server_that_hangs_leaves_an_engine_that_can_be_replaced(
    talk: Talk, demo_model: Path, rpc_server: RpcServerProcess
) -> None:
    talk.load(str(demo_model), rpc_servers=(rpc_server.name,))
    running = talk.start(long_task())
    rpc_server.process.send_signal(signal.SIGSTOP)
    talk.until(lambda: talk.client.silence_s > 0.5)
    talk.client.restart()
    assert isinstance(talk.closing_of(running), Failed)
    started_s = time.monotonic()
    refused = talk.ask(
        Load(talk.client.next_id(), ModelSettings(str(demo_model), rpc_servers=(rpc_server.name,)), ContextSettings())
    )
    assert isinstance(refused, Failed)
    assert "did not answer in time" in refused.error.message
    assert 4 < time.monotonic() - started_s < 8
    rpc_server.process.send_signal(signal.SIGCONT)
    talk.load(str(demo_model), rpc_servers=(rpc_server.name,))


def test_that_a_cancel_is_answered_at_once_and_ends_the_run_within_a_step(
    talk: Talk, demo_model: Path, rpc_server: RpcServerProcess
) -> None:
    talk.load(str(demo_model), rpc_servers=(rpc_server.name,), n_ctx=8192)
    running = talk.start(long_task(0), long_task(1))
    started_s = time.monotonic()
    assert isinstance(talk.ask(Cancel(talk.client.next_id())), Done)
    assert time.monotonic() - started_s < 0.5
    closing = talk.closing_of(running)
    assert time.monotonic() - started_s < 1.0
    assert isinstance(closing, Finished)
    assert {result.stop for result in closing.results} == {"cancelled"}
