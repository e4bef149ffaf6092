"""Conditions of a build server on a comparison, such as ``tokens_per_second<0.95``: read without evaluating anything.

``NAME<NUMBER`` is about the ratio B / A, ``a.NAME`` and ``b.NAME`` about the figure of one side in its own unit. Beside
the figures there are counts: ``outputs_apart`` (tasks whose tokens part), ``differences`` and ``changes``.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from draftscope.trace.compare import Comparison
from draftscope.trace.compare_noise import Verdict

_FORM = re.compile(r"\s*(?:([ab])\.)?([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)?)\s*(<=|>=|==|!=|<|>)\s*([0-9.eE+-]+)\s*")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
COUNTS = ("outputs_apart", "differences", "changes")
"""Names that are numbers by themselves and no ratios."""


class ThresholdError(Exception):
    """A condition that cannot be read, or names no figure. ``hint`` has the names there are."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Threshold:
    """A condition as it was written. ``side``: '' for the ratio, else ``a`` or ``b``."""

    text: str
    side: str
    name: str
    relation: str
    limit: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a threshold was passed, in a sentence that says why."""

    threshold: Threshold
    value: float
    has_failed: bool
    sentence: str


def parse(text: str) -> Threshold:
    """Read a condition.

    Raises:
        ThresholdError: it has another form.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        example = "Write NAME, one of < <= > >= == !=, and a number, such as 'tokens_per_second<0.95'."
        raise ThresholdError(f"The condition {text!r} cannot be read.", example)
    side, name, relation, number = found.groups()
    try:
        limit = float(number)
    except ValueError:
        raise ThresholdError(f"{number!r} in the condition {text!r} is no number.") from None
    return Threshold(text.strip(), side or "", name, relation, limit)


def check(threshold: Threshold, comparison: Comparison, *, ignores_noise: bool = False) -> Outcome:
    """Whether a condition for failure holds. A ratio within noise does not fail, unless ``ignores_noise``.

    A figure that the runs have no value of fails: a build server must not take silence for success.

    Raises:
        ThresholdError: there is no such figure in these runs.
    """
    if threshold.name in COUNTS and not threshold.side:
        value = float(_count(threshold.name, comparison))
        has_failed = _OPERATORS[threshold.relation](value, threshold.limit)
        return Outcome(threshold, value, has_failed, f"{threshold.text}: it is {value:g}.")
    compared = next((row for row in comparison.figures if row.figure.name == threshold.name), None)
    if compared is None:
        names = (*COUNTS, *(row.figure.name for row in comparison.figures))
        message = f"These runs have no figure {threshold.name!r}, which the condition {threshold.text!r} names."
        raise ThresholdError(message, f"There are: {', '.join(names)}.")
    judged = compared.judged
    value = getattr(judged, threshold.side) if threshold.side else judged.ratio
    if not math.isfinite(value):
        missing = "the ratio" if not threshold.side else f"the figure of {threshold.side.upper()}"
        return Outcome(threshold, value, True, f"{threshold.text}: {missing} does not exist ({judged.verdict.value}).")
    is_past = _OPERATORS[threshold.relation](value, threshold.limit)
    is_noise = not threshold.side and judged.verdict in (Verdict.NOISE, Verdict.TOO_FEW)
    if is_past and is_noise and not ignores_noise:
        return Outcome(
            threshold, value, False, f"{threshold.text}: it is {value:.3g}, which is {judged.verdict.value}."
        )
    return Outcome(threshold, value, is_past, f"{threshold.text}: it is {value:.3g}.")


def _count(name: str, comparison: Comparison) -> int:
    if name == "outputs_apart":
        return len(comparison.outputs.partings)
    return len(comparison.differences if name == "differences" else comparison.changes)
