"""The servers of a load, in the process whose libggml connects to them: asked before, and watched from then on."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator, Sequence

from draftscope.engine.backend import Progress
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.rpc import RpcProtocol, RpcServer, ask_servers

_log = logging.getLogger(__name__)

_IDLE_S, _INTERVAL_S, _N_PROBES = 10, 5, 3
_N_RETRANSMITS = 2
"""Offset in ``struct tcp_info`` of how often the oldest data was sent again in vain; the waits between double."""
_MOST_RETRANSMITS = 7
"""Reached 14 s after the cable was cut, in a local network with 0.1 ms to the server."""

_used: dict[str, tuple[tuple[int, int], ...]] = {}
"""Buffer facts of the devices by endpoint. libggml asks for them once in the life of the process."""


def ask_before_load(names: Sequence[str], protocol: RpcProtocol, progress: Progress) -> list[str]:
    """Ask the servers (see ``rpc.ask_servers``), and return their endpoints for libggml.

    Raises:
        EngineError: as ``rpc.ask_servers``; RPC_FAILED, too, where this libggml has no RPC backend, and for a server
            that was started again with other devices.
    """
    if not names:
        return []
    if protocol == (0, 0):
        raise EngineError(
            ErrorCode.RPC_FAILED,
            "This llama-cpp-python was built without RPC, so no model can be loaded on RPC servers.",
            "Install one that was built with CMAKE_ARGS=-DGGML_RPC=ON; 'make' in a checkout does.",
        )
    servers = ask_servers(names, protocol, lambda: progress(0.0, "servers"))
    for server in servers:
        _check_unchanged(server)
    return [server.endpoint for server in servers]


def _check_unchanged(server: RpcServer) -> None:
    facts = tuple((device.alignment, device.max_bytes) for device in server.devices)
    if _used.setdefault(server.endpoint, facts) != facts:
        raise EngineError(
            ErrorCode.RPC_FAILED,
            f"The RPC server {server.name} was started again with other devices, and this engine still has the old.",
            "Restart the engine, then load again.",
        )


class ServerWatch:
    """Ends the connection to a server whose machine is gone, which libggml would wait for until the system gives up.

    That takes the system two hours where nothing is on its way, and a quarter of an hour otherwise; here it is half a
    minute. Once its connection has ended, libggml ends the process: see ``engine/rpc_loss.py``. A server that is alive
    and takes its time is left alone. On Linux; elsewhere nothing is watched.
    """

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, endpoints: Sequence[str]) -> None:
        """Watch the connections that there are to these servers, until ``end``; does nothing when it does already."""
        if endpoints and self._thread is None and sys.platform == "linux":
            self._is_over.clear()
            self._thread = threading.Thread(target=self._watch, args=(tuple(endpoints),), daemon=True)
            self._thread.name = "draftscope-rpc-watch"
            self._thread.start()

    def end(self) -> None:
        """Watch no more; harmless when nothing is watched."""
        if self._thread is not None:
            self._is_over.set()
            self._thread.join()
            self._thread = None

    def _watch(self, endpoints: tuple[str, ...]) -> None:
        for connection in _connections(endpoints):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _N_PROBES)
        while not self._is_over.wait(_INTERVAL_S):
            for connection in _connections(endpoints):
                # Data on its way puts the probes off. TCP_USER_TIMEOUT would also end a busy server's connection.
                if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[_N_RETRANSMITS] >= _MOST_RETRANSMITS:
                    _log.error("%s:%d does not acknowledge what it is sent.", *connection.getpeername())
                    connection.shutdown(socket.SHUT_RDWR)


def _connections(endpoints: Sequence[str]) -> Iterator[socket.socket]:
    """The sockets of this process that are connected to one of the endpoints; each is only borrowed."""
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208 (an iterator would stay open)
        with contextlib.suppress(OSError):  # it was closed meanwhile, or is not connected
            if stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
                with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                    if connection.family == socket.AF_INET and "{}:{}".format(*connection.getpeername()) in endpoints:
                        yield connection
