"""The figures of a run as text with a table, for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from draftscope.cli.terminal import table


def as_text(summary: dict[str, Any]) -> str:
    """The object of ``run --json`` as a line for each task, and what the run cost."""
    header = ("slot", "prompt", "tokens", "accepted", "length", "by position", "tok/s", "first token")
    rows = [
        (
            str(slot["slot"]),
            str(slot["prompt"] + 1),
            str(slot["n_tokens"]),
            _percent(slot["acceptance"]),
            _figure(slot["mean_accepted_length"]),
            " ".join(_percent(rate) for rate in slot["acceptance_per_position"]) or "-",
            _figure(slot["tokens_per_second"]),
            f"{_figure(slot['ttft_ms'])} ms",
        )
        for slot in summary["slots"]
    ]
    return "\n".join([table(header, rows), "", *_lines(summary)])


def _lines(summary: dict[str, Any]) -> Iterator[str]:
    speculation, decodes, checkpoints = summary["speculation"], summary["decodes"], summary["checkpoints"]
    if decodes["rounds"]:
        target, draft = _figure(decodes["target_per_round"]), _figure(decodes["draft_per_round"])
        yield (
            f"rounds      {decodes['rounds']}; decodes a round: {target} of the target, {draft} of the MTP context; "
            f"replays of their own: {decodes['replay']}"
        )
    if speculation["is_active"]:
        saves = f"{checkpoints['n_saves']} saves{_time(checkpoints['save_us'])}"
        restores = f"{checkpoints['n_restores']} restores{_time(checkpoints['restore_us'])}"
        mode = checkpoints["mode"].replace("_", " ")
        yield f"way back    {mode}: {saves}, {restores}, {len(summary['fallbacks'])} fallbacks"
        if speculation["reason"]:
            yield f"drafts      {speculation['reason']}"
    else:
        yield f"no drafts   {speculation['reason']}"
    totals = summary["totals"]
    seconds, rate = _figure(totals["wall_ms"] / 1e3), _figure(totals["tokens_per_second"])
    yield f"in all      {totals['n_tokens']} tokens in {seconds} s with prompts: {rate} tok/s"
    if dropped := summary["records"]["dropped"]:
        yield f"dropped     {dropped} trace records; acceptance and lengths come from counts that have no gaps"
    if summary["is_interrupted"]:
        yield "interrupted: these are the figures until then"


def _time(durations: dict[str, Any] | None) -> str:
    return f" (median {_figure(durations['median'])} us, p99 {_figure(durations['p99'])} us)" if durations else ""


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
