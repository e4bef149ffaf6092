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
    rounds = _Chosen(records[Kind.ROUND], records[Kind.ROUND]["slot"] == slot)
    spans, of_slot = records[Kind.SPAN], records[Kind.SPAN]["slot"] == slot
    decodes = _Chosen(spans, of_slot & np.isin(spans["code"], _DECODES))
    drafts = _Chosen(spans, of_slot & (spans["code"] == Phase.DRAFT))
    restores = _Chosen(records[Kind.RESTORE], records[Kind.RESTORE]["slot"] == slot)
    found = [
        _counter("accepted length", [rounds.ends], [1 + rounds.column("m")]),
        _counter(
            "target position",
            [decodes.starts, decodes.ends, restores.ends],
            [decodes.column("position"), decodes.column("position") + decodes.column("n"), restores.column("position")],
        ),
        _counter(
            "draft position",
            [drafts.starts, drafts.ends],
            [drafts.column("position"), drafts.column("position") + drafts.column("n")],
        ),
    ]
    name = track_name(slot)
    return [counter._replace(name=f"{name}: {counter.name}") for counter in found if len(counter.t_ns)]


class _Chosen(NamedTuple):
    """Some records of a kind; only the columns that are asked for are copied."""

    records: Records
    mask: NDArray[np.bool_]

    def column(self, name: str) -> Ints:
        """A column as int64."""
        return self.records[name][self.mask].astype(np.int64)

    @property
    def starts(self) -> Ints:
        """When they begin."""
        return self.column("t_start_ns")

    @property
    def ends(self) -> Ints:
        """When they end; a negative duration counts as none."""
        return self.starts + np.maximum(self.column("duration_ns"), 0)


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


def _counter(name: str, times: list[Ints], values: list[Ints]) -> Counter:
    t_ns, of_all = np.concatenate(times), np.concatenate(values)
    order = np.argsort(t_ns, kind="stable")
    return Counter(name, "tokens", t_ns[order], of_all[order])


def _replaced(saves: Records) -> Ints:
    """Bytes of the state that each save (K,), by time, takes the place of: the slot's one before; 0 for its first."""
    order = np.argsort(saves["slot"], kind="stable")
    slots, sizes = saves["slot"][order], saves["size_bytes"][order]
    before = np.zeros(len(saves), np.int64)
    before[1:] = np.where(slots[1:] == slots[:-1], sizes[:-1], 0)
    replaced = np.empty_like(before)
    replaced[order] = before
    return replaced
