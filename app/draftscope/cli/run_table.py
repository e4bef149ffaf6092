"""The figures of a run as text with a table, for a person."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from draftscope.base.units import bytes_text, duration, rate
from draftscope.cli.terminal import figure_or_dash, percent_or_dash, table
from draftscope.trace.answer_words import END_WORDS
from draftscope.trace.operation_words import reuse_clause

_SURPRISING = ("no_checkpoint", "refused")
"""Reasons for reusing nothing that are told; a prompt that has nothing in common with the one before is no news."""

MOST_FALLBACKS = 10
"""Fallbacks that are told one by one; of more, only the number."""


def as_text(summary: dict[str, Any]) -> str:
    """The object of ``run --json`` as a line for each task, and what the run cost."""
    has_reused = any(slot["n_reused"] for slot in summary["slots"])
    reused_header = ("reused",) if has_reused else ()
    header = (
        "slot",
        "prompt",
        *reused_header,
        "tokens",
        "accepted",
        "length",
        "by position",
        "tok/s",
        "first token",
        "end",
    )
    rows = [
        (
            str(slot["slot"]),
            str(slot["prompt"] + 1),
            *((f"{slot['n_reused']} of {slot['n_prompt']}",) if has_reused else ()),
            str(slot["n_tokens"]),
            percent_or_dash(slot["acceptance"]),
            figure_or_dash(slot["mean_accepted_length"]),
            " ".join(percent_or_dash(share).replace(" ", "") for share in slot["acceptance_per_position"]) or "-",
            figure_or_dash(slot["tokens_per_second"]),
            "-" if slot["ttft_ms"] is None else duration(slot["ttft_ms"] * 1e6),
            END_WORDS.get(slot["stop"], slot["stop"]),
        )
        for slot in summary["slots"]
    ]
    return "\n".join([table(header, rows), "", *_lines(summary)])


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _lines(summary: dict[str, Any]) -> Iterator[str]:
    speculation, decodes, checkpoints = summary["speculation"], summary["decodes"], summary["checkpoints"]
    if decodes["rounds"]:
        target, draft = figure_or_dash(decodes["target_per_round"]), figure_or_dash(decodes["draft_per_round"])
        yield (
            f"rounds      {decodes['rounds']}; decodes a round: {target} of the target, {draft} of the MTP context; "
            f"replays of their own: {decodes['replay']}"
        )
    if speculation["is_active"]:
        saves = f"{_count(checkpoints['n_saves'], 'save')}{_time(checkpoints['save_us'])}"
        restores = f"{_count(checkpoints['n_restores'], 'restore')}{_time(checkpoints['restore_us'])}"
        mode = checkpoints["mode"].replace("_", " ")
        yield f"way back    {mode}: {saves}, {restores}, {_count(len(summary['fallbacks']), 'fallback')}"
        if (after := checkpoints["after_restore_us"]) and after["paid"] > 0:
            yield f"{'':<12}decodes of the target after a restore take {duration(after['paid'] * 1e3)} longer a round"
        if speculation["reason"]:
            yield f"drafts      {speculation['reason']}"
    else:
        yield f"no drafts   {speculation['reason']}"
    if summary["settings"]["context"]["shift"] and not summary["model"]["shifts"]:
        yield f"full slots  end: {summary['model']['why_not_shift']}"
    if n_shifts := summary["totals"]["n_shifts"]:
        yield f"full slots  forgot the older half of what they held, {_count(n_shifts, 'time')}"
    for slot in summary["slots"]:
        if not slot["n_reused"] and slot["reuse"] in _SURPRISING:
            yield f"prompt {slot['prompt'] + 1:<4} {reuse_clause(0, slot['reuse'], slot['n_prompt'])}"
    yield from _probes(summary.get("probes"))
    yield from _fallbacks(summary["fallbacks"])
    yield from _slot_files(summary["slot_files"])
    totals = summary["totals"]
    speed = rate(totals["tokens_per_second"] or math.nan)
    yield f"in all      {totals['n_tokens']} tokens in {duration(totals['wall_ms'] * 1e6)} with prompts: {speed}"
    if dropped := summary["records"]["dropped"]:
        yield f"dropped     {dropped} trace records; acceptance and lengths come from counts that have no gaps"
    if summary["is_interrupted"]:
        yield "interrupted: these are the figures until then"


def _fallbacks(fallbacks: list[dict[str, Any]]) -> Iterator[str]:
    """The first fallbacks in sentences, and how many more there were."""
    for index, fallback in enumerate(fallbacks[:MOST_FALLBACKS]):
        yield f"{'' if index else 'fallbacks':<12}{fallback['sentence']}"
    if (n_more := len(fallbacks) - MOST_FALLBACKS) > 0:
        yield f"{'':<12}and {n_more} more, which --json lists"


def _slot_files(files: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Which slots came from files and went into some."""
    for name, rows in (("restored", files["restored"]), ("saved", [row for row in files["saved"] if not row["error"]])):
        for index, row in enumerate(rows):
            what = f"slot {row['slot']}, {row['n_tokens']} tokens, {bytes_text(row['size_bytes'])}: {row['file']}"
            yield f"{'' if index else name:<12}{what}"


def _time(durations: dict[str, Any] | None) -> str:
    if not durations:
        return ""
    return f" (median {duration(durations['median'] * 1e3)}, p99 {duration(durations['p99'] * 1e3)})"


def _probes(probes: dict[str, Any] | None) -> Iterator[str]:
    """What was measured of restores; None: nothing was to be."""
    if probes is None:
        return
    verdicts, cost = probes["verdicts"], probes["cost"]
    took = f"; took {duration(cost['probed_ms'] * 1e6)}, {percent_or_dash(cost['share'])} of the time"
    if not probes["n"]:
        yield f"probes      no restores, so nothing to compare at level {probes['level']}"
    elif verdicts["n_differing"]:
        n, first = verdicts["n_differing"], verdicts["first"][0]
        yield f"probes      {n} of {_count(probes['n'], 'restore')} differ, such as {first}{took}"
    else:
        yield f"probes      {_count(probes['n'], 'restore')} at level {probes['level']}: all equal{took}"
    if words := probes["rows_in_use"]["words"]:
        yield f"{'':<12}{words}"
    if lost := probes["n_dropped"] + probes["n_not_kept"]:
        yield f"{'':<12}{_count(lost, 'array')} of probes could not be kept"
