"""A conversation laid out in lines: blocks of texts and tokens, growing with the tokens that come. No Qt.

What stands is not laid out again: another script keeps the blocks that it begins with, and new tokens go to the end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import takewhile

from draftscope.engine.events import Origin
from draftscope.panels.script import Block, Mark, Part, Tokens
from draftscope.panels.token_flow import TokenFlow
from draftscope.panels.token_layout import Fragment, TokenLayout

REJECTED_SCALE = 0.85
"""Size of a rejected token's text."""

ALL_TOKENS = (Block((Tokens(0, None),)),)
"""The script of a slot of which nothing is known but its tokens."""

GAP_LINES = 1
"""Empty lines between two blocks."""

_SPACES = re.compile(r" {2,}")


@dataclass(slots=True)
class _Begun:
    """A block that is laid out, at least in part: from line ``first`` to before ``end``, None while it is the last.

    ``n_lines``: lines that the blocks before it fill, without its gap; ``on_empty``: an empty one stood behind them.
    ``n_marks``: marks of the blocks before it.
    """

    n_lines: int
    on_empty: bool
    first: int
    n_marks: int
    end: int | None = None


class Transcript:
    """Lines of fragments; those with a negative token number are marks of the script, see ``mark``.

    A range of tokens whose bytes have not all come keeps what stands behind it waiting.
    """

    def __init__(self, flow: TokenFlow, n_columns: int) -> None:
        self.flow = flow
        self.blocks: tuple[Block, ...] = ALL_TOKENS
        self.layout = TokenLayout(n_columns)
        self._shows_rejected = True
        self._begun: list[_Begun] = []
        self._marks: list[Mark] = []
        self._queue: deque[tuple[int, Part | None]] = deque()
        self._next_token: int | None = None
        self.lay_out(n_columns, shows_rejected=True)

    @property
    def lines(self) -> list[list[Fragment]]:
        """The lines as they are now."""
        return self.layout.lines

    def mark(self, token: int) -> Mark:
        """The mark that a fragment of this negative number belongs to."""
        return self._marks[-token - 1]

    def is_message(self, line: int) -> bool:
        """Whether a line belongs to something that a person said."""
        index = bisect_right(self._begun, line, key=lambda begun: begun.first) - 1
        if index < 0 or not self.blocks[index].is_message:
            return False
        end = self._begun[index].end
        return end is None or line < end

    def first_token_from(self, line: int) -> int | None:
        """The first token on a line or below it."""
        return next((part.token for row in self.lines[line:] for part in row if part.token >= 0), None)

    # ---- changes

    def lay_out(self, n_columns: int, *, shows_rejected: bool) -> None:
        """Lay out everything anew."""
        self._shows_rejected = shows_rejected
        self.layout = TokenLayout(n_columns)
        self._begun.clear()
        self._marks.clear()
        self._queue_from(0)
        self.extend()

    def set_blocks(self, blocks: tuple[Block, ...]) -> int | None:
        """Show another script; the first line that changed, None when it is the same."""
        pairs = zip(self.blocks, blocks, strict=False)
        n_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if n_same == len(self.blocks) == len(blocks):
            return None
        # The block begun last is not whole while something waits.
        n_same = min(n_same, len(self._begun) - 1 if self._queue else len(self._begun))
        first = len(self.lines) - 1
        if n_same < len(self._begun):
            dropped = self._begun[n_same]
            first = dropped.n_lines
            self.layout.truncate(dropped.n_lines, then_empty=dropped.on_empty)
            del self._marks[dropped.n_marks :]
            del self._begun[n_same:]
        if self._begun:
            self._begun[-1].end = None
        self.blocks = blocks
        self._queue_from(n_same)
        self.extend()
        return max(first - 1, 0)

    def extend(self) -> int:
        """Lay out what has come since the last call; the first line that changed."""
        first = len(self.lines) - 1
        while self._queue:
            index, part = self._queue[0]
            if part is None:
                self._begin(index)
            elif isinstance(part, Mark):
                self._marks.append(part)
                self.layout.append(-len(self._marks), part.text)
            elif not self._take_tokens(part):
                break
            self._queue.popleft()
        return first

    def _queue_from(self, n_blocks: int) -> None:
        self._next_token = None
        self._queue = deque(
            (index, part) for index in range(n_blocks, len(self.blocks)) for part in (None, *self.blocks[index].parts)
        )

    def _begin(self, index: int) -> None:
        on_empty = not self.lines[-1]
        n_lines = len(self.lines) - on_empty
        if self._begun:
            self._begun[-1].end = n_lines
        first = self.layout.begin_line(GAP_LINES if index else 0)
        self._begun.append(_Begun(n_lines, on_empty, first, len(self._marks)))

    def _take_tokens(self, part: Tokens) -> bool:
        """Lay out the tokens of a range that are there; whether that is all of them."""
        start = part.first if self._next_token is None else self._next_token
        end = len(self.flow) if part.end is None else min(part.end, len(self.flow))
        for index in range(start, end):
            text = self.flow.texts[index]
            if self.flow.origins[index] != Origin.REJECTED:
                self.layout.append(index, text)
            elif self._shows_rejected:
                self.layout.append(index, rejected_text(text), REJECTED_SCALE)
        self._next_token = max(start, end)
        if part.end is None or self._next_token < part.end:
            return False
        self._next_token = None
        return True


def rejected_text(text: str) -> str:
    """A rejected token's text on one line and in little room: line ends as they are written, indents as one space."""
    return _SPACES.sub(" ", text.replace("\n", "\\n").replace("\t", "\\t"))
