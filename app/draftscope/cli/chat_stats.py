"""The figures of a chat: one row an answer, and all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftscope.base import units
from draftscope.cli.run_summary import acceptance_of, number
from draftscope.cli.terminal import table
from draftscope.engine.protocol import ModelReport, SlotResult
from draftscope.trace.answer_words import END_WORDS


def stats_as_json(results: Sequence[SlotResult], model: ModelReport) -> dict[str, Any]:
    """Sums over all answers, and how full the slot is; figures that do not exist are null."""
    total = acceptance_of(results)
    return {
        "n_answers": len(results),
        "n_prompt": sum(result.n_prompt for result in results),
        "n_reused": sum(result.n_reused for result in results),
        "n_tokens": sum(len(result.tokens) for result in results),
        "draft_n": total.draft_n,
        "draft_n_accepted": total.n_accepted,
        "acceptance": number(total.rate),
        "mean_accepted_length": number(total.mean_accepted_length),
        "n_ctx": model.n_ctx,
        "n_ctx_used": results[-1].n_prompt + len(results[-1].tokens) if results else 0,
    }


def stats_as_text(results: Sequence[SlotResult], model: ModelReport) -> str:
    """A table for a person."""
    header = ("answer", "prompt", "reused", "tokens", "accepted", "length", "tok/s", "first token", "end")
    rows = []
    for index, result in enumerate(results, 1):
        acceptance = acceptance_of([result])
        rows.append(
            (
                str(index),
                str(result.n_prompt),
                str(result.n_reused),
                str(len(result.tokens)),
                units.percent(acceptance.rate),
                units.figure(acceptance.mean_accepted_length),
                units.figure(acceptance.tokens_per_second),
                units.duration(result.ttft_ms * 1e6) if result.tokens else "–",
                END_WORDS.get(result.stop, result.stop),
            )
        )
    used = stats_as_json(results, model)["n_ctx_used"]
    return f"{table(header, rows)}\ncontext  {used:,} of {model.n_ctx:,} tokens"
