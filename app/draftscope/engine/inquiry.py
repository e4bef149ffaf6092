"""Asks the native engine what it is and has, in a child process, so that a driver that aborts takes nothing with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

from draftscope.engine.codec import as_plain
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.spawning import child_environment, python_command, take_answer_channel

TIME_LIMIT_S = 60.0
_CHILD = "draftscope.engine.inquiry"
_TAIL_LINES = 5


def ask_engine(child: str = _CHILD) -> dict[str, Any]:
    """The fields of ``native.EngineFacts`` as JSON types.

    Args:
        child: the module whose ``main`` answers, in a process of its own.

    Raises:
        EngineError: the engine cannot be loaded, its process ended, or it did not answer in time. What the process
            printed at its end is in the notes.
    """
    try:
        done = subprocess.run(
            python_command(child), capture_output=True, timeout=TIME_LIMIT_S, env=child_environment(), check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            ErrorCode.ENGINE_DIED,
            f"The engine did not answer within {TIME_LIMIT_S:.0f} s.",
            "A device driver may hang; try again without that device.",
        ) from error
    if done.returncode != 0:
        raise _ended(done.returncode, done.stderr.decode("utf-8", "replace"))
    answer = json.loads(done.stdout)
    if "error" in answer:
        report = answer["error"]
        raise EngineError(ErrorCode(report["code"]), report["message"], report["hint"])
    facts: dict[str, Any] = answer["facts"]
    return facts


def main(arguments: list[str]) -> None:
    """In the child: write the facts, or why there are none, as JSON."""
    assert not arguments
    channel = take_answer_channel()
    try:
        from draftscope.engine.library import engine_facts

        answer = {"facts": as_plain(engine_facts())}
    except EngineError as error:
        answer = {"error": as_plain(error.report())}
    with os.fdopen(channel, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)


def _ended(exit_code: int, printed: str) -> EngineError:
    how = f"with exit code {exit_code}"
    if exit_code < 0:
        how = f"by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    error = EngineError(
        ErrorCode.ENGINE_DIED,
        f"The process that asked the engine for its devices ended {how}.",
        "A device driver or a damaged installation is the usual cause; reinstall llama-cpp-python.",
    )
    for line in printed.splitlines()[-_TAIL_LINES:]:
        error.add_note(line)
    return error
