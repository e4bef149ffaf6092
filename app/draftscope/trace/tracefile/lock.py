"""Who is recording: a lock beside the file, which the system takes back however its process ends."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_TRIES = 5
_TRY_S = 0.01


def lock_path(path: Path) -> Path:
    """The lock of a trace file."""
    return path.with_name(path.name + "-lock")


class RecordingLock:
    """Held from before the first record to after the last one.

    A file of its own: SQLite's locks on the database are those of a process, which loses them when any part of it
    opens and closes the file.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock of the trace at ``path``.

        Raises:
            BlockingIOError: another recording has it.
            OSError: the place cannot be written.
        """
        self._place = lock_path(path)
        self._file = os.open(self._place, os.O_RDWR | os.O_CREAT, 0o644)
        for tries_left in reversed(range(_TRIES)):  # somebody may just be asking whether it is held
            try:
                _lock(self._file)
                break
            except OSError as error:
                if tries_left == 0:
                    os.close(self._file)
                    raise BlockingIOError(f"{path} is being recorded") from error
                time.sleep(_TRY_S)

    def release(self) -> None:
        """Give it back and leave nothing."""
        if sys.platform != "win32":  # where a file that is open cannot be removed
            self._place.unlink(missing_ok=True)
        os.close(self._file)
        if sys.platform == "win32":
            self._place.unlink(missing_ok=True)


def is_being_recorded(path: Path) -> bool:
    """Whether a process that lives records into the trace at ``path``, this one included."""
    try:
        file = os.open(lock_path(path), os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    except OSError:
        return False
    try:
        _lock(file)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _lock(file: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
