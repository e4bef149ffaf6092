"""Asks the native engine what it is and has, in a child process, so that a driver that aborts takes nothing with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.protocol import as_plain

TIME_LIMIT_S = 60.0
_TAIL_LINES = 5


def ask_engine() -> dict[str, Any]:
    """The fields of ``native.EngineFacts`` as JSON types.

    Raises:
        EngineError: the engine cannot be loaded, its process ended, or it did not answer in time. What the process
            printed at its end is in the notes.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryFile() as log:
        process = context.Process(target=_answer, args=(sender,), daemon=True)
        with _stderr_to(log.fileno()):
            process.start()
        sender.close()
        try:
            return _receive(receiver)
        except EOFError:
            process.join()
            raise _ended(process.exitcode or 0, log) from None
        finally:
            receiver.close()
            process.kill()
            process.join()
            process.close()


@contextlib.contextmanager
def _stderr_to(target: int) -> Iterator[None]:
    """Inside, file descriptor 2 is another file, which a child that is started there inherits."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(target, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _answer(sender: Connection) -> None:
    try:
        from draftscope.engine.native import engine_facts

        sender.send(("facts", as_plain(engine_facts())))
    except EngineError as error:
        sender.send(("error", as_plain(error.report())))


def _receive(receiver: Connection) -> dict[str, Any]:
    if not receiver.poll(TIME_LIMIT_S):
        raise EngineError(
            ErrorCode.ENGINE_DIED,
            f"The engine did not answer within {TIME_LIMIT_S:.0f} s.",
            "A device driver may hang; try again without that device.",
        )
    kind, plain = receiver.recv()
    if kind == "error":
        raise EngineError(ErrorCode(plain["code"]), plain["message"], plain["hint"])
    facts: dict[str, Any] = plain
    return facts


def _ended(exit_code: int, log: Any) -> EngineError:
    how = f"with exit code {exit_code}"
    if exit_code < 0:
        how = f"by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    error = EngineError(
        ErrorCode.ENGINE_DIED,
        f"The process that asked the engine for its devices ended {how}.",
        "A device driver or a damaged installation is the usual cause; reinstall llama-cpp-python.",
    )
    log.seek(0)
    for line in log.read().decode("utf-8", "replace").splitlines()[-_TAIL_LINES:]:
        error.add_note(line)
    return error
