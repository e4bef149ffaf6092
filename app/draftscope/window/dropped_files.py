"""Which of the files that were given to the window it can open, and what to say about the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftscope.engine.errors import ErrorCode, ErrorReport

_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class PickedFile:
    """The model to open, if there is one, and what to tell the user, if there is something."""

    model: Path | None
    problem: ErrorReport | None


def pick_dropped(paths: Sequence[Path]) -> PickedFile:
    """Pick the first GGUF file: one by its first bytes, or by its name, so that damaged ones are told of."""
    if not paths:
        return PickedFile(None, _problem("Nothing was dropped that is a file.", "Drop a GGUF file."))
    models = [path for path in paths if _is_model(path)]
    if not models:
        return PickedFile(None, _why_not(paths[0]))
    if len(paths) > 1:
        hint = "One model is open at a time."
        return PickedFile(models[0], _problem(f"Of {len(paths)} files only {models[0].name} is opened.", hint))
    return PickedFile(models[0], None)


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
        return _problem(f"{path} is a folder.", "Open a GGUF file in it.")
    if path.suffix.lower() == ".dscope":
        return _problem(
            f"{path.name} is a recorded trace, which this version's window cannot show.",
            "'draftscope export' turns it into a Chrome trace.",
        )
    return _problem(f"{path.name} is not a GGUF file.", "Draftscope opens models in the GGUF format.")


def _problem(message: str, hint: str) -> ErrorReport:
    return ErrorReport(ErrorCode.BAD_FILE, message, hint)
