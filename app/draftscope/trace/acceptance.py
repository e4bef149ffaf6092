"""How much of what was drafted is accepted: per slot, by draft position, and over rounds.

Definitions, here and in every file and tooltip, since engines differ:

- acceptance (``rate``) = accepted / drafted tokens;
- mean accepted length = 1 + accepted / rounds, with the token that the target itself adds in every round, as llama.cpp
  and vLLM have it; rounds without a draft count too;
- acceptance at position i (``per_position``) = rounds that accepted at i / rounds that drafted at least i tokens, i
  from 1;
- tokens per second of a slot: from its first token on, so without its prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind, Origin, Records, SlotState
from draftscope.trace.growable import GrowableArray
from draftscope.trace.store import TraceStore

DEFINITIONS = {
    "acceptance": "accepted / drafted tokens",
    "mean_accepted_length": "1 + accepted / rounds, with the token that the target itself adds in every round; "
    "rounds without a draft count too",
    "per_position": "rounds that accepted at draft position i / rounds that drafted at least i tokens, i from 1",
    "tokens_per_second": "of a slot: tokens after the first / time from the first to the last, prompt excluded; "
    "of all slots: tokens / time from the start of the first round to the end of the last, less the times between "
    "in which no slot had a task",
}
"""What the figures mean, for files."""


@dataclass(frozen=True, slots=True)
class SlotAcceptance:
    """Counts of one slot, or of all, and the figures that follow from them.

    Attributes:
        n_rounds: rounds in which the slot took part, with a draft or without.
        draft_n, n_accepted: tokens drafted and accepted.
        drafted_at, accepted_at: element i counts the rounds that drafted/accepted a token at draft position i + 1.
        n_tokens: tokens produced: sampled and accepted, the first one after the prompt included.
        tokens_per_second: see ``DEFINITIONS``; NaN while it cannot be told.
    """

    n_rounds: int = 0
    draft_n: int = 0
    n_accepted: int = 0
    drafted_at: tuple[int, ...] = ()
    accepted_at: tuple[int, ...] = ()
    n_tokens: int = 0
    tokens_per_second: float = math.nan

    @property
    def rate(self) -> float:
        """Accepted / drafted, in [0, 1]; NaN when nothing was drafted."""
        return self.n_accepted / self.draft_n if self.draft_n else math.nan

    @property
    def mean_accepted_length(self) -> float:
        """1 + accepted / rounds: tokens that a round gives; NaN without rounds."""
        return 1 + self.n_accepted / self.n_rounds if self.n_rounds else math.nan

    @property
    def per_position(self) -> tuple[float, ...]:
        """Accepted at i / rounds that drafted at least i, as long as ``drafted_at``; NaN where nothing was drafted."""
        columns = zip(self.accepted_at, self.drafted_at, strict=True)
        return tuple(accepted / drafted if drafted else math.nan for accepted, drafted in columns)


def from_counts(
    *,
    n_rounds: int,
    draft_n: int,
    n_accepted: int,
    drafted_at: Sequence[int] = (),
    accepted_at: Sequence[int] = (),
    n_tokens: int = 0,
    generate_ms: float = 0.0,
) -> SlotAcceptance:
    """The figures of a slot from an engine's own counts.

    Args:
        generate_ms: time from the first token to the last, in milliseconds; 0 when it is not known.
    """
    is_timed = generate_ms > 0 and n_tokens > 1
    return SlotAcceptance(
        n_rounds=n_rounds,
        draft_n=draft_n,
        n_accepted=n_accepted,
        drafted_at=tuple(drafted_at),
        accepted_at=tuple(accepted_at),
        n_tokens=n_tokens,
        tokens_per_second=(n_tokens - 1) / generate_ms * 1e3 if is_timed else math.nan,
    )


@dataclass(slots=True)
class _Slot:
    """Running counts of a slot. ``drafted[n]``/``accepted[n]``: rounds that drafted/accepted exactly n tokens."""

    drafted: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    accepted: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    rounds: GrowableArray = field(default_factory=lambda: GrowableArray(np.int32))
    sum_drafted: GrowableArray = field(default_factory=lambda: GrowableArray(np.int64))
    sum_accepted: GrowableArray = field(default_factory=lambda: GrowableArray(np.int64))
    n_tokens: int = 0
    tokens_per_second: float = math.nan

    def take_rounds(self, records: Records) -> None:
        """Count ROUND records, in order; at least one."""
        n, m = records["n"].astype(np.int64), records["m"].astype(np.int64)
        self.drafted = _add_counts(self.drafted, n)
        self.accepted = _add_counts(self.accepted, m)
        self.rounds.append(records["round"])
        self.sum_drafted.append(_last(self.sum_drafted) + np.cumsum(n))
        self.sum_accepted.append(_last(self.sum_accepted) + np.cumsum(m))
        # An engine that cannot tell the speed yet says 0.
        speed = float(records["value"][-1])
        self.tokens_per_second = speed if speed > 0 else math.nan

    def figures(self) -> SlotAcceptance:
        """The counts as they stand."""
        return _figures(self.drafted, self.accepted, self.n_tokens, self.tokens_per_second)


class AcceptanceTable:
    """The acceptance of every slot of a store, kept up to date at the cost of the new records only."""

    def __init__(self) -> None:
        self._reset(0)

    def _reset(self, generation: int) -> None:
        self._generation = generation
        self._slots: dict[int, _Slot] = {}
        self._n_rounds_seen = 0
        self._n_tokens_seen = 0
        self._n_states_seen = 0
        self._active: set[int] = set()
        self._rests_since_ns: int | None = None
        self._rested_ns = 0
        self._t_first_ns = 0
        self._t_last_ns = 0

    def update(self, store: TraceStore) -> None:
        """Take what has come into the store since the last call; starts anew when the store was cleared."""
        if store.generation != self._generation:
            self._reset(store.generation)
        rounds, tokens, states = store.kind(Kind.ROUND), store.kind(Kind.TOKEN), store.kind(Kind.SLOT)
        self._take_states(states[self._n_states_seen :])
        self._n_states_seen = len(states)
        self._take_rounds(rounds[self._n_rounds_seen :])
        self._take_tokens(tokens[self._n_tokens_seen :])
        self._n_rounds_seen, self._n_tokens_seen = len(rounds), len(tokens)

    def _take_states(self, records: Records) -> None:
        """Add up the times in which no slot has a task: between the turns of conversations, nobody is slow."""
        for slot, code, t_ns in zip(*(records[name].tolist() for name in ("slot", "code", "t_start_ns")), strict=True):
            was_at_rest = not self._active
            if code in (SlotState.PROMPT, SlotState.GENERATING):
                self._active.add(slot)
            else:
                self._active.discard(slot)
            if was_at_rest and self._active and self._rests_since_ns is not None:
                self._rested_ns += t_ns - self._rests_since_ns
            if not was_at_rest and not self._active:
                self._rests_since_ns = t_ns

    def _take_rounds(self, records: Records) -> None:
        if len(records) == 0:
            return
        start = records["t_start_ns"]
        first, last = int(start.min()), int((start + records["duration_ns"]).max())
        self._t_first_ns = min(first, self._t_first_ns) if self._n_rounds_seen else first
        self._t_last_ns = max(last, self._t_last_ns) if self._n_rounds_seen else last
        for slot in np.unique(records["slot"]).tolist():
            self._slots.setdefault(slot, _Slot()).take_rounds(records[records["slot"] == slot])

    def _take_tokens(self, records: Records) -> None:
        kept = records["slot"][records["code"] != Origin.REJECTED]
        for slot, n in zip(*(column.tolist() for column in np.unique(kept, return_counts=True)), strict=True):
            self._slots.setdefault(slot, _Slot()).n_tokens += n

    def slots(self) -> tuple[int, ...]:
        """Slots that took part in a round or produced a token, rising."""
        return tuple(sorted(self._slots))

    def slot(self, slot: int) -> SlotAcceptance:
        """The figures of a slot; all zero for one without records."""
        counts = self._slots.get(slot)
        return SlotAcceptance() if counts is None else counts.figures()

    def total(self) -> SlotAcceptance:
        """The figures of all slots together; tokens per second: see ``DEFINITIONS``."""
        slots = self._slots.values()
        n_tokens = sum(slot.n_tokens for slot in slots)
        seconds = (self._t_last_ns - self._t_first_ns - self._rested_ns) / 1e9
        speed = n_tokens / seconds if seconds > 0 else math.nan
        return _figures(_sum([s.drafted for s in slots]), _sum([s.accepted for s in slots]), n_tokens, speed)

    def over_rounds(self, slot: int, window: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Moving acceptance of a slot.

        Axes: R rounds of this slot, in order.

        Args:
            window: how many rounds of this slot an element looks back over, itself included; at least 1. The first
                elements look back over fewer.
        Returns:
            round numbers int32 (R,), read-only view; accepted / drafted in the window float32 (R,), owned by the
            caller, NaN where the window has no draft.
        """
        counts = self._slots.get(slot)
        if counts is None:
            return np.zeros(0, np.int32), np.zeros(0, np.float32)
        drafted = _window_sums(counts.sum_drafted.view, max(window, 1))
        accepted = _window_sums(counts.sum_accepted.view, max(window, 1))
        rate = np.full(len(drafted), np.nan, np.float32)
        np.divide(accepted, drafted, out=rate, where=drafted > 0, casting="unsafe")
        return counts.rounds.view, rate


