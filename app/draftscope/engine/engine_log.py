"""Forwards what the engine logs, libllama included, as ``LogLine`` answers."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

from draftscope.engine.protocol import Answer, LogLine

LOGGERS = ("draftscope.engine", "draftscope.llama")


def level_name(level: int) -> str:
    """The ``LogLine`` level of a level of ``logging``."""
    for floor, name in ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info")):
        if level >= floor:
            return name
    return "debug"


def log_lines(level: str, text: str) -> list[LogLine]:
    """A text as log lines of now, empty lines left out."""
    now = time.monotonic_ns()
    return [LogLine(level, line.rstrip(), now) for line in text.splitlines() if line.strip()]


class _Forwarder(logging.Handler):
    def __init__(self, answer: Callable[[Answer], None]) -> None:
        super().__init__()
        self._answer = answer

    def emit(self, record: logging.LogRecord) -> None:
        for line in log_lines(level_name(record.levelno), self.format(record)):
            self._answer(line)


@contextlib.contextmanager
def forwarded_log(answer: Callable[[Answer], None]) -> Iterator[None]:
    """While it lasts, every line logged by the engine at level info or above is also an answer."""
    forwarder = _Forwarder(answer)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(forwarder)
        logger.setLevel(logger.level or logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(forwarder)
            logger.setLevel(level)
