"""The child process of ``WorkerClient``: starts it, carries lines both ways, and notices its end.

Standard input carries commands and standard output answers, one JSON message a line; standard error is log text. Four
threads: the *guard* starts the process and waits for it (the system tells it of the end at once, whatever the pipes
do), the *writer* keeps ``write`` from ever blocking, and two readers.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import IO

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.shared_memory import SharedMemory
from draftscope.engine.spawning import child_environment, python_command

_LAST_WORDS_LIMIT_S = 0.3
"""How long the end of a process waits for each of its two pipes to be read: a grandchild could hold one open."""


class WorkerProcess:
    """One engine process; ``begin`` lets its answers come.

    Args:
        memory: the ring's.
        backend: name of the backend.
        on_line: takes a line of its standard output, in a thread of this object.
        on_text: takes a line of its standard error, in another.
        on_end: told the signal (0: none) and the exit code, after the last line.

    Raises:
        EngineError: ENGINE_DIED, when the system does not start it.
    """

    def __init__(
        self,
        memory: SharedMemory,
        backend: str,
        on_line: Callable[[bytes], None],
        on_text: Callable[[str], None],
        on_end: Callable[[int, int], None],
    ) -> None:
        self._on_line = on_line
        self._on_text = on_text
        self._on_end = on_end
        self._to_write: SimpleQueue[bytes | None] = SimpleQueue()
        self._is_started = threading.Event()
        self._may_begin = threading.Event()
        self._is_ended = threading.Event()
        self._failure: OSError | None = None
        self._command = python_command("draftscope.engine.worker", memory.address, backend)
        self._descriptors = memory.descriptors
        self._guard = self._thread(self._watch, "guard")
        self._is_started.wait()
        if self._failure is not None:
            self._guard.join()
            what = f"The engine process could not be started: {self._failure}."
            raise EngineError(ErrorCode.ENGINE_DIED, what, "Close other programs and try again.") from self._failure

    def begin(self) -> None:
        """Let answers come. Until then the owner of this object may not know it yet."""
        self._may_begin.set()

    @property
    def is_alive(self) -> bool:
        """Whether it was not noticed to have ended."""
        return not self._is_ended.is_set()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def write(self, line: bytes) -> None:
        """Send a line; never blocks. To a process that has ended: goes nowhere."""
        self._to_write.put(line)

    def wait(self, limit_s: float) -> bool:
        """Wait for its end, at most so long."""
        return self._is_ended.wait(limit_s)

    def kill(self) -> None:
        """End it now; harmless when it has ended."""
        self._process.kill()

    def join(self) -> None:
        """Wait until it is gone and ``on_end`` has returned."""
        self._guard.join()

    # ---- threads

    def _thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"draftscope-{name}", daemon=True)
        thread.start()
        return thread

    def _watch(self) -> None:
        # Started here, since on Linux the child is killed when the *thread* that started it ends.
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                pass_fds=self._descriptors,
                env=child_environment(),
                start_new_session=True,  # Ctrl-C in a terminal is for the caller, which cancels
            )
        except OSError as error:
            self._failure = error
            self._is_ended.set()
            return
        finally:
            self._is_started.set()
        self._may_begin.wait()
        others = [self._thread(self._write, "writer"), self._thread(self._read_answers, "answers")]
        others.append(self._thread(self._read_log, "log"))
        status = self._process.wait()
        for reader in others[1:]:
            reader.join(_LAST_WORDS_LIMIT_S)
        self._is_ended.set()
        self._to_write.put(None)
        others[0].join()
        self._on_end(max(0, -status), status if status >= 0 else 128 - status)

    def _write(self) -> None:
        pipe = _of(self._process.stdin)
        while (line := self._to_write.get()) is not None:
            try:
                pipe.write(line + b"\n")
                pipe.flush()
            except (OSError, ValueError):
                break  # it has ended, which the guard notices
        _close(pipe)

    def _read_answers(self) -> None:
        with _of(self._process.stdout) as pipe:
            for line in pipe:
                self._on_line(line)

    def _read_log(self) -> None:
        with _of(self._process.stderr) as pipe:
            for line in pipe:
                self._on_text(line.decode("utf-8", "replace"))


def _of(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # each was asked for
    return pipe


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # what was left in its buffer has no reader any more
        pipe.close()
