"""RPC servers of llama.cpp: how they are named, and what each is asked before libggml may talk to it.

libggml ends the whole process when a server cannot be reached, is none, or speaks another version, and it waits for
ever for one that is silent. A server serves one program at a time; a second one is let in by the system and hears
nothing. So every server is asked here first, within a time limit, in the first messages of the protocol itself. All
connections stay open until all servers have answered: one that is named in two ways is silent the second time.

Whether a server stays cannot be asked in advance: ``engine/rpc_loss.py`` is about the end of a connection.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from draftscope.engine.errors import EngineError, ErrorCode

TIME_LIMIT_S = 5.0
"""How long all servers together may take to answer."""

_POLL_S = 0.05
_MOST_DEVICES = 64
"""More than any server has; a larger number is no answer of one."""

# Commands of ggml/src/ggml-rpc/ggml-rpc.cpp. A request is the command (1 byte), a size (8 bytes) and so many bytes; a
# response is a size and so many bytes; all little endian. HELLO has kept its number through all versions.
_ALIGNMENT, _MAX_SIZE, _DEVICE_MEMORY, _HELLO, _DEVICE_COUNT = 1, 2, 11, 14, 15
_NO_CAPABILITIES = bytes(24)  # what stands for RDMA in a hello
_LONGEST_HELLO = 256

_START_IT = "Start llama.cpp's RPC server there, or correct the address."
_SAME_VERSION = "Use the RPC server of the llama.cpp that this engine has; 'draftscope doctor' names it."
_ONE_AT_A_TIME = (
    "It serves one program at a time: end the other one that uses it. Name each server once, and see that it is one."
)

Result = TypeVar("Result")


class RpcProtocol(NamedTuple):
    """The version that this libggml speaks: a server's major number must be the same, its minor one not greater."""

    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class RpcDevice:
    """A device of a server; sizes in bytes. ``alignment`` and ``max_bytes`` are those of its buffers."""

    total_bytes: int
    free_bytes: int
    alignment: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class RpcServer:
    """A server that answered: its name as given, the numeric ``endpoint`` for libggml, its version and its devices."""

    name: str
    endpoint: str
    version: str
    devices: tuple[RpcDevice, ...]


