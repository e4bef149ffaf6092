"""The tokens of one slot in reading order, each with the text that it adds. No Qt.

A piece may hold only a part of a UTF-8 character. Such a token adds no text of its own: the character belongs to the
token that completes it, and ``TokenFlow.group`` tells which tokens it took. Rejected tokens are decoded on from the
same state, without changing it, so that they never damage the text that was kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from draftscope.engine.events import Origin, Records, empty_records
from draftscope.trace.pieces import PieceDecoder, PieceTable


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """What is known of one token. ``chosen`` is -1 but for rejected tokens; ``probability`` NaN when not measured."""

    text: str
    origin: Origin
    round: int
    token: int
    position: int
    draft_position: int
    chosen: int
    chosen_text: str
    probability: float
    n_tokens: int


class TokenFlow:
    """Grows by the TOKEN records of one slot.

    Records can be here before the bytes of their tokens, which come another way; tokens wait for them in order.
    ``texts`` and ``origins`` are parallel lists, one element a token shown.
    """

    def __init__(self, pieces: PieceTable) -> None:
        self.texts: list[str] = []
        self.origins: list[int] = []
        self.rounds: list[int] = []
        self._pieces = pieces
        self._waiting: deque[np.void] = deque()
        self._records = empty_records(256)
        self._group_starts: list[int] = []
        self._kept = pieces.decoder()
        self._drafted: PieceDecoder | None = None
        self._open_group = -1

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def n_waiting(self) -> int:
        """Tokens whose bytes have not come yet."""
        return len(self._waiting)

    def append(self, records: Records, *, has_pieces: bool = True) -> None:
        """Take the next TOKEN records of the slot. ``has_pieces`` False shows ids for bytes that will not come."""
        self._waiting.extend(records)
        while self._waiting:
            record = self._waiting[0]
            piece = self._pieces.piece(int(record["token"]))
            if piece is None and has_pieces:
                return
            self._waiting.popleft()
            self._add(record, piece)

    def facts(self, index: int) -> TokenFacts:
        """All that is known of the token at ``index``."""
        record = self._records[index]
        chosen = int(record["m"]) if record["code"] == Origin.REJECTED else -1
        return TokenFacts(
            text=self.texts[index],
            origin=Origin(int(record["code"])),
            round=int(record["round"]),
            token=int(record["token"]),
            position=int(record["position"]),
            draft_position=int(record["n"]),
            chosen=chosen,
            chosen_text=self._pieces.text((chosen,)) if chosen >= 0 else "",
            probability=float(record["value"]),
            n_tokens=len(self.group(index)),
        )

    def draft_position(self, index: int) -> int:
        """Draft position of a token from 1; 0 when it was sampled."""
        return int(self._records["n"][index])

    def group(self, index: int) -> range:
        """The tokens whose bytes made the text of ``index``, itself the last."""
        return range(self._group_starts[index], index + 1)

    def kept_text(self, first: int = 0) -> str:
        """The text that the slot produced from a token on, without what was rejected."""
        pairs = zip(self.texts[first:], self.origins[first:], strict=True)
        return "".join(text for text, origin in pairs if origin != Origin.REJECTED)

    def _add(self, record: np.void, piece: bytes | None) -> None:
        index = len(self.texts)
        if index == len(self._records):
            self._records = np.concatenate([self._records, empty_records(index)])
        self._records[index] = record
        origin = int(record["code"])
        decoder, token = self._decoder_for(origin), int(record["token"])
        # A token without bytes (end of text, or no vocabulary) shows its id: something was produced here.
        text = decoder.decode(token) if piece else f"[{token}]"
        self.texts.append(text)
        self.origins.append(origin)
        self.rounds.append(int(record["round"]))
        self._mark_group(index, text, origin)

    def _decoder_for(self, origin: int) -> PieceDecoder:
        if origin != Origin.REJECTED:
            self._drafted = None
            return self._kept
        if self._drafted is None:
            self._drafted = self._kept.branch()
        return self._drafted

    def _mark_group(self, index: int, text: str, origin: int) -> None:
        if origin == Origin.REJECTED:
            self._group_starts.append(index)
            return
        self._group_starts.append(self._open_group if self._open_group >= 0 else index)
        if text:
            self._open_group = -1
        elif self._open_group < 0:
            self._open_group = index
