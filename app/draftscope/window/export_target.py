"""Where an export goes: its default name, and why a name will not do. No widgets."""

from __future__ import annotations

from pathlib import Path

from draftscope.trace.export.formats import FORMATS, Format, files_of
from draftscope.trace.export.target import check_folder


def stem_of(name: str) -> str:
    """The name without what a format adds to it."""
    endings = [suffix for one in FORMATS for suffix in one.suffixes]
    endings += [f"-{one.id}" for one in FORMATS if one.is_folder]
    for ending in endings:
        if name.endswith(ending) and name != ending:
            return name.removesuffix(ending)
    return name


def named_for(path: Path, chosen: Format) -> Path:
    """The path with the ending that a format's exports have."""
    ending = f"-{chosen.id}" if chosen.is_folder else chosen.suffixes[0]
    return path.with_name(f"{stem_of(path.name)}{ending}")


def why_not_target(text: str, chosen: Format) -> str:
    """Why nothing can be written there in a format, or ''."""
    if not text:
        return "Name a folder." if chosen.is_folder else "Name a file."
    path = Path(text).expanduser()
    if not path.parent.is_dir():
        return f"The folder {path.parent} does not exist."
    if chosen.is_folder:
        return _why_not_folder(path, chosen)
    if not path.name.endswith(chosen.suffixes):
        return f"The name must end in {' or '.join(chosen.suffixes)}."
    return f"{path} is a folder." if path.is_dir() else ""


def _why_not_folder(path: Path, chosen: Format) -> str:
    try:
        check_folder(path, files_of(chosen))
    except NotADirectoryError:
        return f"{path} is a file; {chosen.title} is written into a folder."
    except OSError as error:
        return f"{error.strerror}. Name another folder."
    return ""


def what_happens(text: str, chosen: Format) -> str:
    """What an export will do to what is there."""
    path = Path(text).expanduser()
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return ""
    if chosen.is_folder:
        return "There is a folder of this name: the files of an earlier export in it will be replaced."
    return "There is a file of this name; it will be replaced."