def _last(sums: GrowableArray) -> int:
    return int(sums.view[-1]) if len(sums) else 0


def _add_counts(counts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return _sum([counts, np.bincount(lengths)])


def _sum(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    total = np.zeros(max((len(part) for part in parts), default=1), np.int64)
    for part in parts:
        total[: len(part)] += part
    return total


def _window_sums(sums: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    before = np.zeros_like(sums)
    before[window:] = sums[:-window]
    return sums - before


def _figures(
    drafted: NDArray[np.int64], accepted: NDArray[np.int64], n_tokens: int, tokens_per_second: float
) -> SlotAcceptance:
    lengths = np.arange(len(drafted))
    at_least = np.cumsum(drafted[::-1])[::-1]
    accepted = np.pad(accepted, (0, max(0, len(drafted) - len(accepted))))
    accepted_at = np.cumsum(accepted[::-1])[::-1][: len(drafted)]
    return SlotAcceptance(
        n_rounds=int(drafted.sum()),
        draft_n=int(lengths @ drafted),
        n_accepted=int(np.arange(len(accepted)) @ accepted),
        drafted_at=tuple(at_least[1:].tolist()),
        accepted_at=tuple(accepted_at[1:].tolist()),
        n_tokens=n_tokens,
        tokens_per_second=tokens_per_second,
    )
