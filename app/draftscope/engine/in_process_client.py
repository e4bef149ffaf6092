"""An engine in a thread of the caller's process."""

from __future__ import annotations

import logging
import mmap
import threading
import time

from draftscope.engine.backends import BackendMaker
from draftscope.engine.client_base import ClientBase
from draftscope.engine.codec import encode
from draftscope.engine.engine_log import forwarded_log
from draftscope.engine.host import Host
from draftscope.engine.protocol import Answer, Command, CommandId, LogLine, Shutdown
from draftscope.engine.ring import DEFAULT_CAPACITY, RingWriter
from draftscope.engine.trace_memory import TraceMemory, trace_memory_bytes

_log = logging.getLogger(__name__)

CLOSE_LIMIT_S = 20.0
"""How long ``close`` waits for the engine to come to the end of what it is doing."""


class InProcessClient(ClientBase):
    """``client.Client`` in this process. Where llama.cpp aborts, the caller ends too.

    Args:
        make_backend: called in the engine's thread, with the ring's memory.
        capacity: records that the ring holds; a power of two.
    """

    def __init__(self, make_backend: BackendMaker, capacity: int = DEFAULT_CAPACITY) -> None:
        super().__init__()
        self._make_backend = make_backend
        self._capacity = capacity
        self._start()

    def _start(self) -> None:
        memory = memoryview(mmap.mmap(-1, trace_memory_bytes(self._capacity)))
        rings = TraceMemory(memory, self._capacity)
        self._rings.add(rings.ring, rings.arrays)
        self._log_tail.clear()
        self._is_closed = self._is_end_expected = False
        self._engine = _EngineThread(self, memory, self._make_backend)
        self._engine.begin()

    @property
    def is_alive(self) -> bool:
        """See ``Client.is_alive``."""
        return self._engine.is_alive

    def _transmit(self, command: Command) -> None:
        self._engine.host.receive(encode(command))

    def restart(self) -> None:
        """See ``Client.restart``. An engine that does not come to an end is left behind in its thread."""
        self._end_engine()
        self._start()

    def close(self) -> None:
        """See ``Client.close``."""
        self._end_engine()

    def _end_engine(self) -> None:
        self._is_closed = True
        self._engine.end(CLOSE_LIMIT_S)
        self._fail_open_as_ended()

    def take_from(self, engine: _EngineThread, answer: Answer) -> None:
        """An answer of an engine thread; those of one that was left behind are dropped."""
        if self._engine is engine:
            self._take(answer)

    def note_end(self, engine: _EngineThread) -> None:
        """An engine thread has ended."""
        if self._engine is engine:
            self._note_death(signal=0, exit_code=1)


class _EngineThread:
    def __init__(self, client: InProcessClient, memory: memoryview, make_backend: BackendMaker) -> None:
        self._client = client
        writer = RingWriter(memory)
        self.host = Host(lambda: make_backend(memory), lambda answer: client.take_from(self, answer), writer.beat)
        self._thread = threading.Thread(target=self._work, name="draftscope-engine", daemon=True)
        self._is_over = False

    def begin(self) -> None:
        """Let it run; whoever made it must know it by now."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return not self._is_over

    def end(self, limit_s: float) -> None:
        """Shut the engine down and wait for its thread."""
        if not self._is_over:
            self.host.receive(encode(Shutdown(CommandId(-1))))
        self._thread.join(limit_s)
        if self._thread.is_alive():
            _log.error("The engine did not end within %g s and is left behind.", limit_s)

    def _work(self) -> None:
        with forwarded_log(lambda answer: self._client.take_from(self, answer)):
            try:
                self.host.run()
            except BaseException as error:  # the engine's death, which in a process of its own would be that process's
                text = f"The engine's thread ended: {type(error).__name__}: {error}"
                self._client.take_from(self, LogLine("error", text, time.monotonic_ns()))
        self._is_over = True
        self._client.note_end(self)
