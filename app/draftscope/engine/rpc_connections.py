"""The servers of a load, in the process whose libggml connects to them: asked before, and watched from then on."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
from collections.abc import Callable, Sequence

from draftscope.engine.backend import Progress
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.rpc import RpcProtocol, RpcServer, ask_servers

_IDLE_S, _INTERVAL_S, _N_PROBES = 10, 5, 3

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


def weights_progress(endpoints: Sequence[str], progress: Progress) -> Callable[[float], bool]:
    """What libllama tells the progress of a load to; when it first does, it is connected to all servers."""
    is_watched = not endpoints

    def tell(fraction: float) -> bool:
        nonlocal is_watched
        if not is_watched:
            is_watched = True
            keep_alive(endpoints)
        return progress(fraction, "weights")

    return tell


def keep_alive(endpoints: Sequence[str]) -> None:
    """Let the system notice within half a minute when the machine of a server is gone: libggml waits for ever.

    On Linux: its sockets are found among the descriptors of this process.
    """
    if sys.platform != "linux":
        return
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208 (an iterator would stay open)
        with contextlib.suppress(OSError):  # it was closed meanwhile, or is not connected
            if stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
                with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                    _watch(connection, endpoints)


def _watch(connection: socket.socket, endpoints: Sequence[str]) -> None:
    if connection.family != socket.AF_INET or "{}:{}".format(*connection.getpeername()) not in endpoints:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _N_PROBES)
