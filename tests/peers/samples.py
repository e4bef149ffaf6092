"""What one run of all slots gave, on either engine, and the figures of many such runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SlotTimes:
    """One slot of a run: its tokens, the time to the first of them, and from there to the last; in milliseconds."""

    tokens: tuple[int, ...]
    first_ms: float
    generate_ms: float
    draft_n: int
    draft_n_accepted: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of all slots, started together.

    ``n_target`` and ``n_draft`` are decode calls of the target and of the MTP context without those of the prompts,
    ``n_rounds`` the rounds they served; None where an engine does not tell.
    """

    slots: tuple[SlotTimes, ...]
    wall_ms: float
    n_rounds: int | None = None
    n_target: int | None = None
    n_draft: int | None = None

    @property
    def n_generated(self) -> int:
        """Tokens after the first one of each slot, which comes from the prompt's decode."""
        return sum(len(slot.tokens) - 1 for slot in self.slots)

    @property
    def generate_ms(self) -> float:
        """From the first token of any slot to the last token of any."""
        ends = [slot.first_ms + slot.generate_ms for slot in self.slots]
        return max(ends) - min(slot.first_ms for slot in self.slots)

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted tokens; None when nothing was drafted."""
        drafted = sum(slot.draft_n for slot in self.slots)
        return sum(slot.draft_n_accepted for slot in self.slots) / drafted if drafted else None

    @property
    def target_per_round(self) -> float | None:
        """Target decodes a round: 1 when no decode served a replay alone."""
        return _ratio(self.n_target, self.n_rounds)

    @property
    def draft_per_round(self) -> float | None:
        """MTP decodes a round."""
        return _ratio(self.n_draft, self.n_rounds)


def speed(sample: Sample) -> float:
    """The compared figure, in tokens a second: those of all slots in the time of generation."""
    return sample.n_generated / sample.generate_ms * 1e3


def wall_speed(sample: Sample) -> float:
    """All tokens over the client's wall time, which has the prompts and the transport in it; tokens a second."""
    return sum(len(slot.tokens) for slot in sample.slots) / sample.wall_ms * 1e3


@dataclass(frozen=True, slots=True)
class Series:
    """All samples of one engine with one number of slots."""

    engine: str
    samples: tuple[Sample, ...]

    def best(self, figure: Callable[[Sample], float]) -> float:
        """The largest value: that of the run which other work of the machine disturbed least."""
        return max(map(figure, self.samples))

    def median(self, figure: Callable[[Sample], float]) -> float:
        """The median value."""
        return statistics.median(map(figure, self.samples))

    def as_json(self) -> dict[str, Any]:
        """Summary, and every sample without its tokens."""
        last = self.samples[-1]
        return {
            "engine": self.engine,
            "tokens_per_second": _summary(list(map(speed, self.samples))),
            "wall_tokens_per_second": _summary(list(map(wall_speed, self.samples))),
            "acceptance": last.acceptance,
            "n_rounds": last.n_rounds,
            "n_target": last.n_target,
            "n_draft": last.n_draft,
            "target_per_round": last.target_per_round,
            "draft_per_round": last.draft_per_round,
        }


def n_equal_texts(one: Sample, other: Sample) -> int:
    """How many slots got the same tokens on both engines."""
    return sum(a.tokens == b.tokens for a, b in zip(one.slots, other.slots, strict=True))


def _summary(values: Sequence[float]) -> dict[str, Any]:
    return {"best": max(values), "median": statistics.median(values), "samples": list(values)}


def _ratio(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole
