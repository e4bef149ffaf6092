"""Where the messages of a chat come from: a person at a terminal, or a pipe."""

from __future__ import annotations

import contextlib
import sys
from typing import Protocol, TextIO

PROMPT = "> "
_MORE = ". "


class Lines(Protocol):
    """Gives one message after the other."""

    is_interactive: bool

    def next(self) -> str | None:
        """The next message, or None when there are no more."""
        ...

    def ask(self, question: str, draft: str) -> str | None:
        """Another text in the place of ``draft``; None where nobody gave one."""
        ...

    @property
    def place(self) -> str:
        """Where the last message stood, for errors; '' for a person."""
        ...


class TypedLines:
    """From a terminal, with a history where the system has readline. The prompt goes to stderr unless both are one."""

    is_interactive = True
    place = ""

    def __init__(self) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - makes input() edit lines and remember them

    def next(self) -> str | None:
        """See ``Lines``. Ctrl-C gives up the line, Ctrl-D ends."""
        return self._read(PROMPT)

    def ask(self, question: str, draft: str) -> str | None:
        """See ``Lines``."""
        with contextlib.suppress(ImportError):
            import readline

            readline.set_startup_hook(lambda: readline.insert_text(draft))
            try:
                return self._read(question)
            finally:
                readline.set_startup_hook(None)
        return self._read(question)

    def _read(self, prompt: str) -> str | None:
        parts: list[str] = []
        while True:
            try:
                line = self._input(_MORE if parts else prompt)
            except EOFError:
                print(file=sys.stderr)
                return None
            except KeyboardInterrupt:
                print("\nCtrl-D or /quit ends the program.", file=sys.stderr)
                parts.clear()
                continue
            if not line.endswith("\\"):
                return "\n".join([*parts, line])
            parts.append(line[:-1])

    def _input(self, prompt: str) -> str:
        if sys.stdout.isatty():
            return input(prompt)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return input()


class PipedLines:
    """From a stream, a message a line; blank lines are left out."""

    is_interactive = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._n_read = 0
        self._n_first = 0

    @property
    def place(self) -> str:
        """See ``Lines``."""
        return f"Line {self._n_first}: "

    def next(self) -> str | None:
        """See ``Lines``."""
        parts: list[str] = []
        for line in iter(self._stream.readline, ""):
            self._n_read += 1
            text = line.rstrip("\r\n")
            if not parts:
                self._n_first = self._n_read
            if text.endswith("\\"):
                parts.append(text[:-1])
            elif parts or text.strip():
                return "\n".join([*parts, text])
        return "\n".join(parts) if parts else None

    def ask(self, question: str, draft: str) -> str | None:  # noqa: ARG002 - nobody is there
        """See ``Lines``."""
        return None
