"""Operations on slots in words: what was done, how many tokens it kept, and why no more. One table for all who tell."""

from __future__ import annotations

from typing import Any

from draftscope.engine.events import NO_ROUND, Operation, Reuse

OPERATIONS = {
    Operation.SUBMIT: "prompt submitted",
    Operation.CANCEL: "task cancelled",
    Operation.RELEASE: "slot released",
    Operation.CLEAR: "slot cleared",
    Operation.PROMPT_SAVE: "prompt checkpoint saved",
    Operation.PROMPT_RESTORE: "prompt checkpoint restored",
    Operation.CACHE_STORE: "put into the prompt cache",
    Operation.CACHE_TAKE: "taken from the prompt cache",
    Operation.SLOT_SAVE: "slot saved",
    Operation.SLOT_RESTORE: "slot restored",
    Operation.SHIFT: "context shifted",
    Operation.REWIND: "slot rewound",
    Operation.FORK: "forked from another slot",
    Operation.STATE_REFUSED: "saved state refused",
    Operation.PROMPT_EVICT: "prompt checkpoint given up",
}

REUSES = {
    Reuse.NONE: "the slot was empty",
    Reuse.KEPT: "the prompt goes on from what the slot held",
    Reuse.TAIL_DROPPED: "what differed was dropped",
    Reuse.RESTORED: "a prompt checkpoint was restored",
    Reuse.CACHED: "the prompt cache had it",
    Reuse.NOTHING_COMMON: "the prompt has nothing in common with what the slot held",
    Reuse.NO_CHECKPOINT: "the model's memory cannot drop its newest tokens, and no prompt checkpoint lies early enough",
    Reuse.TURNED_OFF: "reuse was turned off",
    Reuse.REFUSED: "a saved state was refused",
    Reuse.SHIFTED: "the context was shifted",
}
"""Why so much was reused, and no more: as the second half of a sentence."""


_AMOUNTS = {
    int(Operation.SHIFT): "{} forgotten",
    int(Operation.PROMPT_SAVE): "after {}",
    int(Operation.PROMPT_RESTORE): "after {}",
    int(Operation.PROMPT_EVICT): "after {}",
}
"""What the count of an operation says, where it is not how much was kept."""


def reuse_words(name: str) -> str:
    """A ``Reuse`` in words, by its name in lower case as results have it; a name that is not known stays as it is."""
    return REUSES[Reuse[name.upper()]] if name.upper() in Reuse.__members__ else name


def reuse_clause(n_reused: int, name: str, n_prompt: int) -> str:
    """How many tokens of a prompt were there already, and why no more; '' for the first prompt of a slot."""
    if name in ("", Reuse.NONE.name.lower()):
        return ""
    amount = f"{n_reused:,} of {n_prompt:,} prompt tokens" if n_reused else "nothing of the prompt"
    return f"{amount} reused: {reuse_words(name)}"


def operation_words(record: Any) -> str:
    """What an ``OPERATION`` record tells, such as ``slot 2 · prompt submitted · 30 of 31 prompt tokens ...``.

    Codes that this version does not know are told as such.
    """
    code, n, reuse = int(record["code"]), int(record["n"]), int(record["m"])
    known = code in {int(operation) for operation in Operation}
    words = [f"slot {int(record['slot'])}", OPERATIONS[Operation(code)] if known else f"unknown operation {code}"]
    if code == Operation.SUBMIT:
        name = Reuse(reuse).name.lower() if reuse in {int(why) for why in Reuse} else ""
        words.append(reuse_clause(n, name, int(record["position"])))
    elif n > 0:
        words.append(_AMOUNTS.get(code, "{} kept").format(_amount(n)))
    if record["round"] != NO_ROUND:
        words.append(f"round {int(record['round'])}")
    return " · ".join(word for word in words if word)


def _amount(n: int) -> str:
    return "nothing" if n == 0 else f"{n} token" if n == 1 else f"{n} tokens"
