"""The text of a grammar, read from its beginning to its end: the places and lexical parts of GBNF."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9-]+")
INTEGER = re.compile(r"[0-9]+")
TOKEN = re.compile(r"!?<(?:\[[0-9]{1,10}\]>|(?!\[)[^>]*>)")
DEFINED_AS = re.compile("::=")
CLOSING_BRACE = re.compile(r"\}")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_ESCAPE = re.compile(r'\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"\[\]-])')


class Refusal(Exception):
    """What is wrong, as a clause, and where in the text (None: nowhere in particular)."""

    def __init__(self, what: str, position: int | None) -> None:
        super().__init__(what)
        self._position = position

    def place(self, text: str) -> str:
        """Line and column, as the beginning of a sentence; empty where there is none."""
        if self._position is None:
            return ""
        line = text.count("\n", 0, self._position) + 1
        column = self._position - text.rfind("\n", 0, self._position)
        return f"Line {line}, column {column}: "


class GbnfText:
    """A text and how far it is read, ``at``. What is not as it must be raises ``Refusal``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        if (zero := text.find("\0")) >= 0:
            raise Refusal("a grammar cannot hold the character 0", zero)

    @property
    def is_over(self) -> bool:
        """Whether all is read."""
        return self.at >= len(self._text)

    def peek(self, ahead: int = 0) -> str:
        """The next character, or one further on; empty behind the end."""
        return self._text[self.at + ahead : self.at + ahead + 1]

    def is_at(self, pattern: re.Pattern[str]) -> bool:
        """Whether a part like this comes next."""
        return pattern.match(self._text, self.at) is not None

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        """Read a part; ``what`` it is, for the refusal."""
        match = pattern.match(self._text, self.at)
        if match is None:
            raise Refusal(f"{what} is expected here", self.at)
        self.at = match.end()
        return match.group()

    def skip_space(self, *, over_lines: bool) -> None:
        """Read space and comments, if there are any."""
        self.take(_SPACE_AND_LINES if over_lines else _SPACE, "space")  # it may match nothing

    def character(self, end: str) -> None:
        """Read a character or an escape of a literal or class that ends with ``end``."""
        if self.peek() == "":
            raise Refusal(f"the text ends where {end} is expected", self.at)
        if self.peek() == "\\":
            self.take(_ESCAPE, r"one of \n \r \t \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH")
        else:
            self.at += 1
