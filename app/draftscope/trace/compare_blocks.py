"""A run cut into blocks, so that one run can say how far its own figures scatter.

A block is a row of consecutive rounds that gave an equal share of the run's tokens. Two runs of the same prompts are at
the same place of their texts in blocks of the same number, with as many slots still at work; so what is compared is
block with block, and that a text grows, or slots end before others, is no noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from draftscope.engine.events import Kind, Origin, Records, SlotState
from draftscope.trace.store import TraceStore

N_BLOCKS = 10
"""Blocks of a run, where it has rounds enough."""

MIN_ROUNDS = 4
"""Rounds of a block, on average, at least; shorter runs are cut into fewer blocks."""

_ACTIVE = (SlotState.PROMPT, SlotState.GENERATING)


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of one run. ``units``: that of each block (or task), float64 (K,), NaN where there is none."""

    value: float
    units: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def n_blocks_for(n_rounds: int) -> int:
    """Blocks that a run of so many rounds is cut into; 1 at least."""
    return max(1, min(N_BLOCKS, n_rounds // MIN_ROUNDS))


class RunBlocks:
    """The rounds of a run with what each gave and took.

    Attributes:
        n: blocks.
        rounds: round numbers int (R,), rising.
        tokens: kept tokens, int64 (R,); the first one of a task comes from its prompt and is in no round.
        period_ns: from the start of a round to that of the next, less times in which no slot had a task, int64 (R,).
        block: the block of each round, int64 (R,).
    """

    def __init__(self, store: TraceStore, n_blocks: int) -> None:
        self.n = n_blocks
        records = store.kind(Kind.ROUND)
        self.rounds, inverse = np.unique(records["round"], return_inverse=True)
        start = np.full(len(self.rounds), np.iinfo(np.int64).max)
        end = np.zeros(len(self.rounds), np.int64)
        np.minimum.at(start, inverse, records["t_start_ns"])
        np.maximum.at(end, inverse, records["t_start_ns"] + records["duration_ns"])
        kept = store.kind(Kind.TOKEN)
        self.tokens = self.per_round(kept[kept["code"] != Origin.REJECTED])
        self.period_ns = _periods(start, end, store.kind(Kind.SLOT))
        before = np.cumsum(self.tokens) - self.tokens
        total = max(int(self.tokens.sum()), 1)
        self.block = np.minimum(before * n_blocks // total, n_blocks - 1)

    def per_round(self, records: Records, weights: ArrayLike | None = None) -> NDArray[np.int64]:
        """Records of each round, or the sum of their weights, int64 (R,); those outside rounds are left out."""
        places, is_inside = self._places(records["round"])
        given = None if weights is None else np.asarray(weights, np.float64)[is_inside]
        return np.bincount(places[is_inside], given, minlength=len(self.rounds)).astype(np.int64)

    def blocks_of(self, records: Records) -> NDArray[np.int64]:
        """The block of each record, int64 (N,); -1 outside rounds."""
        places, is_inside = self._places(records["round"])
        return np.where(is_inside, self.block[places] if len(self.rounds) else -1, -1)

    def _places(self, numbers: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        if len(self.rounds) == 0:
            return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
        places = np.minimum(np.searchsorted(self.rounds, numbers), len(self.rounds) - 1)
        return places, self.rounds[places] == numbers

    def share(self, above: NDArray[np.int64], below: NDArray[np.int64], factor: float = 1.0) -> Measure:
        """A quotient of sums, of the run and of each block; ``above``, ``below``: one element a round."""
        sums = [np.bincount(self.block, part, minlength=self.n) for part in (above, below)]
        units = np.full(self.n, np.nan)
        np.divide(sums[0], sums[1], out=units, where=sums[1] > 0)
        total = int(below.sum())
        return Measure(factor * int(above.sum()) / total if total else np.nan, factor * units)

    def medians(self, records: Records, values: ArrayLike) -> Measure:
        """The median of a value of each record, of the run and of each block."""
        row, blocks = np.asarray(values, np.float64), self.blocks_of(records)
        units = np.full(self.n, np.nan)
        for block in np.unique(blocks[blocks >= 0]).tolist():
            units[block] = np.median(row[blocks == block])
        return Measure(float(np.median(row)) if len(row) else np.nan, units)


def _periods(start: NDArray[np.int64], end: NDArray[np.int64], states: Records) -> NDArray[np.int64]:
    if len(start) == 0:
        return np.zeros(0, np.int64)
    period: NDArray[np.int64] = np.append(start[1:], end[-1]) - start
    for since_ns, until_ns in _rests(states):
        last = int(np.searchsorted(start, since_ns)) - 1
        if 0 <= last < len(start) - 1:  # a rest before the first round or after the last is in no period
            period[last] -= until_ns - since_ns
    return np.maximum(period, 0)


def _rests(states: Records) -> list[tuple[int, int]]:
    """Times in which no slot had a task, between the first task and the last, in order."""
    active: set[int] = set()
    rests, since_ns = [], None
    for slot, code, t_ns in zip(*(states[name].tolist() for name in ("slot", "code", "t_start_ns")), strict=True):
        if code in _ACTIVE:
            if not active and since_ns is not None:
                rests.append((since_ns, t_ns))
            active.add(slot)
        elif slot in active:
            active.discard(slot)
            since_ns = None if active else t_ns
    return rests
