"""Plausible records of a made-up run, in the order in which the engine writes them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from draftscope.engine.events import (
    COLUMNS,
    ENGINE_TRACK,
    NO_ROUND,
    RECORD_DTYPE,
    FallbackReason,
    Kind,
    Mechanism,
    Operation,
    Origin,
    Phase,
    Records,
    Reuse,
    SlotState,
    StopReason,
)
from draftscope.trace.pieces import PieceTable
from draftscope.trace.store import TraceStore
from draftscope.trace.trace import Trace

PIECES = {100 + i: piece for i, piece in enumerate([b" the", b" cat", b" sat", b"\xe2\x82", b"\xac", b".", b"\n"])}
T_START_NS = 5_000_000_000_000


def record(kind: Kind, **columns: Any) -> Records:
    """One record, as an array of one; columns that are not named are zero, ``value`` NaN, ``token`` -1."""
    made = np.zeros(1, RECORD_DTYPE)
    for name, value in ({"value": math.nan, "token": -1, "kind": kind} | columns).items():
        made[name] = value
    return made


@dataclass
class SyntheticRun:
    """Makes a run: prompts of all slots, then rounds of k drafts, a save, a verify decode, accept, and a restore.

    Slot s accepts a drafted token with probability 0.9 - 0.2 s. ``counts`` holds what went in, for comparison.
    """

    n_slots: int = 4
    n_draft: int = 3
    seed: int = 0
    mechanism: Mechanism = Mechanism.HOST
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    counts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._now_ns = T_START_NS
        self._positions = dict.fromkeys(range(self.n_slots), 20)
        self._round: int = NO_ROUND

    def make(self, n_rounds: int) -> Records:
        """Prompts, ``n_rounds`` rounds, and the end of every slot."""
        for slot in range(self.n_slots):
            self._add(Kind.OPERATION, slot, code=Operation.SUBMIT, position=20, m=Reuse.NONE)
            self._add(Kind.SLOT, slot, code=SlotState.PROMPT, position=20)
        self._decode(Phase.PROMPT, 20 * self.n_slots, m=1, shares=dict.fromkeys(range(self.n_slots), (20, 0)))
        for slot in range(self.n_slots):
            self._add(Kind.TOKEN, slot, code=Origin.SAMPLED, position=20, token=self._token(), m=-1, value=0.5)
            self._add(Kind.SLOT, slot, code=SlotState.GENERATING, position=20)
        for self._round in range(n_rounds):
            self._make_round()
        self._round = NO_ROUND
        for slot in range(self.n_slots):
            self._add(Kind.SLOT, slot, code=SlotState.DONE, n=StopReason.MAX_TOKENS, m=len(self.counts.get(slot, ())))
        return np.array(self.rows, RECORD_DTYPE)

    def _make_round(self) -> None:
        t_round_ns, slots = self._now_ns, range(self.n_slots)
        for step in range(self.n_draft):
            self._decode(Phase.DRAFT, self.n_slots, position=step, m=1, shares={})
        for slot in slots:
            self._span(Phase.DRAFT, slot, t_round_ns, n=self.n_draft)
        for slot in slots if self.mechanism == Mechanism.HOST else ():
            self._timed(Kind.SAVE, Phase.SAVE, slot, n=self._round + 1, size_bytes=4096 + slot)
        shares = dict.fromkeys(slots, (1 + self.n_draft, 0))
        self._decode(Phase.VERIFY, (1 + self.n_draft) * self.n_slots, m=1, shares=shares)
        for slot in slots:
            self._accept(slot, t_round_ns)

    def _accept(self, slot: int, t_round_ns: int) -> None:
        t_start_ns, first = self._now_ns, self._positions[slot]
        n_accepted = 0
        while n_accepted < self.n_draft and self._random.random() < 0.9 - 0.2 * slot:
            n_accepted += 1
        for i in range(self.n_draft):
            origin = Origin.ACCEPTED if i < n_accepted else Origin.REJECTED
            chosen = self._token() if i == n_accepted else -1
            self._tick(200)
            self._add(
                Kind.TOKEN, slot, code=origin, position=first + i, token=self._token(), n=i + 1, m=chosen, value=0.75
            )
        self._add(
            Kind.TOKEN, slot, code=Origin.SAMPLED, position=first + n_accepted, token=self._token(), m=-1, value=0.5
        )
        self._tick(1000)
        self._span(Phase.ACCEPT, slot, t_start_ns, n=self.n_draft, m=n_accepted)
        if n_accepted < self.n_draft:
            self._timed(Kind.RESTORE, Phase.RESTORE, slot, n=self._round + 1, m=n_accepted, size_bytes=4096 + slot)
        if self._random.random() < 0.05:
            self._add(Kind.FALLBACK, slot, code=FallbackReason.NO_MEMORY, n=Mechanism.HOST, m=Mechanism.NONE)
        self._positions[slot] = first + n_accepted + 1
        self.counts.setdefault(slot, []).append((self.n_draft, n_accepted))
        self._add(
            Kind.ROUND,
            slot,
            t_round_ns,
            self._now_ns - t_round_ns,
            code=self.mechanism,
            position=self._positions[slot],
            n=self.n_draft,
            m=n_accepted,
            value=100.0 + slot,
        )

    def _decode(self, phase: Phase, n: int, *, m: int, shares: dict[int, tuple[int, int]], position: int = 0) -> None:
        t_start_ns = self._now_ns
        self._tick(50_000)
        self._add(
            Kind.SPAN, ENGINE_TRACK, t_start_ns, self._now_ns - t_start_ns, code=phase, position=position, n=n, m=m
        )
        for slot, (n_tokens, n_replay) in shares.items():
            self._span(phase, slot, t_start_ns, n=n_tokens, m=n_replay)

    def _timed(self, kind: Kind, phase: Phase, slot: int, **columns: int) -> None:
        t_start_ns = self._now_ns
        self._tick(7_000)
        duration_ns, position = self._now_ns - t_start_ns, self._positions[slot]
        self._add(kind, slot, t_start_ns, duration_ns, code=self.mechanism, position=position, **columns)
        self._span(phase, slot, t_start_ns)

    def _span(self, phase: Phase, slot: int, t_start_ns: int, n: int = 0, m: int = 0) -> None:
        self._tick(40)
        position = self._positions[slot]
        self._add(Kind.SPAN, slot, t_start_ns, self._now_ns - t_start_ns, code=phase, position=position, n=n, m=m)

    def _add(self, kind: Kind, slot: int, t_start_ns: int | None = None, duration_ns: int = 0, **columns: Any) -> None:
        start = self._now_ns if t_start_ns is None else t_start_ns
        values = {
            "sequence": len(self.rows),
            "t_start_ns": start,
            "duration_ns": duration_ns,
            "round": self._round,
            "slot": slot,
            "kind": kind,
            "token": -1,
            "value": math.nan,
        } | columns
        self.rows.append(tuple(values.get(column.name, 0) for column in COLUMNS))

    def _tick(self, about_ns: int) -> None:
        self._now_ns += about_ns + self._random.randrange(max(about_ns // 2, 1))

    def _token(self) -> int:
        return self._random.choice(list(PIECES))


def make_records(n_rounds: int = 50, **options: Any) -> Records:
    """The records of a ``SyntheticRun``."""
    return SyntheticRun(**options).make(n_rounds)


def make_store(records: Records) -> TraceStore:
    """A store that received the records in one go."""
    store = TraceStore()
    store.append(records)
    return store


def make_trace(records: Records | None = None) -> Trace:
    """A whole trace with header, pieces and results."""
    records = make_records() if records is None else records
    header = {"program": "draftscope test", "settings": {"n_slots": 4, "stop": ["END"]}, "prompts": ["a secret prompt"]}
    results = [{"slot": 0, "text": "a secret text", "tokens": [101, 102], "stop": "max_tokens", "prompt": 0}]
    return Trace(header, make_store(records), PieceTable(PIECES), results)


def make_many(n: int) -> Records:
    """At least ``n`` records: a run of 200 rounds, again and again."""
    part = make_records(200)
    length_ns = int((part["t_start_ns"] + part["duration_ns"]).max()) - T_START_NS + 1
    copies = -(-n // len(part))
    many = np.tile(part, copies)
    turn = np.repeat(np.arange(copies), len(part))
    many["t_start_ns"] += turn * length_ns
    many["round"] = np.where(many["round"] >= 0, many["round"] + turn * 200, -1)
    many["sequence"] = np.arange(len(many))
    return many
