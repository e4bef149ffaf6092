"""Bytes by kind and how they grow with the slots: predicted from a model's file, and beside it what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftscope.base.units import bytes_text
from draftscope.cli.terminal import table
from draftscope.engine.events import Mechanism
from draftscope.engine.model_memory import MemoryNeeds, SlotMemory
from draftscope.engine.protocol import MemoryUse

OF_SLOTS = ("kv", "recurrent", "checkpoints", "draft")
"""Kinds of ``MemoryUse`` that belong to slots and are predicted."""

KINDS = ("weights", *OF_SLOTS, "compute")
"""All kinds, in the order in which they are shown."""


_OF_SETTING = (*OF_SLOTS, "compute")
"""Kinds that differ by setting; the weights are told once."""


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """Memory of one setting with so many slots: bytes of all slots together by kind.

    ``host``/``device`` are None where nothing was measured; a kind that is missing in ``predicted`` is not predicted.
    """

    n_slots: int
    predicted: Mapping[str, int]
    host: Mapping[str, int] | None = None
    device: Mapping[str, int] | None = None

    def measured(self, kind: str) -> int | None:
        """Bytes of a kind on the host and on devices together; None where nothing was measured."""
        if self.host is None or self.device is None:
            return None
        return self.host.get(kind, 0) + self.device.get(kind, 0)


def predicted_by_kind(slot: SlotMemory, n_slots: int) -> dict[str, int]:
    """The prediction for one slot as bytes of all slots by kind."""
    sizes = (slot.kv_bytes, slot.recurrent_bytes, slot.checkpoint_bytes, slot.draft_kv_bytes)
    return {kind: size * n_slots for kind, size in zip(OF_SLOTS, sizes, strict=True)}


def point_of(
    n_slots: int, used: Sequence[MemoryUse], needs: MemoryNeeds | None, way_back: str, n_ctx: int, n_draft_max: int
) -> MemoryPoint:
    """What an engine said of its memory, beside the prediction: its own, or where it said nothing, from the file."""
    if used:
        predicted = {use.kind: use.predicted_bytes for use in used if use.predicted_bytes >= 0}
        host = {use.kind: use.host_bytes for use in used}
        return MemoryPoint(n_slots, predicted, host, {use.kind: use.device_bytes for use in used})
    if needs is None:
        return MemoryPoint(n_slots, {})
    return MemoryPoint(
        n_slots, predicted_by_kind(needs.slot_with(Mechanism[way_back.upper()], n_ctx, n_draft_max), n_slots)
    )


def growth_as_json(label: str, points: Sequence[MemoryPoint]) -> dict[str, Any]:
    """One setting's memory over the numbers of slots; ``points`` rising by slots, at least one.

    ``per_further_slot_bytes``: the measured bytes of the most slots less those of the fewest, by slots between them.
    """
    shown = [kind for kind in KINDS if any(_is_there(point, kind) for point in points)]
    rows = [_row(kind, points, (kind,)) for kind in shown]
    of_slots = [kind for kind in shown if kind in OF_SLOTS]
    return {
        "label": label,
        "n_slots": [point.n_slots for point in points],
        "kinds": rows,
        "slots_together": _row("together", points, of_slots),
    }


def _is_there(point: MemoryPoint, kind: str) -> bool:
    return bool(point.measured(kind) or point.predicted.get(kind))


def _row(name: str, points: Sequence[MemoryPoint], kinds: Sequence[str]) -> dict[str, Any]:
    measured = [_sum([point.measured(kind) for kind in kinds]) for point in points]
    predicted = [_sum([point.predicted.get(kind) for kind in kinds]) for point in points]
    known = measured if None not in measured else predicted
    return {
        "kind": name,
        "host_bytes": [None if p.host is None else sum(p.host.get(kind, 0) for kind in kinds) for p in points],
        "device_bytes": [None if p.device is None else sum(p.device.get(kind, 0) for kind in kinds) for p in points],
        "measured_bytes": measured,
        "predicted_bytes": predicted,
        "difference_bytes": [
            None if m is None or p is None else m - p for m, p in zip(measured, predicted, strict=True)
        ],
        "per_further_slot_bytes": _slope([point.n_slots for point in points], known),
    }


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _slope(n_slots: Sequence[int], sizes: Sequence[int | None]) -> float | None:
    first, last = sizes[0], sizes[-1]
    if first is None or last is None or n_slots[0] == n_slots[-1]:
        return None
    return (last - first) / (n_slots[-1] - n_slots[0])


def growth_as_text(settings: Sequence[Mapping[str, Any]]) -> str:
    """The memory of all settings as a table, from ``growth_as_json``; '' when nothing is known of any.

    A cell is what was measured, with what it differs from the prediction by in brackets; else the prediction.
    """
    n_slots = list(dict.fromkeys(n for setting in settings for n in setting["n_slots"]))
    header = ["", "", *(f"{n} slot{'s' if n > 1 else ''}" for n in n_slots), "each further"]
    lines: list[list[str]] = []
    for setting in settings:
        kinds = [row for row in setting["kinds"] if row["kind"] in _OF_SETTING or setting is settings[0]]
        rows = [*kinds, setting["slots_together"]]
        for number, row in enumerate(rows if setting["kinds"] else []):
            lines += _lines(setting["label"] if number == 0 else "", row, setting["n_slots"], n_slots)
        if setting["kinds"] and None not in setting["slots_together"]["measured_bytes"]:
            lines.append(_predicted(setting["slots_together"], setting["n_slots"], n_slots))
    return table(header, lines, n_left=2) if lines else ""


def _lines(label: str, row: Mapping[str, Any], own: Sequence[int], n_slots: Sequence[int]) -> list[list[str]]:
    """A line, and where only a part of it is on devices, one that says how much."""
    at = {n: index for index, n in enumerate(own)}
    slope = row["per_further_slot_bytes"]
    name = "slots together" if row["kind"] == "together" else row["kind"]
    is_on_host, is_on_devices = any(row["host_bytes"]), any(row["device_bytes"])
    if is_on_devices and not is_on_host:
        name += " (on devices)"
    lines = [[label, name, *(_cell(row, at.get(n)) for n in n_slots), "" if slope is None else bytes_text(slope)]]
    if is_on_devices and is_on_host:
        on_devices = [bytes_text(row["device_bytes"][at[n]]) if n in at else "" for n in n_slots]
        lines.append(["", "  of it on devices", *on_devices, ""])
    return lines


def _predicted(row: Mapping[str, Any], own: Sequence[int], n_slots: Sequence[int]) -> list[str]:
    of = dict(zip(own, row["predicted_bytes"], strict=True))
    sizes = ["" if n not in of else "-" if of[n] is None else bytes_text(of[n]) for n in n_slots]
    return ["", "  predicted", *sizes, ""]


def _cell(row: Mapping[str, Any], index: int | None) -> str:
    if index is None:
        return ""
    measured, predicted, difference = (row[f"{name}_bytes"][index] for name in ("measured", "predicted", "difference"))
    if measured is None:
        return "-" if predicted is None else bytes_text(predicted)
    if not difference:
        return bytes_text(measured)
    return f"{bytes_text(measured)} ({'+' if difference > 0 else '−'}{bytes_text(abs(difference))})"
