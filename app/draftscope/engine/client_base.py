"""What the clients have in common: all that does not depend on where the engine runs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.events import Records
from draftscope.engine.mailbox import Mailbox, RingChain
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import Answer, Command, CommandId, EngineDied, Load, LogLine, Shutdown
from draftscope.engine.rpc_loss import lost_servers

LOG_TAIL = 20
"""Log lines that ``EngineDied`` repeats."""

_START_AGAIN = "Start the engine again."


class ClientBase(ABC):
    """Half of ``client.Client``; see there for what the methods promise."""

    def __init__(self) -> None:
        self._mailbox = Mailbox()
        self._rings = RingChain()
        self._log_tail: deque[str] = deque(maxlen=LOG_TAIL)
        self._is_closed = False
        self._is_end_expected = False
        self._rpc_servers: tuple[str, ...] = ()
        self._rpc_servers_before: tuple[str, ...] = ()

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the engine takes commands."""

    @abstractmethod
    def _transmit(self, command: Command) -> None:
        """Carry a command to the engine, without blocking."""

    def next_id(self) -> CommandId:
        """See ``Client.next_id``."""
        return self._mailbox.next_id()

    def send(self, command: Command) -> None:
        """See ``Client.send``."""
        self._mailbox.open(command.id)
        if self._is_closed or not self.is_alive:
            self._fail_open_as_ended()
            return
        self._is_end_expected |= isinstance(command, Shutdown)
        if isinstance(command, Load):  # gives up what is loaded, on the servers before, when it is carried out
            self._rpc_servers_before, self._rpc_servers = self._rpc_servers, command.model.rpc_servers
        self._transmit(command)
        if not self.is_alive:  # it ended in between, and may have been noted before the command was
            self._fail_open_as_ended()

    def drain(self) -> list[Answer]:
        """See ``Client.drain``."""
        return self._mailbox.drain()

    def wait(self, timeout_s: float) -> bool:
        """See ``Client.wait``."""
        return self._mailbox.wait(timeout_s, lambda: self._rings.has_records)

    def read_records(self) -> Records:
        """See ``Client.read_records``."""
        return self._rings.read()

    def read_arrays(self) -> list[SideArray]:
        """See ``Client.read_arrays``."""
        return self._rings.read_arrays()

    @property
    def n_dropped(self) -> int:
        """See ``Client.n_dropped``."""
        return self._rings.n_dropped

    @property
    def n_arrays_dropped(self) -> int:
        """See ``Client.n_arrays_dropped``."""
        return self._rings.n_arrays_dropped

    @property
    def silence_s(self) -> float:
        """See ``Client.silence_s``."""
        since_ns = self._mailbox.busy_since_ns
        if since_ns is None or not self.is_alive:
            return 0.0
        return max(0, time.monotonic_ns() - max(since_ns, self._rings.heartbeat_ns)) / 1e9

    @property
    def operation(self) -> str:
        """See ``Client.operation``."""
        return self._rings.operation

    # ---- for the threads of the engine

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, LogLine):
            self._log_tail.append(answer.text)
        self._mailbox.put(answer)

    def _note_death(self, signal: int, exit_code: int) -> None:
        """The engine ended. Unasked: say how; in any case close what is open."""
        if not (self._is_closed or self._is_end_expected):
            operation, log_tail = self._rings.operation, tuple(self._log_tail)
            lost = lost_servers(log_tail, tuple(dict.fromkeys((*self._rpc_servers, *self._rpc_servers_before))))
            self._mailbox.put(EngineDied(signal, exit_code, operation, log_tail, lost))
        self._fail_open_as_ended()

    def _fail_open_as_ended(self) -> None:
        what = "The engine has ended." if not self._is_closed else "The engine was ended before it was done with this."
        self._mailbox.fail_open(ErrorReport(ErrorCode.ENGINE_DIED, what, _START_AGAIN))
