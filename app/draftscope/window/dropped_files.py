"""Which of the files that were given to the window it can open, and what to say about the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.trace.tracefile.head import is_trace_file

_MAGIC = b"GGUF"
_PAIR = 2


@dataclass(frozen=True, slots=True)
class PickedFile:
    """What to open, if there is something, and what to tell the user, if there is something.

    ``traces``: one to show, or two to compare. At most one of ``model`` and ``traces`` is there.
    """

    model: Path | None
    problem: ErrorReport | None
    traces: tuple[Path, ...] = ()


def pick_dropped(paths: Sequence[Path]) -> PickedFile:
    """Pick the first model or trace: one by its first bytes, or by its name, so that damaged ones are told of."""
    if not paths:
        return PickedFile(None, _problem("Nothing was dropped that is a file.", "Drop a GGUF file or a trace."))
    known = [path for path in paths if _is_model(path) or is_trace(path)]
    if not known:
        return PickedFile(None, _why_not(paths[0]))
    if len(paths) == len(known) == _PAIR and all(map(is_trace, known)):
        return PickedFile(None, None, tuple(known))
    problem = None
    if len(paths) > 1:
        hint = "One model or trace is open at a time; two traces are compared."
        problem = _problem(f"Of {len(paths)} files only {known[0].name} is opened.", hint)
    if is_trace(known[0]):
        return PickedFile(None, problem, (known[0],))
    return PickedFile(known[0], problem)


def is_trace(path: Path) -> bool:
    """Whether a file is a recorded trace, or is named as one."""
    return path.is_file() and (path.suffix.lower() == ".dscope" or is_trace_file(path))


def _is_model(path: Path) -> bool:
    if path.suffix.lower() == ".gguf" and path.is_file():
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _why_not(path: Path) -> ErrorReport:
    if not path.exists():
        return _problem(f"There is no file {path}.", "It may have been moved or renamed.")
    if path.is_dir():
        return _problem(f"{path} is a folder.", "Open a GGUF file or a trace in it.")
    return _problem(f"{path.name} is neither a GGUF file nor a trace.", "Draftscope opens GGUF models and its traces.")


def _problem(message: str, hint: str) -> ErrorReport:
    return ErrorReport(ErrorCode.BAD_FILE, message, hint)