def split_names(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas or blanks, unchecked."""
    return tuple(text.replace(",", " ").split())


def why_not_names(text: str) -> str:
    """Why a list of names cannot be used, in a sentence; '' when it can, and for an empty one."""
    for name in split_names(text):
        try:
            parse_name(name)
        except EngineError as error:
            return f"{error.message} {error.hint}"
    return ""


def parse_name(name: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; nothing is resolved.

    Raises:
        EngineError: BAD_SETTINGS, when it is none.
    """
    host, _, port = name.rpartition(":")
    what = ""
    if ":" in host or "[" in host:
        what = f"'{name}' is an IPv6 address; llama.cpp reaches RPC servers by name or IPv4 address only."
    elif not host or any(character.isspace() or not character.isprintable() for character in name):
        what = f"'{name}' does not name an RPC server."
    elif not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        what = f"The port of the RPC server '{name}' is not a number from 1 to 65535."
    if what:
        raise EngineError(ErrorCode.BAD_SETTINGS, what, "Write HOST:PORT, such as 192.168.1.20:50052.")
    return host, int(port)


def ask_servers(
    names: Iterable[str], protocol: RpcProtocol, go_on: Callable[[], bool] = lambda: True, limit_s: float = TIME_LIMIT_S
) -> tuple[RpcServer, ...]:
    """Ask every server for its version and devices; one whose name or address comes twice is asked once.

    Args:
        names: ``HOST:PORT`` each.
        protocol: what this libggml speaks.
        go_on: called some times a second while the servers are waited for; False cancels.
        limit_s: for all of them together.

    Raises:
        EngineError: BAD_SETTINGS (no name of a server), RPC_FAILED (about the first of them that cannot be used),
            CANCELLED.
    """
    wait = _Wait(go_on, time.monotonic() + limit_s)
    places = {name: parse_name(name) for name in names}
    endpoints = wait.for_all(list(places), lambda name: _resolve(name, *places[name]))
    by_endpoint: dict[str, str] = {}
    for name, endpoint in zip(places, endpoints, strict=True):
        by_endpoint.setdefault(endpoint, name)
    talks = {name: _Talk(name, endpoint, protocol, wait) for endpoint, name in by_endpoint.items()}
    try:
        return tuple(wait.for_all(list(talks), lambda name: talks[name].ask()))
    finally:
        for talk in talks.values():
            talk.close()


class _Wait:
    """Does something about every server, each in a thread of its own, until a deadline or a cancel."""

    def __init__(self, go_on: Callable[[], bool], deadline_s: float) -> None:
        self._go_on = go_on
        self._deadline_s = deadline_s

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; never 0, which would mean "do not block" to a socket."""
        return max(0.001, self._deadline_s - time.monotonic())

    def for_all(self, names: Sequence[str], work: Callable[[str], Result]) -> list[Result]:
        """The results in the order of the names; raises what failed first in that order."""
        outcomes: dict[str, Result | Exception] = {}

        def do(name: str) -> None:
            try:
                outcomes[name] = work(name)
            except Exception as error:
                outcomes[name] = error

        threads = [threading.Thread(target=do, args=(name,), name="draftscope-rpc", daemon=True) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and time.monotonic() < self._deadline_s:
                thread.join(min(_POLL_S, self.left_s))
                if not self._go_on():
                    raise EngineError(ErrorCode.CANCELLED, "Loading was cancelled.")
        results = []
        for name in names:
            outcome = outcomes.get(name, _silent(name))
            if isinstance(outcome, Exception):
                raise outcome
            results.append(outcome)
        return results


def _resolve(name: str, host: str, port: int) -> str:
    """The numeric address, so that libggml need not resolve the name, on whose failure it would end the process."""
    try:
        found = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _failed(f"The host of the RPC server {name} has no IPv4 address: {reason}.", "Correct it.") from error
    return f"{found[0][4][0]}:{port}"


class _Talk:
    """A connection to a server. ``close`` may come from another thread, and ends what ``ask`` waits for."""

    def __init__(self, name: str, endpoint: str, protocol: RpcProtocol, wait: _Wait) -> None:
        self._name = name
        self._endpoint = endpoint
        self._protocol = protocol
        self._wait = wait
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def close(self) -> None:
        """Give the server free for libggml."""
        with contextlib.suppress(OSError):  # it was never connected
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def ask(self) -> RpcServer:
        """Say hello, check the version, and ask for the devices. The connection stays open."""
        try:
            self._connect()
            version = self._hello()
            (n_devices,) = self._request(_DEVICE_COUNT, b"", "<I")
            if n_devices > _MOST_DEVICES:
                raise self._not_one()
            devices = tuple(self._device(number) for number in range(n_devices))
        except TimeoutError as error:
            raise _silent(self._name) from error
        except OSError as error:
            raise self._not_one() from error
        if not devices or not any(device.free_bytes or not device.total_bytes for device in devices):
            what = "has no device" if not devices else "has no free memory"
            raise _failed(f"The RPC server {self._name} {what}.", "Choose another, or start it with other devices.")
        return RpcServer(self._name, self._endpoint, version, devices)

    def _connect(self) -> None:
        host, port = parse_name(self._endpoint)
        try:
            self._socket.settimeout(self._wait.left_s)
            self._socket.connect((host, port))
        except TimeoutError:
            raise
        except OSError as error:
            what = f"There is no RPC server at {self._name}: {error.strerror or error}."
            raise _failed(what, _START_IT) from error

    def _hello(self) -> str:
        self._send(_HELLO, _NO_CAPABILITIES)
        (size,) = struct.unpack("<Q", self._receive(8))
        if not 3 <= size <= _LONGEST_HELLO:
            raise self._not_one()
        major, minor, patch = self._receive(size)[:3]
        version, ours = f"{major}.{minor}.{patch}", self._protocol
        if major != ours.major or minor > ours.minor:
            what = f"The RPC server {self._name} speaks version {version} of the protocol; this engine speaks"
            raise _failed(f"{what} {ours.major}.{ours.minor}.", _SAME_VERSION)
        return version

    def _device(self, number: int) -> RpcDevice:
        which = struct.pack("<I", number)
        free, total = self._request(_DEVICE_MEMORY, which, "<QQ")
        (alignment,) = self._request(_ALIGNMENT, which, "<Q")
        (max_bytes,) = self._request(_MAX_SIZE, which, "<Q")
        return RpcDevice(total, free, alignment, max_bytes)

    def _request(self, command: int, data: bytes, layout: str) -> tuple[int, ...]:
        self._send(command, data)
        if self._receive(8) != struct.pack("<Q", struct.calcsize(layout)):
            raise self._not_one()
        return struct.unpack(layout, self._receive(struct.calcsize(layout)))

    def _send(self, command: int, data: bytes) -> None:
        self._socket.settimeout(self._wait.left_s)
        self._socket.sendall(struct.pack("<BQ", command, len(data)) + data)

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._socket.settimeout(self._wait.left_s)
            part = self._socket.recv(size - len(data))
            if not part:
                raise self._not_one()
            data += part
        return data

    def _not_one(self) -> EngineError:
        what = f"What answers at {self._name} is no RPC server of llama.cpp, or one of an older version."
        return _failed(what, _SAME_VERSION)


def _silent(name: str) -> EngineError:
    return _failed(f"The RPC server {name} did not answer in time.", _ONE_AT_A_TIME)


def _failed(message: str, hint: str) -> EngineError:
    return EngineError(ErrorCode.RPC_FAILED, message, hint)
