"""What a server is asked before libggml may connect to it, and every way in which one can be wrong."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.rpc import RpcProtocol, ask_servers, parse_name, split_names, why_not_names
from draftscope.engine.rpc_loss import describe_loss, lost_servers
from tests.models.rpc_server import RpcServerProcess

OURS = RpcProtocol(7, 0)
ABORT = ("ggml_backend_sched: x", "/tmp/x/ggml-rpc.cpp:512: Remote RPC server crashed or returned malformed response")


@contextlib.contextmanager
def answering(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something that listens, and does ``talk`` with everybody who comes; its ``HOST:PORT``."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    talk(connection)
                    while connection.recv(4096):
                        pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def refusal(*names: str, limit_s: float = 5.0) -> EngineError:
    with pytest.raises(EngineError) as caught:
        ask_servers(names, OURS, limit_s=limit_s)
    return caught.value


def test_that_a_server_tells_its_version_and_devices(rpc_server: RpcServerProcess) -> None:
    (server,) = ask_servers([rpc_server.name], OURS)
    assert (server.name, server.endpoint, server.version) == (rpc_server.name, rpc_server.name, "7.0.0")
    (device,) = server.devices
    assert device.total_bytes >= device.free_bytes > 0
    assert device.alignment > 0
    assert device.max_bytes > 0


def test_that_a_server_named_in_two_ways_for_one_address_is_asked_once(rpc_server: RpcServerProcess) -> None:
    twice = [rpc_server.name, f"localhost:{rpc_server.port}", rpc_server.name]
    assert [server.name for server in ask_servers(twice, OURS)] == [rpc_server.name]


def test_that_a_server_with_two_addresses_is_found_out_when_both_are_named() -> None:
    server = RpcServerProcess(is_everywhere=True)
    try:
        error = refusal(f"127.0.0.1:{server.port}", f"127.0.0.2:{server.port}", limit_s=1.0)
        assert error.message.endswith("did not answer in time.")
        assert "Name each server once" in error.hint
        assert len(ask_servers([f"127.0.0.2:{server.port}"], OURS)) == 1
    finally:
        server.close()


def test_that_a_server_is_free_for_the_next_one_after_it_was_asked(rpc_server: RpcServerProcess) -> None:
    started_s = time.monotonic()
    for _ in range(20):
        ask_servers([rpc_server.name], OURS)
    assert time.monotonic() - started_s < 4.0  # an abandoned connection would take 5 s


def test_that_a_server_that_serves_another_program_is_named_in_time(rpc_server: RpcServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", rpc_server.port)):
        time.sleep(0.1)
        started_s = time.monotonic()
        error = refusal(rpc_server.name, limit_s=0.5)
        assert time.monotonic() - started_s < 2.0
    assert error.code is ErrorCode.RPC_FAILED
    assert error.message == f"The RPC server {rpc_server.name} did not answer in time."
    assert "one program at a time" in error.hint


def test_that_a_refused_connection_says_where_nothing_listens(rpc_server: RpcServerProcess) -> None:
    rpc_server.kill()
    error = refusal(rpc_server.name)
    assert error.code is ErrorCode.RPC_FAILED
    assert error.message == f"There is no RPC server at {rpc_server.name}: Connection refused."
    assert error.hint


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 8, b"", struct.pack("<Q", 1 << 60), b"\x03"])
def test_that_what_answers_something_else_is_no_server(sent: bytes) -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(64)
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)

    with answering(talk) as name:
        error = refusal(name)
    assert error.code is ErrorCode.RPC_FAILED
    assert f"What answers at {name} is no RPC server" in error.message


@pytest.mark.parametrize(("size", "version"), [(28, (8, 0, 0)), (28, (6, 4, 0)), (28, (7, 1, 2)), (3, (2, 0, 0))])
def test_that_another_version_of_the_protocol_is_named(size: int, version: tuple[int, int, int]) -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(64)
        connection.sendall(struct.pack("<Q3B", size, *version) + bytes(size - 3))

    with answering(talk) as name:
        error = refusal(name)
    assert "speaks version {}.{}.{} of the protocol; this engine speaks 7.0.".format(*version) in error.message


@pytest.mark.parametrize(("devices", "what"), [((), "has no device"), (((0, 8),), "has no free memory")])
def test_that_a_server_without_a_usable_device_is_refused(devices: tuple[tuple[int, int], ...], what: str) -> None:
    answers = [struct.pack("<Q3B", 28, 7, 0, 0) + bytes(25), struct.pack("<QI", 4, len(devices))]
    for free, total in devices:
        answers += [struct.pack("<QQQ", 16, free, total), struct.pack("<QQ", 8, 32), struct.pack("<QQ", 8, 1 << 40)]

    def talk(connection: socket.socket) -> None:
        for answer in answers:
            connection.recv(64)
            connection.sendall(answer)

    with answering(talk) as name:
        assert what in refusal(name).message


def test_that_waiting_for_a_server_can_be_cancelled() -> None:
    with answering(lambda connection: None) as name:
        started_s = time.monotonic()
        with pytest.raises(EngineError) as caught:
            ask_servers([name], OURS, lambda: time.monotonic() - started_s < 0.2, limit_s=30)
    assert caught.value.code is ErrorCode.CANCELLED
    assert time.monotonic() - started_s < 1.0


def test_that_the_first_of_several_that_fails_is_told(rpc_server: RpcServerProcess) -> None:
    assert "127.0.0.1:1:" in refusal(rpc_server.name, "127.0.0.1:1", "127.0.0.1:2").message


@pytest.mark.parametrize(
    "name",
    [
        "",
        "host",
        "host:",
        ":50052",
        "host:0",
        "host:65536",
        "host:1x",
        "host:-1",
        "ho st:1",
        "[::1]:50052",
        "::1",
        "a:²",
    ],
)
def test_that_text_that_names_no_server_is_refused(name: str) -> None:
    with pytest.raises(EngineError) as caught:
        parse_name(name)
    assert caught.value.code is ErrorCode.BAD_SETTINGS
    assert "HOST:PORT" in caught.value.hint


def test_that_a_list_of_names_is_split_and_checked() -> None:
    assert split_names(" a:1, b:2  c:3,") == ("a:1", "b:2", "c:3")
    assert parse_name("gpu-box.local:50052") == ("gpu-box.local", 50052)
    assert why_not_names("") == why_not_names("a:1, b:2") == ""
    assert "'b' does not name an RPC server" in why_not_names("a:1, b")


def test_that_a_host_that_does_not_exist_is_named() -> None:
    assert "gone.invalid:50052" in refusal("gone.invalid:50052").message


def test_that_the_lost_one_of_several_servers_is_found(rpc_server: RpcServerProcess) -> None:
    gone = "127.0.0.1:1"
    assert lost_servers(ABORT, (rpc_server.name, gone)) == (gone,)
    assert lost_servers(ABORT, (gone,)) == (gone,)
    assert lost_servers(("out of memory",), (gone,)) == ()
    assert lost_servers(ABORT, ()) == ()


def test_that_all_are_named_when_each_lets_somebody_in(rpc_server: RpcServerProcess) -> None:
    other = RpcServerProcess()
    try:
        both = (rpc_server.name, other.name)
        assert lost_servers(ABORT, both) == both
        assert f"one of the RPC servers {both[0]}, {both[1]} was lost." in describe_loss(both, "").message
    finally:
        other.close()
