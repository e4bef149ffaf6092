"""Lines of a token view: wraps tokens into a grid of cells, and grows without laying out again what stands. No Qt.

Widths are in cells of the fixed-width font: 1 for most characters, 2 for wide ones, 0 for combining marks, times the
scale of the token's text. Lines break after white space and between wide characters, else anywhere in a word that is
longer than a line. White space may hang over the end of a line.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

TAB_CELLS = 4
_CHUNKS = re.compile(r"\n|\t|[^\S\n\t]+|[^\s]+")


class Fragment(NamedTuple):
    """A part of a token on one line; ``text`` is '' for a line end. ``x`` and ``width`` in cells."""

    token: int
    x: float
    width: float
    text: str


class TokenLayout:
    """Lines of fragments for a width of ``n_columns`` cells."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = max(n_columns, 8)
        self.lines: list[list[Fragment]] = [[]]
        self.first_lines: dict[int, int] = {}
        self._x = 0.0
        self._word_start = 0

    def append(self, token: int, text: str, scale: float = 1.0) -> int:
        """Lay out the text of the next token; the index of the first line that changed."""
        first_changed = len(self.lines) - 1
        for chunk in _CHUNKS.findall(text):
            if chunk == "\n":
                self._put(token, "", 1.0)
                self._break_line()
            elif chunk == "\t":
                self._put(token, " ", TAB_CELLS - self._x % TAB_CELLS)
                self._word_start = len(self.lines[-1])
            elif chunk.isspace():
                self._put(token, chunk, n_cells(chunk) * scale)
                self._word_start = len(self.lines[-1])
            else:
                self._put_word(token, chunk, scale)
        return first_changed

    def begin_line(self, n_empty: int = 0) -> int:
        """Go to the start of a line, and leave so many lines empty before it; the line's index."""
        if self.lines[-1]:
            self._break_line()
        for _ in range(n_empty):
            self._break_line()
        return len(self.lines) - 1

    def truncate(self, n_lines: int, *, then_empty: bool) -> None:
        """Keep the first ``n_lines`` lines, and if asked an empty one after them; no word goes on from what is kept."""
        for line in self.lines[n_lines:]:
            for part in line:
                if self.first_lines.get(part.token, -1) >= n_lines:
                    del self.first_lines[part.token]
        del self.lines[n_lines:]
        if then_empty:
            self.lines.append([])
        last = self.lines[-1]
        self._x = last[-1].x + last[-1].width if last else 0.0
        self._word_start = len(last)

    def line_of(self, token: int) -> int | None:
        """The line that a token begins on; None for a token without text of its own."""
        return self.first_lines.get(token)

    def token_at(self, line: int, x: float) -> int | None:
        """The token at ``x`` cells on a line, else None."""
        if not 0 <= line < len(self.lines):
            return None
        return next((part.token for part in self.lines[line] if part.x <= x < part.x + part.width), None)

    def _put_word(self, token: int, word: str, scale: float) -> None:
        if word.isascii():
            self._put_unbroken(token, word, scale)
            return
        for character in word:
            if n_cells(character) == 2:
                self._word_start = len(self.lines[-1])
            self._put_unbroken(token, character, scale)
            if n_cells(character) == 2:
                self._word_start = len(self.lines[-1])

    def _put_unbroken(self, token: int, word: str, scale: float) -> None:
        width = n_cells(word) * scale
        if self._x + width > self.n_columns:
            self._move_word_down(token)
        while self._x + width > self.n_columns:
            n_fit = int((self.n_columns - self._x) / (scale * max(n_cells(word[0]), 1)))
            if n_fit <= 0 and self._x == 0:
                break
            if n_fit > 0:
                self._put(token, word[:n_fit], n_cells(word[:n_fit]) * scale)
                word = word[n_fit:]
            self._break_line()
            width = n_cells(word) * scale
        if word:
            self._put(token, word, width)

    def _move_word_down(self, token: int) -> None:
        """Take the word begun on this line to the next one, unless it fills the line from its start.

        White space of the word's first token that would be left alone at the end of the line is dropped there.
        """
        line = self.lines[-1]
        start = self._word_start
        if start == 0:
            return
        moved = line[start:]
        first = moved[0].token if moved else token
        del line[start:]
        while len(line) > 1 and line[-1].token == first and line[-1].text.isspace():
            del line[-1]
        for number in {part.token for part in moved} | {token}:
            if self.first_lines.get(number) == len(self.lines) - 1 and not _holds(line, number):
                del self.first_lines[number]
        self._break_line()
        for part in moved:
            self._put(part.token, part.text, part.width)

    def _put(self, token: int, text: str, width: float) -> None:
        line = self.lines[-1]
        self.first_lines.setdefault(token, len(self.lines) - 1)
        last = line[-1] if line else None
        if last is not None and last.token == token and last.text and text and self._word_start < len(line):
            line[-1] = last._replace(width=last.width + width, text=last.text + text)
        else:
            line.append(Fragment(token, self._x, width, text))
        self._x += width

    def _break_line(self) -> None:
        self.lines.append([])
        self._x = 0.0
        self._word_start = 0


def n_cells(text: str) -> int:
    """Cells that a text takes in a fixed-width font."""
    if text.isascii():
        return len(text)
    return sum(_character_cells(character) for character in text)


def _character_cells(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200b\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _holds(line: list[Fragment], token: int) -> bool:
    return any(part.token == token for part in line)
