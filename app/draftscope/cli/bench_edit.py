"""Figures of the workload ``edit``: of one setting, the reply after the edit beside the turns before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.cli.bench_rounds import TaskRounds, compare_drafts, first_rounds
from draftscope.cli.bench_runner import Measured
from draftscope.cli.bench_sample import Sample, by_repeat
from draftscope.cli.run_summary import acceptance_of, number
from draftscope.engine.protocol import SlotResult
from draftscope.trace.paired import Summary, paired_ratios, summary_of

N_FIRST_ROUNDS = 8
"""Of each reply after the edit: there a wrong hidden row would show."""

DEFINITIONS = {
    "before": "all turns before the edit; everything outside it is of the reply after the edit",
    "n_prompt": "tokens of the prompts after the edit, mean a task",
    "n_changed": "those from the first on that the slot did not hold, mean a task; null where nobody compared",
    "n_processed": "those that were decoded, mean a task",
    "ttft_ms": "time to first token, mean over the tasks of a run; best: the shortest",
    "first_rounds": f"the first {N_FIRST_ROUNDS} rounds of each reply after the edit",
    "drafts": "drafted tokens against those of the same setting with another start, at the same position and draft "
    "position, of the first counted runs of both; max_probability_difference: where the tokens are the same. A restore "
    "decodes other pieces than a fresh prefill, which llama.cpp rounds otherwise; with hooks and without, the same",
}
"""What they mean, beside the definitions of every bench."""


def edit_figures(
    entry: Measured, reference: Measured | None, measured: Sequence[Measured], n_repeats: int
) -> dict[str, Any]:
    """The figures of one of the ``measured`` settings.

    Args:
        reference: what speeds are compared with; None where there is none.
    """
    samples, before = entry.samples, [sample.before for sample in entry.samples if sample.before]
    results = [result for sample in samples for result in sample.results]
    rounds = [task for sample in samples for task in sample.rounds]
    first = first_rounds(rounds, N_FIRST_ROUNDS)
    return {
        "n_prompt": _mean([result.n_prompt for result in results]),
        "n_changed": _mean([r.n_prompt - task.n_common for r, task in zip(results, rounds, strict=True)]),
        "n_processed": _mean([result.n_prompt - result.n_reused for result in results]),
        "reuse": {how: [r.reuse for r in results].count(how) for how in dict.fromkeys(r.reuse for r in results)},
        "ttft_ms": _times(by_repeat(samples, n_repeats, _ttft_ms)),
        "first_rounds": {
            "n_rounds": N_FIRST_ROUNDS,
            "draft_n": first.draft_n,
            "draft_n_accepted": first.n_accepted,
            "acceptance": first.n_accepted / first.draft_n if first.draft_n else None,
        },
        "drafts": _drafts(entry, measured),
        "before": _before(before, reference, n_repeats),
    }


def _drafts(entry: Measured, measured: Sequence[Measured]) -> dict[str, Any]:
    """Compared with other starts of the same setting, by their names."""
    ours = _first_rounds(entry)
    found = {}
    for other in measured:
        start, theirs = other.variant.start, _first_rounds(other)
        if start is not None and ours and theirs and replace(entry.variant, start=start) == other.variant:
            compared = compare_drafts(ours, theirs)
            if other is not entry and compared.n:
                found[start.value] = {
                    "n_compared": compared.n,
                    "n_other": compared.n_other,
                    "max_probability_difference": number(compared.max_probability_difference),
                }
    return found


def _first_rounds(entry: Measured) -> tuple[TaskRounds, ...]:
    """Of the first counted run."""
    return entry.samples[0].rounds if entry.samples else ()


def _before(samples: Sequence[Sample], reference: Measured | None, n_repeats: int) -> dict[str, Any]:
    results = [result for sample in samples for result in sample.results]
    total = acceptance_of(results) if results else None
    speeds = by_repeat(samples, n_repeats, lambda sample: sample.tokens_per_second)
    others = [sample.before for sample in reference.samples if sample.before] if reference else []
    ratios = paired_ratios(speeds, by_repeat(others, n_repeats, lambda sample: sample.tokens_per_second))
    return {
        "tokens_per_second": summary(summary_of(speeds)),
        "ratio": summary(summary_of(ratios)),
        "acceptance": number(total.rate) if total else None,
        "mean_accepted_length": number(total.mean_accepted_length) if total else None,
        "ttft_ms": _times(by_repeat(samples, n_repeats, _ttft_ms)),
    }


def summary(of: Summary) -> dict[str, Any]:
    """As JSON; figures that do not exist are null."""
    figures = {name: number(getattr(of, name)) for name in ("median", "best", "low", "high")}
    return {"n": of.n, **figures, "spread": of.spread}


def _times(row: NDArray[np.float64]) -> dict[str, Any]:
    """Of times the best is the least."""
    of = summary(summary_of(row))
    return of | {"best": float(np.nanmin(row)) if of["n"] else None}


def _ttft_ms(sample: Sample) -> float:
    told: list[SlotResult] = [result for result in sample.results if result.tokens]
    return sum(result.ttft_ms for result in told) / len(told) if told else math.nan


def _mean(values: Sequence[float]) -> float | None:
    return number(sum(values) / len(values)) if values else None
