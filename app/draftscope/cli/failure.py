"""How a command ends: exit codes, and the one way in which an error is told on stderr and in ``--json``."""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import dataclass
from enum import IntEnum

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.trace.errors import TraceError


class ExitCode(IntEnum):
    """Exit codes; stable, since scripts test for them."""

    DONE = 0
    RUN_FAILED = 1
    WRONG_USE = 2
    BAD_INPUT = 3
    ENGINE_DIED = 4
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class UsageError(Exception):
    """The command line asks for something that does not exist or does not fit together; maps to exit code 2."""

    def __init__(self, message: str, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail


class InputError(Exception):
    """A file that the user named cannot be used; maps to exit code 3."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RunError(Exception):
    """What was asked for could not be done to the end, such as writing what there is; maps to exit code 1."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it is told: exit code, stable code word, one sentence, what to do, and detail for a person."""

    exit_code: ExitCode
    code: str
    message: str
    hint: str = ""
    detail: str = ""


_EXIT_OF_CODE = {
    ErrorCode.BAD_FILE: ExitCode.BAD_INPUT,
    ErrorCode.BAD_STATE: ExitCode.BAD_INPUT,
    ErrorCode.UNSUPPORTED_MODEL: ExitCode.BAD_INPUT,
    ErrorCode.BAD_SETTINGS: ExitCode.WRONG_USE,
    ErrorCode.BAD_GRAMMAR: ExitCode.WRONG_USE,
    ErrorCode.BAD_PROMPT: ExitCode.WRONG_USE,
    ErrorCode.ENGINE_DIED: ExitCode.ENGINE_DIED,
    ErrorCode.CANCELLED: ExitCode.INTERRUPTED,
}


def failure_of(error: BaseException) -> Failure:
    """What to tell about an exception. One that nothing expects becomes ``internal``, with its traceback as detail."""
    match error:
        case UsageError():
            return Failure(ExitCode.WRONG_USE, "wrong_use", error.message, error.hint, error.detail)
        case RunError():
            return Failure(ExitCode.RUN_FAILED, "run_failed", error.message, error.hint)
        case InputError():
            return Failure(ExitCode.BAD_INPUT, ErrorCode.BAD_FILE, error.message, error.hint)
        case EngineError():
            exit_code = _EXIT_OF_CODE.get(error.code, ExitCode.RUN_FAILED)
            return Failure(exit_code, error.code, error.message, error.hint, "\n".join(getattr(error, "__notes__", ())))
        case TraceError():
            return Failure(ExitCode.RUN_FAILED, "trace_failed", str(error))
        case KeyboardInterrupt():
            return Failure(ExitCode.INTERRUPTED, ErrorCode.CANCELLED, "Interrupted.")
        case OSError():
            place = f" ({error.filename})" if error.filename else ""
            return Failure(ExitCode.RUN_FAILED, "os_error", f"The system refused: {error.strerror or error}{place}.")
    message = f"Draftscope hit an error of its own: {type(error).__name__}: {error}."
    detail = "".join(traceback.format_exception(error))
    return Failure(ExitCode.RUN_FAILED, ErrorCode.INTERNAL, message, "Please report it with the lines below.", detail)


def tell(failure: Failure, *, as_json: bool, in_one_line: bool = False) -> int:
    """Print a failure (the sentence first on stderr, and the object on stdout when asked) and return its exit code.

    ``in_one_line``: for commands whose output is an object a line.
    """
    lines = [f"draftscope: {failure.message}"]
    if failure.hint:
        lines.append(f"  {failure.hint}")
    if failure.detail:
        lines.append(failure.detail.rstrip("\n"))
    print("\n".join(lines), file=sys.stderr)
    if as_json:
        error = {"code": str(failure.code), "message": failure.message, "hint": failure.hint}
        print(json.dumps({"error": error}, indent=None if in_one_line else 2))
    return int(failure.exit_code)
