"""The rounds of one task: what each drafted and accepted, and whether another run of the task made the same drafts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind, Operation, Records
from draftscope.engine.protocol import SlotResult


@dataclass(frozen=True, slots=True)
class TaskRounds:
    """From the records of its Submit.

    Attributes:
        n_drafted, n_accepted: int32 (rounds,), in order.
        drafts: the records of all drafted tokens, accepted or not.
        n_common: tokens with which the prompt began as the slot's memory did; NaN where nobody compared.
    """

    n_drafted: NDArray[np.int32]
    n_accepted: NDArray[np.int32]
    drafts: Records
    n_common: float = math.nan


def rounds_of(records: Records, result: SlotResult) -> TaskRounds:
    """The rounds of a result, from the records of its Submit."""
    own = records[records["slot"] == result.slot]
    rounds = own[own["kind"] == Kind.ROUND]
    drafts = own[(own["kind"] == Kind.TOKEN) & (own["n"] > 0)]
    submits = own[(own["kind"] == Kind.OPERATION) & (own["code"] == Operation.SUBMIT)]
    n_common = float(submits["value"][-1]) if len(submits) else math.nan
    return TaskRounds(rounds["n"], rounds["m"], drafts, n_common)


@dataclass(frozen=True, slots=True)
class FirstRounds:
    """Counts of the first rounds of several tasks, ``n_rounds`` of each at most."""

    n_rounds: int
    draft_n: int
    n_accepted: int


def first_rounds(tasks: Sequence[TaskRounds], n_rounds: int) -> FirstRounds:
    """What was drafted and accepted in the first rounds of each task."""
    draft_n = sum(int(task.n_drafted[:n_rounds].sum()) for task in tasks)
    return FirstRounds(n_rounds, draft_n, sum(int(task.n_accepted[:n_rounds].sum()) for task in tasks))


@dataclass(frozen=True, slots=True)
class DraftComparison:
    """Drafted tokens of two runs at the same position and draft position, and how far the runs agree.

    Attributes:
        n: tokens that both runs drafted there; where their drafts began elsewhere they are not compared.
        n_other: those that are not the same token.
        max_probability_difference: of the same tokens' probabilities; NaN where there are none.
    """

    n: int
    n_other: int
    max_probability_difference: float


def compare_drafts(tasks: Sequence[TaskRounds], reference: Sequence[TaskRounds]) -> DraftComparison:
    """Compare task by task.

    Raises:
        ValueError: unequal numbers of tasks.
    """
    n = n_other = 0
    differences: list[float] = []
    for task, other in zip(tasks, reference, strict=True):
        there = _by_place(other.drafts)
        for place, (token, probability) in _by_place(task.drafts).items():
            if place in there:
                n += 1
                n_other += token != there[place][0]
                if token == there[place][0]:
                    differences.append(abs(probability - there[place][1]))
    return DraftComparison(n, n_other, max(differences, default=math.nan))


def _by_place(drafts: Records) -> dict[tuple[int, int], tuple[int, float]]:
    """Token and probability by position and draft position."""
    return {(int(draft["position"]), int(draft["n"])): (int(draft["token"]), float(draft["value"])) for draft in drafts}
