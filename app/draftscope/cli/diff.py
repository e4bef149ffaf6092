"""``draftscope diff``: two recorded runs, or repeats of two, side by side."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftscope.cli.diff_table import as_text
from draftscope.cli.failure import ExitCode, InputError, UsageError
from draftscope.cli.terminal import ProgressLine, note
from draftscope.trace.compare import Comparison, compare
from draftscope.trace.compare_thresholds import Outcome, Threshold, ThresholdError, check, parse
from draftscope.trace.compare_words import name_words
from draftscope.trace.errors import TraceError
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile import read_trace

_EPILOG = """\
A ratio is B / A, and the interval behind it says what it may be by chance: of repeats (A1 A2 .. --with B1 B2 ..,
recorded in turn, five or more of each), their ratios pair by pair; of one run a side, the ratios of blocks of rounds
with equal shares of the tokens. What lies within is called noise, and with fewer than five pairs so are speeds and
times that differ by less than 3 times. Bytes of single runs have no interval: they change from 0.1 % on, and from
1.1 times on where compute buffers are in them, which grow with the batches that times decide.

--fail-if ends with exit code 1 when a condition holds and the difference is no noise: NAME<NUMBER is about the ratio,
b.NAME<NUMBER about B's own figure (times in microseconds). outputs_apart, differences and changes are counts. A name
that does not exist is answered with those that do.

exit codes: 0 compared, 1 a condition of --fail-if holds, 2 wrong use, 3 a file cannot be read

examples:
  draftscope diff before.dscope after.dscope
  draftscope diff a1.dscope a2.dscope a3.dscope --with b1.dscope b2.dscope b3.dscope
  draftscope diff before.dscope after.dscope --fail-if 'tokens_per_second<0.95' --fail-if 'outputs_apart>0'
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("diff", help="compare two recorded runs, or repeats of two", epilog=_EPILOG)
    parser.add_argument("traces", metavar="TRACE", nargs="+", type=Path, help="A and B; with --with: all runs of A")
    parser.add_argument("--with", metavar="TRACE", dest="others", nargs="+", type=Path, help="all runs of B")
    condition = "end with exit code 1 when it holds, such as 'tokens_per_second<0.95'; may be given several times"
    parser.add_argument("--fail-if", metavar="CONDITION", action="append", default=[], help=condition)
    parser.add_argument("--strict", action="store_true", help="conditions hold within noise, too")
    parser.add_argument("--all", dest="shows_all", action="store_true", help="show figures that are equal, too")
    parser.add_argument("--no-color", dest="has_colour", action="store_false", help="no colours on a terminal")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(options: argparse.Namespace) -> int:
    """Compare and print. Raises what ``failure`` knows how to tell."""
    ours, theirs = _sides(options.traces, options.others)
    try:
        thresholds = [parse(text) for text in options.fail_if]
    except ThresholdError as error:
        raise UsageError(error.message, error.hint) from error
    traces = _read([*ours, *theirs])
    a, b = traces[: len(ours)], traces[len(ours) :]
    comparison = compare(a, b)
    outcomes = _check(thresholds, comparison, is_strict=options.strict)
    names = [_name(paths, side) for paths, side in ((ours, a), (theirs, b))]
    if options.json:
        _print_json(comparison, outcomes, (ours, theirs))
    else:
        has_colour = options.has_colour and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(as_text(comparison, names, outcomes, has_colour=has_colour, shows_all=options.shows_all))
    failed = [outcome for outcome in outcomes if outcome.has_failed]
    for outcome in failed:
        note(f"failed: {outcome.sentence}")
    return int(ExitCode.RUN_FAILED if failed else ExitCode.DONE)


def _sides(traces: Sequence[Path], others: Sequence[Path] | None) -> tuple[Sequence[Path], Sequence[Path]]:
    if others is None:
        if len(traces) != 2:
            hint = "With repeats: diff A1 A2 .. --with B1 B2 .."
            raise UsageError(f"Two traces are compared, but {len(traces)} were named.", hint)
        return traces[:1], traces[1:]
    if len(traces) != len(others):
        message = f"A has {len(traces)} and B has {len(others)} runs; they are compared in pairs."
        raise UsageError(message, "Name as many on both sides, in the order in which they were recorded.")
    return traces, others


def _read(paths: Sequence[Path]) -> list[Trace]:
    traces = []
    with ProgressLine(sys.stderr) as line:
        for number, path in enumerate(paths):
            line.show(f"Reading {path.name}", number / len(paths))
            try:
                traces.append(read_trace(path))
            except TraceError as error:
                raise InputError(str(error)) from error
    return traces


def _check(thresholds: Sequence[Threshold], comparison: Comparison, *, is_strict: bool) -> list[Outcome]:
    try:
        return [check(threshold, comparison, ignores_noise=is_strict) for threshold in thresholds]
    except ThresholdError as error:
        raise UsageError(error.message, error.hint) from error


def _name(paths: Sequence[Path], traces: Sequence[Trace]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{name_words(paths[0], traces[0])}{more}"


def _print_json(comparison: Comparison, outcomes: Sequence[Outcome], sides: tuple[Sequence[Path], ...]) -> None:
    found = {side: [str(path) for path in paths] for side, paths in zip("ab", sides, strict=True)}
    checked = [
        {
            "condition": outcome.threshold.text,
            "value": None if outcome.value != outcome.value else outcome.value,
            "has_failed": outcome.has_failed,
            "sentence": outcome.sentence,
        }
        for outcome in outcomes
    ]
    print(json.dumps(found | comparison.as_json() | {"fail_if": checked}, indent=2, allow_nan=False))
