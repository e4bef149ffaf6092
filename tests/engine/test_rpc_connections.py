"""The watch over connections to servers: it ends the dead ones, and lets alone those that only take their time."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import pytest

from draftscope.engine import rpc_connections
from draftscope.engine.rpc_connections import ServerWatch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="connections are watched on Linux only")


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A connection to something that listens and never answers."""
    monkeypatch.setattr(rpc_connections, "_INTERVAL_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as mine:
        mine.settimeout(2.5)
        yield mine


def endpoint_of(connection: socket.socket) -> str:
    return "{}:{}".format(*connection.getpeername())


def test_that_a_server_that_takes_its_time_keeps_its_connection(connection: socket.socket) -> None:
    watch = ServerWatch()
    watch.begin([endpoint_of(connection)])
    connection.sendall(b"compute")
    with pytest.raises(TimeoutError):
        connection.recv(1)
    watch.end()


def test_that_a_connection_that_acknowledges_nothing_is_ended(
    connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_connections, "_MOST_RETRANSMITS", 0)  # as if it had sent again that often
    watch = ServerWatch()
    watch.begin([endpoint_of(connection)])
    assert connection.recv(1) == b""
    watch.end()


def test_that_other_connections_are_not_watched(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_connections, "_MOST_RETRANSMITS", 0)
    watch = ServerWatch()
    watch.begin(["127.0.0.1:1"])
    with pytest.raises(TimeoutError):
        connection.recv(1)
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
    watch.end()


def test_that_ending_the_watch_takes_no_time_and_may_be_repeated(connection: socket.socket) -> None:
    watch = ServerWatch()
    watch.begin([endpoint_of(connection)])
    watch.begin([endpoint_of(connection)])
    started_s = time.monotonic()
    watch.end()
    watch.end()
    assert time.monotonic() - started_s < 0.5
