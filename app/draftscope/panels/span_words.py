"""A span in words: what was done, in which round, on how many tokens. No Qt."""

from __future__ import annotations

import numpy as np

from draftscope.engine.events import ENGINE_TRACK, NO_ROUND, Phase

PHASE_WORDS = {
    Phase.PROMPT: "prompt",
    Phase.DRAFT: "draft",
    Phase.CATCH_UP: "catch-up",
    Phase.SAVE: "save",
    Phase.VERIFY: "verify",
    Phase.ACCEPT: "accept",
    Phase.RESTORE: "restore",
    Phase.REPLAY: "replay",
    Phase.PROBE: "probe",
    Phase.LOAD: "load",
    Phase.IDLE: "idle",
}
"""Names of the phases, in the order of a round."""

PHASE_MEANS = {
    Phase.PROMPT: "The target and the draft context read the prompt.",
    Phase.DRAFT: "The MTP layer proposes tokens, one decode for each draft position.",
    Phase.CATCH_UP: "The draft context takes in the accepted tokens in a decode of their own.",
    Phase.SAVE: "The state that a rejection would need is kept.",
    Phase.VERIFY: "The target decodes the drafted tokens of all slots at once.",
    Phase.ACCEPT: "Each drafted token is compared with the target's choice.",
    Phase.RESTORE: "The state goes back to the last accepted token.",
    Phase.REPLAY: "Accepted tokens are decoded again after a restore.",
    Phase.PROBE: "A restore is measured; the run takes longer and stays the same.",
    Phase.LOAD: "The model is read.",
    Phase.IDLE: "Nothing is done.",
}


def lane_name(slot: int) -> str:
    """Name of a lane."""
    return "engine" if slot == ENGINE_TRACK else f"slot {slot}"


def span_words(span: np.void) -> str:
    """Lane, phase, round and batch of a span; its length is told apart, in the unit of the axis."""
    phase = Phase(int(span["code"]))
    words = [lane_name(int(span["slot"])), PHASE_WORDS[phase]]
    if span["slot"] == ENGINE_TRACK and phase == Phase.DRAFT:
        words[-1] += f" step {int(span['position']) + 1}"
    if span["round"] != NO_ROUND:
        words.append(f"round {int(span['round'])}")
    words.extend(_batch_words(span, phase))
    return " · ".join(words)


def _batch_words(span: np.void, phase: Phase) -> list[str]:
    n, m = int(span["n"]), int(span["m"])
    if phase == Phase.ACCEPT:
        return [f"{m} of {n} drafted accepted"]
    if n <= 0:
        return []
    tokens = f"{n} token" if n == 1 else f"{n} tokens"
    if span["slot"] == ENGINE_TRACK and m > 0:
        return [tokens, "1 graph run" if m == 1 else f"{m} graph runs"]
    if span["slot"] != ENGINE_TRACK and m > 0:
        return [tokens, f"{m} of them replayed"]
    return [tokens]
