"""Probe levels and faults in words. One table for every place that tells of them."""

from __future__ import annotations

from draftscope.engine.probes import Fault, ProbeLevel

FAULT_WORDS = {
    Fault.NONE: "no fault",
    Fault.OMIT_HOOK: "the hidden rows are not restored",
    Fault.ZERO_ROW: "the pending row is zeroed",
    Fault.STALE_ROW: "an older pending row is restored",
    Fault.SKIP_LAYER: "one recurrent layer is not restored",
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
