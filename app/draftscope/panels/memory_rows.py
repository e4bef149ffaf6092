"""Memory of the contexts by kind: what it is now, and what it would be with other numbers of slots. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from draftscope.base import units
from draftscope.base.theme import Theme
from draftscope.engine.protocol import MemoryUse
from draftscope.panels.figure_table import Column, Row

KINDS = {
    "kv": ("keys and values", "Of the target: what attention layers keep of every token."),
    "recurrent": ("recurrent states", "The live state of each slot, and the steps back of native rollback."),
    "checkpoints": ("saved states", "What is kept beside the live states, to go back to."),
    "draft": ("MTP context", "Keys and values of the MTP layers."),
    "compute": ("compute buffers", "Scratch memory of both contexts, whatever the number of slots."),
    "prompt_checkpoints": ("prompt checkpoints", "Earlier positions of the slots, for prompts that are edited."),
    "prompt_cache": ("prompt cache", "Prompts that left their slots, for when they come again."),
    "weights": ("weights", "The model itself, whatever the number of slots."),
}
"""Kinds of memory in words, and what they are; the first four grow with the slots."""

GROWING = ("kv", "recurrent", "checkpoints", "draft")

PHASE_OF_KIND = {"kv": "verify", "recurrent": "replay", "checkpoints": "save", "draft": "draft"}
"""Colours: each kind has that of the phase that it serves."""

MOST_SLOTS_AT_LEAST = 8
"""Predictions go up to so many slots, or to twice the present number."""

COLUMNS = (
    Column("", ""),
    Column("a slot", "Bytes of all slots divided by their number; what does not grow with the slots is left out."),
    Column("all slots", "Host and devices together."),
    Column("host", "In the memory of this machine."),
    Column("devices", "In the memory of GPUs and other machines."),
    Column("predicted", "What the model file says before it is loaded, for these settings."),
)


class Growth(NamedTuple):
    """Memory that grows with the slots, for a number of them; ``parts``: (kind, bytes) in the order of ``GROWING``."""

    n_slots: int
    is_measured: bool
    parts: tuple[tuple[str, int], ...]

    @property
    def total_bytes(self) -> int:
        """All kinds together."""
        return sum(size for _, size in self.parts)

    @property
    def words(self) -> str:
        """All of it in a sentence."""
        parts = ", ".join(f"{KINDS[kind][0]} {units.bytes_text(size)}" for kind, size in self.parts if size)
        how = "measured" if self.is_measured else "predicted"
        slots = "1 slot" if self.n_slots == 1 else f"{self.n_slots} slots"
        return f"{slots}, {how}: {units.bytes_text(self.total_bytes)} ({parts})."


def table_rows(memory: Sequence[MemoryUse], n_slots: int, theme: Theme) -> list[Row]:
    """A row a kind, those that grow with the slots first, and their sum."""
    known = sorted(memory, key=lambda use: list(KINDS).index(use.kind) if use.kind in KINDS else len(KINDS))
    host, devices = (sum(getattr(use, name) for use in memory) for name in ("host_bytes", "device_bytes"))
    together = ("–", _size(host + devices), _size(host), _size(devices), "–")
    return [*(_row(use, n_slots, theme) for use in known), Row("together", together)]


def _row(use: MemoryUse, n_slots: int, theme: Theme) -> Row:
    name, means = KINDS.get(use.kind, (use.kind, ""))
    total = use.host_bytes + use.device_bytes
    a_slot = _size(total / max(n_slots, 1)) if use.kind in GROWING else "–"
    predicted = _size(use.predicted_bytes) if use.predicted_bytes >= 0 else "–"
    colour = theme.phase(PHASE_OF_KIND.get(use.kind, "prompt"))
    figures = (a_slot, _size(total), _size(use.host_bytes), _size(use.device_bytes), predicted)
    return Row(name, figures, means=means, colour=colour)


def _size(n_bytes: float) -> str:
    return units.bytes_text(n_bytes) if n_bytes else "0"


def growth(memory: Sequence[MemoryUse], n_slots: int) -> list[Growth]:
    """What the slots take: as measured for ``n_slots``, and for other numbers of them as predicted.

    Each slot takes the same, so a prediction for n slots is n times that of one; where ``predicted_bytes`` is missing,
    n times what was measured a slot.
    """
    uses = {use.kind: use for use in memory if use.kind in GROWING}
    if not uses or n_slots < 1:
        return []
    found = []
    most = max(MOST_SLOTS_AT_LEAST, 2 * n_slots)
    for n in sorted({*(2**power for power in range(most.bit_length())), n_slots}):
        is_measured = n == n_slots
        parts = tuple((kind, _bytes_of(uses[kind], n, n_slots)) for kind in GROWING if kind in uses)
        found.append(Growth(n, is_measured, parts))
    return found


def _bytes_of(use: MemoryUse, n: int, n_slots: int) -> int:
    measured = use.host_bytes + use.device_bytes
    if n == n_slots:
        return measured
    return round((use.predicted_bytes if use.predicted_bytes >= 0 else measured) * n / n_slots)
