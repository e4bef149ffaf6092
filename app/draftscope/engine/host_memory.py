"""How much memory this machine has left, and whether a load fits: the system ends a process that takes too much."""

from __future__ import annotations

from pathlib import Path

from draftscope.engine.errors import EngineError, ErrorCode

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Bytes that can still be taken: what Linux calls available, or less where a control group allows less.

    None where the system does not tell (not Linux).
    """
    try:
        lines = meminfo.read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
    try:
        limit = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):  # no control group, or no limit ("max")
        return available
    return min(available, max(0, limit - used))


def check_fits(what: str, needed_bytes: int, available: int | None) -> None:
    """Refuse what would not fit.

    Raises:
        EngineError: code OUT_OF_MEMORY, with both figures.
    """
    if available is not None and needed_bytes > available:
        raise EngineError(
            ErrorCode.OUT_OF_MEMORY,
            f"{what} would take {needed_bytes / 2**30:.1f} GiB, and {available / 2**30:.1f} GiB of memory are free.",
            "Use fewer slots or a smaller context, or close other programs.",
        )
