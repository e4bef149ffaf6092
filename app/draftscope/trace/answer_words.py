"""What an answer of a conversation cost and how it was drafted, in a few words under it; window and terminal use it."""

from __future__ import annotations

import math

from draftscope.base import units
from draftscope.trace.acceptance import SlotAcceptance

END_WORDS = {
    "end_of_generation": "end of text",
    "max_tokens": "token limit",
    "stop_string": "stop string",
    "cancelled": "stopped",
    "context_full": "context full",
    "failed": "failed",
}
"""Why a task ended, by ``StopReason`` in lower case: the same words in the window, in tables and over texts."""

_ENDS = {
    "max_tokens": "ended at the token limit",
    "context_full": "ended: the context is full",
    "cancelled": "stopped",
    "failed": "failed",
}
"""Ends of an answer that are worth a word; others are how an answer should end."""


def answer_words(n_prompt: int, n_reused: int, acceptance: SlotAcceptance, stop: str) -> tuple[str, ...]:
    """The parts: prompt tokens processed and reused, tokens generated, acceptance, speed, and an unusual end.

    Args:
        n_prompt: tokens of the whole prompt, all turns before included.
        n_reused: those of them that the slot's memory held already.
        acceptance: the figures of this answer alone.
        stop: ``StopReason`` in lower case.
    """
    n_read = n_prompt - n_reused
    parts = [
        f"prompt {n_read:,} {'token' if n_read == 1 else 'tokens'}" + (f", {n_reused:,} reused" if n_reused else "")
    ]
    parts.append(f"answer {acceptance.n_tokens:,}")
    if acceptance.draft_n:
        parts.append(f"{units.percent(acceptance.rate)} accepted")
    if not math.isnan(acceptance.tokens_per_second):
        parts.append(units.rate(acceptance.tokens_per_second))
    if stop in _ENDS:
        parts.append(_ENDS[stop])
    return tuple(parts)
