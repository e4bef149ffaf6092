"""A run of records made by a seed, for the tests of the panels: every kind, several slots, readable words."""

from __future__ import annotations

import numpy as np

from draftscope.engine.events import (
    ENGINE_TRACK,
    NO_ROUND,
    Kind,
    Mechanism,
    Origin,
    Phase,
    Records,
    SlotState,
    StopReason,
    empty_records,
)

WORDS = (
    "the",
    "lines",
    "of",
    "a",
    "file",
    "read",
    "return",
    "self",
    "path",
    "count",
    "and",
    "God",
    "heaven",
    "earth",
    "created",
    "beginning",
    "spirit",
    "def",
    "class",
    "in",
)
PIECES = {index: f" {word}".encode() for index, word in enumerate(WORDS)} | {50: b"\n", 51: b"\xe6\x97", 52: b"\xa5"}
EOS = 60
ACCEPTANCE = (0.85, 0.5, 0.77, 0.68, 0.9, 0.3, 0.6, 0.72)


class RunMaker:
    """Appends records in the order in which the engine writes them, on one clock."""

    def __init__(self, n_slots: int = 4, n_draft: int = 3, seed: int = 7) -> None:
        self.n_slots = n_slots
        self.n_draft = n_draft
        self._random = np.random.default_rng(seed)
        self._rows: list[tuple[float, ...]] = []
        self._t_ns = 1_000_000_000
        self._positions = [12] * n_slots
        self._round = 0
        self._n_written = 0

    def records(self) -> Records:
        """What was made since the last call."""
        made = empty_records(len(self._rows))
        for index, row in enumerate(self._rows):
            made[index] = row
        self._rows.clear()
        return made

    def prompt(self) -> None:
        """The prompts are read, and each slot samples its first token."""
        for slot in range(self.n_slots):
            self._row(Kind.SLOT, SlotState.PROMPT, slot, position=0)
        start = self._pass(9_000_000)
        self._span(Phase.PROMPT, ENGINE_TRACK, start, 12 * self.n_slots, 1)
        for slot in range(self.n_slots):
            self._span(Phase.PROMPT, slot, start, 12, 0)
            self._token(slot, Origin.SAMPLED, 0, -1)
            self._row(Kind.SLOT, SlotState.GENERATING, slot, position=12)

    def rounds(self, n_rounds: int) -> None:
        """That many rounds over all slots."""
        for _ in range(n_rounds):
            self._one_round()

    def finish(self) -> None:
        """Every slot ends at its token limit."""
        for slot in range(self.n_slots):
            self._row(Kind.SLOT, SlotState.DONE, slot, position=self._positions[slot], n=StopReason.MAX_TOKENS)

    def _one_round(self) -> None:
        begin = self._t_ns
        for step in range(self.n_draft):
            start = self._pass(int(self._random.integers(500_000, 900_000)))
            self._span(Phase.DRAFT, ENGINE_TRACK, start, self.n_slots, 1, position=step)
        for slot in range(self.n_slots):
            self._span(Phase.DRAFT, slot, begin, self.n_draft, 0)
        start = self._pass(int(self._random.integers(2_500_000, 3_500_000)))
        self._span(Phase.VERIFY, ENGINE_TRACK, start, self.n_slots * (1 + self.n_draft), 1)
        for slot in range(self.n_slots):
            self._span(Phase.VERIFY, slot, start, 1 + self.n_draft, 0)
        for slot in range(self.n_slots):
            self._accept(slot, begin)
        self._t_ns += 60_000
        self._round += 1

    def _accept(self, slot: int, begin: int) -> None:
        start = self._pass(90_000)
        n_accepted = 0
        while n_accepted < self.n_draft and self._random.random() < ACCEPTANCE[slot % 8] - 0.07 * n_accepted:
            n_accepted += 1
            self._token(slot, Origin.ACCEPTED, n_accepted, -1)
        for draft in range(n_accepted + 1, self.n_draft + 1):
            self._token(slot, Origin.REJECTED, draft, 3 if draft == n_accepted + 1 else -1)
        self._token(slot, Origin.SAMPLED, 0, -1)
        self._span(Phase.ACCEPT, slot, start, self.n_draft, n_accepted)
        if n_accepted < self.n_draft:
            start = self._pass(200_000)
            self._span(Phase.RESTORE, slot, start, 0, 0)
            self._row(Kind.RESTORE, Mechanism.ROLLBACK, slot, start=start, position=self._positions[slot])
        self._row(
            Kind.ROUND,
            Mechanism.ROLLBACK,
            slot,
            start=begin,
            position=self._positions[slot],
            n=self.n_draft,
            m=n_accepted,
            value=300.0 + 40 * slot + n_accepted,
        )

    def _token(self, slot: int, origin: Origin, draft: int, chosen: int) -> None:
        token = 50 if self._random.random() < 0.06 else int(self._random.integers(len(WORDS)))
        value = float(self._random.uniform(0.3, 1.0))
        self._row(Kind.TOKEN, origin, slot, position=self._positions[slot], token=token, n=draft, m=chosen, value=value)
        self._positions[slot] += origin != Origin.REJECTED

    def _span(self, phase: Phase, slot: int, start: int, n: int, m: int, position: int = 0) -> None:
        self._row(Kind.SPAN, phase, slot, start=start, position=position, n=n, m=m)

    def _pass(self, duration_ns: int) -> int:
        start = self._t_ns
        self._t_ns += duration_ns
        return start

    def _row(
        self,
        kind: Kind,
        code: int,
        slot: int,
        *,
        start: int = -1,
        position: int = 0,
        token: int = -1,
        n: int = 0,
        m: int = 0,
        value: float = float("nan"),
    ) -> None:
        start = self._t_ns if start < 0 else start
        round_number = self._round if self._round or kind != Kind.SLOT else NO_ROUND
        self._rows.append(
            (
                self._n_written,
                start,
                self._t_ns - start,
                round_number,
                slot,
                kind,
                code,
                position,
                token,
                n,
                m,
                value,
                0,
            )
        )
        self._n_written += 1
