"""Files and folders that appear under their name when they are whole: a failed or cancelled export leaves nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` when the block ends well, and is removed otherwise.

    Raises:
        OSError: it cannot be written, or ``path`` is a folder.
    """
    path = path.resolve()
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as device:  # a pipe or a device cannot be replaced
            yield device
        return
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(path: Path, names: Collection[str]) -> Iterator[Path]:
    """A folder to write files of these names into; they come into ``path`` when the block ends well.

    A folder that is there already may hold files of these names only, an earlier export: others' files are never
    touched.

    Raises:
        OSError: it cannot be written, or ``path`` is a file.
        FileExistsError: the folder holds other files.
    """
    path = path.resolve()
    check_folder(path, names)
    part = path.with_name(f"{path.name}.part")
    is_new = not path.exists()
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        yield part
        if is_new:
            part.rename(path)
        else:
            for name in names:
                if (part / name).exists():
                    (part / name).replace(path / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_folder(path: Path, names: Collection[str]) -> None:
    """Refuse a folder that holds anything but files of these names.

    Raises:
        NotADirectoryError: it is a file.
        FileExistsError: it holds something else; the message names it.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    others = sorted(child.name for child in path.iterdir() if child.name not in names)
    if others:
        raise FileExistsError(errno.EEXIST, f"The folder holds other files ({others[0]})", str(path))
