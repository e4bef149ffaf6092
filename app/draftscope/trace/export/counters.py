"""Counters of a trace: what a viewer draws as a curve over time.

Of every slot: the *accepted length* of each round (1 + accepted), the *target position* (tokens that the target has
decoded: at the start and the end of each of its decodes, and after each restore) and the *draft position* (tokens of
the slot at the start of a draft, and with those drafted at its end). Of all slots together: the bytes of the state
that each slot saved last, in host memory and in device memory (which is where the context's own memory is).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import ENGINE_TRACK, Kind, Mechanism, Phase, Records
from draftscope.trace.export.arguments import track_name
from draftscope.trace.export.layout import ByKind, Ints, ends_of

_PLACES = {
    "checkpoints in host memory": (Mechanism.HOST,),
    "checkpoints in device memory": (Mechanism.COW, Mechanism.DEVICE),
}
"""Names of the counters of bytes, and the mechanisms that save there."""

_DECODES = (Phase.PROMPT, Phase.VERIFY, Phase.REPLAY)
"""Phases in which the target decodes tokens of a slot."""


class Counter(NamedTuple):
    """From each of its times on, a counter has the value beside it.

    Attributes:
        t_ns: int64 (C,), never falling.
        values: int64 (C,).
    """

    name: str
    unit: str
    t_ns: Ints
    values: Ints


def slot_counters(records: ByKind, slot: int) -> list[Counter]:
    """Counters of one slot; those without a value are left out, and the engine track has none."""
    if slot == ENGINE_TRACK:
        return []
    rounds, spans, restores = (_of_slot(records[kind], slot) for kind in (Kind.ROUND, Kind.SPAN, Kind.RESTORE))
    decodes = spans[np.isin(spans["code"], _DECODES)]
    drafts = spans[spans["code"] == Phase.DRAFT]
    first, n = decodes["position"].astype(np.int64), decodes["n"].astype(np.int64)
    draft_first, draft_n = drafts["position"].astype(np.int64), drafts["n"].astype(np.int64)
    found = [
        _counter("accepted length", "tokens", [ends_of(rounds)], [1 + rounds["m"].astype(np.int64)]),
        _counter(
            "target position",
            "tokens",
            [decodes["t_start_ns"], ends_of(decodes), ends_of(restores)],
            [first, first + n, restores["position"].astype(np.int64)],
        ),
        _counter(
            "draft position",
            "tokens",
            [drafts["t_start_ns"], ends_of(drafts)],
            [draft_first, draft_first + draft_n],
        ),
    ]
    name = track_name(slot)
    return [counter._replace(name=f"{name}: {counter.name}") for counter in found if len(counter.t_ns)]


def memory_counters(records: ByKind) -> list[Counter]:
    """Bytes of saved states by place; a place without any is left out."""
    found = []
    for name, mechanisms in _PLACES.items():
        saves = records[Kind.SAVE]
        saves = saves[np.isin(saves["code"], mechanisms)]
        if len(saves):
            saves = saves[np.argsort(ends_of(saves), kind="stable")]
            found.append(Counter(name, "bytes", ends_of(saves), np.cumsum(saves["size_bytes"] - _replaced(saves))))
    return found


def _of_slot(records: Records, slot: int) -> Records:
    found: Records = records[records["slot"] == slot]
    return found


def _counter(name: str, unit: str, times: list[Ints], values: list[NDArray[np.int64]]) -> Counter:
    t_ns, of_all = np.concatenate(times), np.concatenate(values)
    order = np.argsort(t_ns, kind="stable")
    return Counter(name, unit, t_ns[order], of_all[order])


def _replaced(saves: Records) -> Ints:
    """Bytes of the state that each save (K,), by time, takes the place of: the slot's one before; 0 for its first."""
    order = np.argsort(saves["slot"], kind="stable")
    slots, sizes = saves["slot"][order], saves["size_bytes"][order]
    before = np.zeros(len(saves), np.int64)
    before[1:] = np.where(slots[1:] == slots[:-1], sizes[:-1], 0)
    replaced = np.empty_like(before)
    replaced[order] = before
    return replaced
