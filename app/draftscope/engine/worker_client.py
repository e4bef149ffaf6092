"""An engine in a child process."""

from __future__ import annotations

from draftscope.engine.client_base import ClientBase
from draftscope.engine.codec import ProtocolError, decode, encode
from draftscope.engine.engine_log import log_lines
from draftscope.engine.protocol import Command, CommandId, Shutdown
from draftscope.engine.ring import DEFAULT_CAPACITY
from draftscope.engine.shared_memory import SharedMemory
from draftscope.engine.trace_memory import TraceMemory, trace_memory_bytes
from draftscope.engine.worker_process import WorkerProcess

CLOSE_LIMIT_S = 2.0
"""How long ``close`` waits for the engine to end by itself before it is killed."""


class WorkerClient(ClientBase):
    """``client.Client`` on a process of its own, which is there when the constructor returns.

    Args:
        backend: name of the backend, see ``backends``.
        capacity: records that the ring holds; a power of two.

    Raises:
        EngineError: ENGINE_DIED, when the process cannot be started.
    """

    def __init__(self, backend: str = "native", capacity: int = DEFAULT_CAPACITY) -> None:
        super().__init__()
        self._backend = backend
        self._capacity = capacity
        self._process: WorkerProcess | None = None
        self._start()

    def _start(self) -> None:
        memory = SharedMemory(trace_memory_bytes(self._capacity))
        rings = TraceMemory(memoryview(memory.buffer), self._capacity)
        try:
            process = WorkerProcess(memory, self._backend, self._on_line, self._on_text, self._on_end)
        finally:
            memory.close_descriptors()
        self._rings.add(rings.ring, rings.arrays)
        self._log_tail.clear()
        self._is_closed = self._is_end_expected = False
        self._process = process
        process.begin()

    @property
    def is_alive(self) -> bool:
        """See ``Client.is_alive``."""
        return self._process is not None and self._process.is_alive

    @property
    def pid(self) -> int:
        """Process id of the engine; of the last one when it ended."""
        return self._process.pid if self._process is not None else -1

    def _transmit(self, command: Command) -> None:
        if self._process is not None:
            self._process.write(encode(command))

    def restart(self) -> None:
        """See ``Client.restart``; the old process is killed."""
        self._end_process(limit_s=0.0)
        self._start()

    def close(self) -> None:
        """See ``Client.close``."""
        self._end_process(limit_s=CLOSE_LIMIT_S)

    def _end_process(self, limit_s: float) -> None:
        process = self._process
        if process is None:
            return
        self._is_closed = True
        if limit_s and process.is_alive:
            process.write(encode(Shutdown(CommandId(-1))))
            process.wait(limit_s)
        process.kill()
        process.join()
        self._fail_open_as_ended()
        self._process = None

    # ---- threads of the process

    def _on_line(self, line: bytes) -> None:
        try:
            message = decode(line)
        except ProtocolError:
            self._on_text(line.decode("utf-8", "replace"))  # printed by something in the process before ours was set up
        else:
            if not isinstance(message, Command):
                self._take(message)

    def _on_text(self, text: str) -> None:
        for line in log_lines("warning", text):
            self._take(line)

    def _on_end(self, signal: int, exit_code: int) -> None:
        self._note_death(signal, exit_code)
