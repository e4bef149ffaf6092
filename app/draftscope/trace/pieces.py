"""Bytes of tokens, and the text that they make: one piece may hold only a part of a UTF-8 character."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping

_UTF8 = codecs.getincrementaldecoder("utf-8")
_UNKNOWN = "\N{REPLACEMENT CHARACTER}".encode()


class PieceTable:
    """What each token id stands for, as far as it is known."""

    def __init__(self, pieces: Mapping[int, bytes] | None = None) -> None:
        self._pieces: dict[int, bytes] = dict(pieces or {})

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, pieces: Mapping[int, bytes]) -> None:
        """Take more pieces; a token that is known already gets the newer piece."""
        self._pieces.update(pieces)

    def clear(self) -> None:
        """Forget all: the tokens of another model stand for other bytes."""
        self._pieces.clear()

    def piece(self, token: int) -> bytes | None:
        """The bytes of a token; None while they are not known."""
        return self._pieces.get(token)

    def items(self) -> list[tuple[int, bytes]]:
        """All (token, bytes) pairs known now, by token id."""
        return sorted(self._pieces.copy().items())

    def text(self, tokens: Iterable[int]) -> str:
        """The text of a run of tokens. Bytes that are no UTF-8, and tokens that are not known, become U+FFFD."""
        return b"".join(self._pieces.get(token, _UNKNOWN) for token in tokens).decode("utf-8", errors="replace")

    def decoder(self) -> PieceDecoder:
        """A decoder for one stream of tokens, with a state of its own."""
        return PieceDecoder(self)


class PieceDecoder:
    """Decodes one stream of tokens as they come: a character is given out with the token that completes it."""

    def __init__(self, table: PieceTable) -> None:
        self._table = table
        self._decoder = _UTF8(errors="replace")

    def decode(self, token: int) -> str:
        """The text that this token completes: may be empty. A token that is not known gives U+FFFD."""
        piece = self._table.piece(token)
        return self._decoder.decode(_UNKNOWN if piece is None else piece)

    def branch(self) -> PieceDecoder:
        """A second decoder that goes on from here and leaves this one as it is: for drafts that may be rejected."""
        other = PieceDecoder(self._table)
        other._decoder.setstate(self._decoder.getstate())
        return other

    def finish(self) -> str:
        """End the stream: U+FFFD for a character that was begun, else nothing. The decoder can be used anew."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
