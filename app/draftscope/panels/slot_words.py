"""What a slot is doing and why it ended, in words. No Qt."""

from __future__ import annotations

import numpy as np

from draftscope.engine.events import Kind, SlotState, StopReason
from draftscope.trace.answer_words import END_WORDS
from draftscope.trace.store import TraceStore

_STATES = {
    SlotState.IDLE: "waiting",
    SlotState.PROMPT: "reading the prompt",
    SlotState.GENERATING: "generating",
    SlotState.DONE: "done",
}

_BEFORE = {
    StopReason.END_OF_GENERATION: "done: ",
    StopReason.MAX_TOKENS: "done: ",
    StopReason.STOP_STRING: "done: ",
    StopReason.CONTEXT_FULL: "ended: ",
}


def state_word(state: SlotState, reason: StopReason) -> str:
    """A slot's state, and for one that is done the reason."""
    if state == SlotState.DONE:
        return _BEFORE.get(reason, "") + END_WORDS.get(reason.name.lower(), _STATES[state])
    return _STATES[state]


def slot_words(store: TraceStore, *, is_running: bool) -> dict[int, str]:
    """The state of every slot that the store has records of, in words.

    A slot whose end was never recorded, though nothing runs any more, was cut off: its engine ended under it.
    """
    records = store.kind(Kind.SLOT)
    words: dict[int, str] = {}
    newest_first = records[::-1]
    _, newest = np.unique(newest_first["slot"], return_index=True)
    for record in newest_first[newest]:
        state, reason = SlotState(int(record["code"])), StopReason(int(record["n"]))
        is_cut_off = not is_running and state in (SlotState.PROMPT, SlotState.GENERATING)
        words[int(record["slot"])] = "cut off" if is_cut_off else state_word(state, reason)
    return words
