"""Where two runs wrote different tokens: task by task the first one at which they part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind, Origin
from draftscope.trace.compare_figures import in_prompt_order
from draftscope.trace.paired import first_difference
from draftscope.trace.trace import Trace

_CONTEXT_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Output:
    """The tokens of a task as it went.

    Attributes:
        slot, prompt: the slot that served it, and the number of its prompt, -1 where nobody wrote it down.
        n_prompt: tokens of its prompt, -1 where it is not known.
        tokens: ids int64 (N,), all -1 where the file has no text.
    """

    slot: int
    prompt: int
    n_prompt: int
    tokens: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Parting:
    """The first token of a task that differs.

    Attributes:
        index: of the token in the output, from 0. ``position``: in the slot's sequence, -1 where it is not known.
        token_a, token_b: None where that output has ended.
        text_a, text_b, before: the tokens, and what both wrote before them, as text; '' without text.
    """

    slot: int
    prompt: int
    index: int
    position: int
    token_a: int | None
    token_b: int | None
    text_a: str
    text_b: str
    before: str


@dataclass(frozen=True, slots=True)
class Outputs:
    """``n_compared`` tasks that both runs have, with those that part. ``why_not``: why tokens could not be compared."""

    n_compared: int
    partings: tuple[Parting, ...]
    n_only_one: int = 0
    why_not: str = ""

    @property
    def are_equal(self) -> bool:
        """Whether every task gave the same tokens, and no run has tasks that the other does not."""
        return not (self.partings or self.n_only_one or self.why_not)


def compare_outputs(a: Trace, b: Trace) -> Outputs:
    """Compare task by task: by the number of the prompt where both files have it, else by slot."""
    ours, theirs = _keyed(outputs_of(a), outputs_of(b))
    if not ours or not theirs:
        which = "Neither file has" if not ours and not theirs else f"{'A' if not ours else 'B'} does not have"
        return Outputs(0, (), why_not=f"{which} any output.")
    if any((output.tokens < 0).any() for side in (ours, theirs) for output in side.values()):
        return Outputs(0, (), why_not="A file was written without text, so its tokens cannot be compared.")
    both = [key for key in ours if key in theirs]
    partings = (_parting(ours[key], theirs[key], a, b) for key in both)
    n_only_one = len(ours) + len(theirs) - 2 * len(both)
    return Outputs(len(both), tuple(parting for parting in partings if parting is not None), n_only_one)


def _keyed(*sides: list[Output]) -> tuple[dict[tuple[int, int], Output], ...]:
    """By number of prompt or slot, and which of several tasks with that number it is."""
    has_prompts = all(output.prompt >= 0 for side in sides for output in side)
    keyed: list[dict[tuple[int, int], Output]] = []
    for side in sides:
        found: dict[tuple[int, int], Output] = {}
        seen: Counter[int] = Counter()
        for output in side:
            number = output.prompt if has_prompts else output.slot
            found[number, seen[number]] = output
            seen[number] += 1
        keyed.append(found)
    return tuple(keyed)


def outputs_of(trace: Trace) -> list[Output]:
    """The outputs of a trace: its results, or of a recording that was cut off what the records have."""
    results = in_prompt_order(trace.results)
    if results and trace.is_complete and all(is_tokens(result.get("tokens")) for result in results):
        return [_of_result(result) for result in results]
    return list(_of_records(trace))


def is_tokens(value: Any) -> bool:
    """Whether it is a list of token ids, as results of a file with text have them."""
    return isinstance(value, list) and all(isinstance(token, int) for token in value)


def _of_result(result: dict[str, Any]) -> Output:
    numbers = [result.get(name) for name in ("slot", "prompt", "n_prompt")]
    slot, prompt, n_prompt = (number if isinstance(number, int) else -1 for number in numbers)
    return Output(slot, prompt, n_prompt, np.array(result["tokens"], np.int64))


def _of_records(trace: Trace) -> Iterator[Output]:
    records = trace.store.kind(Kind.TOKEN)
    kept = records[records["code"] != Origin.REJECTED]
    for slot in np.unique(kept["slot"]).tolist():
        own = kept[kept["slot"] == slot]
        yield Output(slot, -1, int(own["position"][0]), own["token"].astype(np.int64))


def _parting(ours: Output, theirs: Output, a: Trace, b: Trace) -> Parting | None:
    index = first_difference(ours.tokens, theirs.tokens)
    if index is None:
        return None
    sides = [(_at(ours.tokens, index), a), (_at(theirs.tokens, index), b)]
    if any(token is None and not trace.is_complete for token, trace in sides):
        return None  # the recording ended, not the text
    texts = [_text(token, trace) for token, trace in sides]
    known = ours.tokens[max(0, index - _CONTEXT_TOKENS) : index].tolist()
    before = a.pieces.text(known) if len(a.pieces) else ""
    position = ours.n_prompt + index if ours.n_prompt >= 0 else -1
    return Parting(ours.slot, ours.prompt, index, position, sides[0][0], sides[1][0], texts[0], texts[1], before)


def _at(tokens: NDArray[np.int64], index: int) -> int | None:
    return int(tokens[index]) if index < len(tokens) else None


def _text(token: int | None, trace: Trace) -> str:
    return "" if token is None or trace.pieces.piece(token) is None else trace.pieces.text([token])
