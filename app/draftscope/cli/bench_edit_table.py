"""A bench of the workload ``edit`` as tables: prompts and first tokens, then drafts and speeds, by number of slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from draftscope.base.units import duration, figure
from draftscope.cli.terminal import figure_or_dash, percent_or_dash, table

Variant = Mapping[str, Any]

_PROMPTS = ("after the edit", "prompt", "changed", "processed", "first token", "best", "before the edit")
_DRAFTS = (
    *("", "first 8", "accepted", "length", "before", "not as fresh", "not as restored"),
    *("tok/s", "before", "ratio", "before", "tokens"),
)

EXPLAINED = """\
prompt, changed, processed: tokens a task. first token: median and best time to it. first 8: accepted / drafted in the
first 8 rounds after the edit. accepted, length, tok/s, ratio: of the whole reply; before: of the turns before the edit.
not as fresh, not as restored: drafted tokens that are others there, and how far probabilities of the same differ. A
restore decodes other pieces than a fresh prefill, which llama.cpp rounds otherwise; with hooks and without, the same.
ratio: to the first line, median of the ratios of runs side by side. tokens: same as the first line's in every turn."""


def edit_tables(shown: Sequence[Variant], label: Callable[[Variant], str]) -> Iterator[str]:
    """The tables of one number of slots; the first variant is what the others are compared with."""
    names = [f"{number:2} {label(variant)}" for number, variant in enumerate(shown, 1)]
    yield table(_PROMPTS, [(name, *_prompts(variant["edit"])) for name, variant in zip(names, shown, strict=True)])
    yield table(_DRAFTS, [(name, *_drafts(variant)) for name, variant in zip(names, shown, strict=True)])


def _prompts(edit: Mapping[str, Any]) -> Iterator[str]:
    for name in ("n_prompt", "n_changed", "n_processed"):
        yield figure_or_dash(edit[name])
    for times, which in ((edit["ttft_ms"], "median"), (edit["ttft_ms"], "best"), (edit["before"]["ttft_ms"], "median")):
        yield "-" if times[which] is None else duration(times[which] * 1e6)


def _drafts(variant: Variant) -> Iterator[str]:
    edit, before = variant["edit"], variant["edit"]["before"]
    first, is_drafting = edit["first_rounds"], variant["draft_n"] > 0
    yield f"{first['draft_n_accepted']}/{first['draft_n']}" if is_drafting else "-"
    yield percent_or_dash(variant["acceptance"])
    yield figure_or_dash(variant["mean_accepted_length"]) if is_drafting else "-"
    yield figure_or_dash(before["mean_accepted_length"]) if is_drafting else "-"
    yield _compared(edit["drafts"].get("fresh prefill"))
    yield _compared(edit["drafts"].get("restored") if variant["start"] == "restored without hooks" else None)
    yield figure_or_dash(variant["tokens_per_second"]["median"])
    yield figure_or_dash(before["tokens_per_second"]["median"])
    yield figure_or_dash(variant["ratio"]["median"])
    yield figure_or_dash(before["ratio"]["median"])
    yield "same" if variant["tokens"]["are_equal"] else "differ"


def _compared(drafts: Mapping[str, Any] | None) -> str:
    if drafts is None:
        return "-"
    difference = drafts["max_probability_difference"]
    return f"{drafts['n_other']} of {drafts['n_compared']}" + ("" if difference is None else f", {figure(difference)}")
