"""The way to an engine: commands go in, answers and records come out, and nobody waits who does not want to.

``WorkerClient`` runs the engine in a child process, which an abort inside llama.cpp may end without harm to the caller;
``InProcessClient`` runs it in a thread of the caller, for debuggers and tests. Both obey ``Client``:

- every command sent gets exactly one closing answer, if need be ``Failed`` with code ENGINE_DIED;
- when the engine ends unasked, ``EngineDied`` comes within a second, then those failures; what it had recorded stays
  readable, also after ``restart``, where the records of the old engine come before those of the new one;
- one thread uses a client; another one may do the reading of records and arrays. Only ``wait``, ``restart`` and
  ``close`` may block.
"""

from __future__ import annotations

from typing import Protocol

from draftscope.engine.backends import backend_maker
from draftscope.engine.events import Records
from draftscope.engine.in_process_client import InProcessClient
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import Answer, Command, CommandId
from draftscope.engine.worker_client import WorkerClient

__all__ = ["Client", "InProcessClient", "WorkerClient", "make_client"]


class Client(Protocol):
    """See the module."""

    def next_id(self) -> CommandId:
        """An id for the next command."""
        ...

    def send(self, command: Command) -> None:
        """Give a command to the engine. To an engine that is gone: its ``Failed`` is there at once."""
        ...

    def drain(self) -> list[Answer]:
        """The answers that came since the last call, in order; never blocks."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Block until there is something to drain or read; False when the time is over first."""
        ...

    def read_records(self) -> Records:
        """The records that came since the last call, of one engine; never blocks. The caller owns the copy."""
        ...

    def read_arrays(self) -> list[SideArray]:
        """What probes measured since the last call: their results and side arrays; never blocks."""
        ...

    @property
    def n_dropped(self) -> int:
        """Records lost because nobody read them in time, over all engines of this client."""
        ...

    @property
    def n_arrays_dropped(self) -> int:
        """Side arrays lost for the same reason."""
        ...

    @property
    def silence_s(self) -> float:
        """Seconds since the engine's last sign of life, while a command is open; else 0."""
        ...

    @property
    def operation(self) -> str:
        """What the engine is at, or was at its end: such as ``verifying drafts in round 12``; '' when idle."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether the engine takes commands."""
        ...

    def restart(self) -> None:
        """End the engine, whatever state it is in, and start a new one with nothing loaded.

        Raises:
            EngineError: ENGINE_DIED, when none can be started.
        """
        ...

    def close(self) -> None:
        """End the engine and everything that belongs to it; harmless when repeated."""
        ...


def make_client(backend: str = "native", in_process: bool = False) -> Client:
    """Start an engine and return the way to it. ``backend``: see ``backends``.

    Raises:
        EngineError: ENGINE_DIED, when it cannot be started. What the engine lacks is told by the first Load.
    """
    if in_process:
        return InProcessClient(backend_maker(backend, in_process=True))
    return WorkerClient(backend)
