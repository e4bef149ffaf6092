"""Waiting for what a poll brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pytestqt.qtbot import QtBot


class Polled(Protocol):
    """What is brought up to date by polling."""

    def poll(self) -> None:
        """Take what has come."""
        ...


def poll_until(qtbot: QtBot, polled: Polled, is_so: Callable[[], bool], timeout: int = 10_000) -> None:
    """Poll until something is so; fails after ``timeout`` milliseconds."""

    def look() -> bool:
        polled.poll()
        return is_so()

    qtbot.waitUntil(look, timeout=timeout)
