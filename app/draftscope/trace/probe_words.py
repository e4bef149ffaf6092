"""Probe levels and faults in words. One table for every place that tells of them."""

from __future__ import annotations

from draftscope.engine.probes import LEVELS, Fault, ProbeLevel

FAULT_WORDS = {
    Fault.NONE: "no fault",
    Fault.OMIT_HOOK: "the hidden rows are not put back",
    Fault.ZERO_ROW: "the pending row is zeroed",
    Fault.STALE_ROW: "an older pending row is put back",
    Fault.SKIP_LAYER: "one recurrent layer is not put back",
    Fault.COMPANION_BEHIND: "the MTP context is left behind",
}
"""What each fault does at every restore, as the end of a sentence."""

LEVEL_WORDS = {
    ProbeLevel.OFF: "Nothing is measured",
    ProbeLevel.HIDDEN: "Hidden rows and the MTP context are compared",
    ProbeLevel.LOGITS: "And the next draft is run from each row, to see what a difference does",
    ProbeLevel.STATE: "And the recurrent state is compared, layer by layer",
}
"""What each level measures at every restore; each includes those before it."""


def fault_sentence(fault: Fault, slot: int | None, level: ProbeLevel) -> str:
    """What goes wrong on purpose, and where; ``slot`` None: in all. A ``level`` that does not catch it is told, too."""
    where = "in all slots" if slot is None else f"in slot {slot}"
    warning = " Texts may be wrong." if fault is Fault.SKIP_LAYER else ""
    needed = ProbeLevel.STATE if fault is Fault.SKIP_LAYER else ProbeLevel.HIDDEN
    hint = f" Measure at level {needed} to see it caught." if LEVELS.index(level) < LEVELS.index(needed) else ""
    return f"Fault {where}: {FAULT_WORDS[fault]}.{warning}{hint}"
