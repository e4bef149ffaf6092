"""A comparison as text for a terminal: first what was not the same, then what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftscope.cli.terminal import table
from draftscope.trace.compare import Compared, Comparison
from draftscope.trace.compare_noise import MIN_BYTES_CHANGE, MIN_BYTES_FACTOR, Verdict
from draftscope.trace.compare_thresholds import Outcome
from draftscope.trace.compare_words import (
    interval_words,
    is_better,
    is_worse,
    outputs_words,
    ratio_words,
    repeats_words,
    value_words,
    verdict_words,
)

_GREEN, _RED, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"

_EXPLAINED = (
    "ratio: B / A. interval: what the ratio may be by chance; where 1 lies inside of it nothing is called a change. "
    f"Without one only bytes are: from {MIN_BYTES_CHANGE:.1%} on, with compute buffers in them from "
    f"{MIN_BYTES_FACTOR:g} times on."
)


def as_text(
    comparison: Comparison, names: Sequence[str], outcomes: Sequence[Outcome], *, has_colour: bool, shows_all: bool
) -> str:
    """The whole of it. ``names``: of A and B. ``shows_all``: also the figures that are equal."""
    parts = [f"A  {names[0]}\nB  {names[1]}", _differences(comparison)]
    parts.append("\n".join(outputs_words(comparison.outputs)))
    parts += _figures(comparison, has_colour=has_colour, shows_all=shows_all)
    parts.append(f"{repeats_words(comparison)}\n{_EXPLAINED}")
    parts += ["\n".join(comparison.missing)] if comparison.missing else []
    parts += ["\n".join(_outcomes(outcomes))] if outcomes else []
    return "\n\n".join(part for part in parts if part)


def _differences(comparison: Comparison) -> str:
    if not comparison.differences:
        return "Prompts, settings, model, build and machine are the same, as far as the files tell."
    rows = [(difference.group, difference.name, difference.a, difference.b) for difference in comparison.differences]
    return table(("not the same", "", "A", "B"), rows, n_left=4)


def _figures(comparison: Comparison, *, has_colour: bool, shows_all: bool) -> Iterator[str]:
    shown = comparison.shown(shows_all=shows_all)
    if shown:
        header = ("", "A", "B", "ratio", "interval", "")
        lines = table(header, [_row(row) for row in shown]).split("\n")
        yield "\n".join(
            [lines[0], *(_coloured(line, row, has_colour) for line, row in zip(lines[1:], shown, strict=True))]
        )
    n_equal = sum(row.judged.verdict is Verdict.EQUAL for row in comparison.figures)
    if n_equal and not shows_all:
        yield f"{n_equal} figures are exactly equal (--all shows them)." if shown else "All figures are exactly equal."


def _row(row: Compared) -> tuple[str, ...]:
    judged, unit = row.judged, row.figure.unit
    values = value_words(judged.a, unit), value_words(judged.b, unit)
    return (row.figure.words, *values, ratio_words(judged.ratio), interval_words(row), verdict_words(row))


def _coloured(line: str, row: Compared, has_colour: bool) -> str:
    colour = _GREEN if is_better(row) else _RED if is_worse(row) else ""
    return f"{colour}{line}{_PLAIN}" if colour and has_colour else line


def _outcomes(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        yield f"{'FAILED' if outcome.has_failed else 'passed'}  {outcome.sentence}"
