"""Files and folders that appear under their name when they are whole: a failed or cancelled export leaves nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Collection, Iterator
from io import BufferedWriter, FileIO, UnsupportedOperation
from pathlib import Path
from typing import IO


class _Stream(BufferedWriter):
    """A pipe or a device. Some devices tell the same place after every write, which writers of archives rely on."""

    def tell(self) -> int:
        """Refuse: writers then count for themselves."""
        raise UnsupportedOperation("tell")

    def seekable(self) -> bool:
        """No."""
        return False


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` when the block ends well, and is removed otherwise.

    Raises:
        OSError: it cannot be written, or ``path`` is a folder.
    """
    with _telling_of(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if path.exists() and not path.is_file():
            # A pipe or a device cannot be replaced, and where a link to a pipe leads is no name that could be opened.
            with _Stream(FileIO(path, "w")) as device:
                yield device
            return
        path = path.resolve()
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                yield file
            part.replace(path)
        finally:
            with contextlib.suppress(OSError):
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
    with _telling_of(path):
        check_folder(path, names)
        path = path.resolve()
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


@contextlib.contextmanager
def _telling_of(path: Path) -> Iterator[None]:
    """Errors name the path that was asked for: that of the part beside it means nothing to anybody."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


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
