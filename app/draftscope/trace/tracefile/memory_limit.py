"""A file says how large it is once read; one that would fill the memory of this machine is not read."""

from __future__ import annotations

import os

_ROOM = 3
"""Times its records that a trace takes in memory."""


def check_fits(n_bytes: int) -> None:
    """Refuse records of more bytes than can be kept.

    Raises:
        ValueError: they do not fit.
    """
    installed = _installed_bytes()
    if installed is not None and n_bytes * _ROOM > installed:
        raise ValueError(
            f"its records say that they are {n_bytes / 1e9:,.1f} GB, which does not fit into the memory of this machine"
        )


def _installed_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no such call
        return None
