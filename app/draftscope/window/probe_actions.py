"""The rows of the menus Probe and Teach: what is measured at restores, and faults on purpose, to see them caught."""

from __future__ import annotations

from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.session.state import SessionState
from draftscope.trace.probe_words import FAULT_WORDS, LEVEL_WORDS
from draftscope.window.action import Action
from draftscope.window.situation import (
    NO_ENGINE,
    Situation,
    why_not_behind,
    why_not_end_fault,
    why_not_fault,
    why_not_skip_layer,
    why_not_slot_behind,
    why_not_slot_fault,
    why_not_slot_probe,
    why_not_slot_skip_layer,
)

_LEVEL_TEXTS = {
    ProbeLevel.OFF: "Off",
    ProbeLevel.HIDDEN: "Hidden rows",
    ProbeLevel.LOGITS: "Hidden rows and draft logits",
    ProbeLevel.STATE: "Hidden rows, draft logits and recurrent state",
}
_FAULT_TEXTS = {
    Fault.OMIT_HOOK: "Omit the hook",
    Fault.ZERO_ROW: "Zero the pending row",
    Fault.STALE_ROW: "Restore a stale row",
    Fault.SKIP_LAYER: "Skip a recurrent layer (texts may be wrong)",
    Fault.COMPANION_BEHIND: "Leave the MTP context behind",
}


_WHY_NOT = {Fault.SKIP_LAYER: why_not_skip_layer, Fault.COMPANION_BEHIND: why_not_behind}
_WHY_NOT_IN_SLOT = {Fault.SKIP_LAYER: why_not_slot_skip_layer, Fault.COMPANION_BEHIND: why_not_slot_behind}


def _why_not_level(now: Situation) -> str:
    """A level can be chosen before any model is loaded, but not for a run that has been."""
    return NO_ENGINE if now.state is SessionState.SAVED else ""


def _why_not_end(now: Situation) -> str:
    return _why_not_level(now) or why_not_end_fault(now)


def _level(level: ProbeLevel) -> Action:
    return Action(
        f"probe_{level}",
        _LEVEL_TEXTS[level],
        "Probe",
        f"All slots: {LEVEL_WORDS[level][0].lower()}{LEVEL_WORDS[level][1:]}",
        lambda commands: commands.choose_probe_level(level),
        why_not=_why_not_level,
        is_checked=lambda now: now.probe_level is level,
    )


def _slot_level(level: ProbeLevel) -> Action:
    return Action(
        f"slot_probe_{level}",
        f"This slot: {_LEVEL_TEXTS[level][0].lower()}{_LEVEL_TEXTS[level][1:]}",
        "Probe",
        f"The selected slot: {LEVEL_WORDS[level][0].lower()}{LEVEL_WORDS[level][1:]}",
        lambda commands: commands.choose_slot_probe_level(level),
        group=1,
        why_not=why_not_slot_probe,
        is_checked=lambda now: now.slot_probe_level is level,
    )


def _fault(fault: Fault) -> Action:
    return Action(
        f"teach_{fault}",
        _FAULT_TEXTS[fault],
        "Teach",
        f"A fault on purpose, to see it caught: after every restore {FAULT_WORDS[fault]}",
        lambda commands: commands.inject_fault(fault),
        group=1,
        why_not=_WHY_NOT.get(fault, why_not_fault),
        is_checked=lambda now: now.fault is fault and now.fault_slot is None,
    )


def _slot_fault(fault: Fault) -> Action:
    return Action(
        f"teach_slot_{fault}",
        f"This slot: {_FAULT_TEXTS[fault][0].lower()}{_FAULT_TEXTS[fault][1:]}",
        "Teach",
        f"A fault on purpose in the selected slot: after every restore {FAULT_WORDS[fault]}",
        lambda commands: commands.inject_slot_fault(fault),
        group=2,
        why_not=_WHY_NOT_IN_SLOT.get(fault, why_not_slot_fault),
        is_checked=lambda now: now.fault is fault and now.fault_slot is not None and now.fault_slot == now.slot,
    )


PROBE_ACTIONS = (*map(_level, ProbeLevel), *map(_slot_level, ProbeLevel))

TEACH_ACTIONS = (
    Action(
        "teach_none",
        "No fault: do everything right",
        "Teach",
        "Let all restores do everything right again",
        lambda commands: commands.inject_fault(Fault.NONE),
        why_not=_why_not_end,
        is_checked=lambda now: now.fault is Fault.NONE,
    ),
    *map(_fault, _FAULT_TEXTS),
    *map(_slot_fault, _FAULT_TEXTS),
)

SLOT_SUBMENUS = {
    "Probe": tuple(f"slot_probe_{level}" for level in ProbeLevel),
    "Teach": ("teach_none", *(f"teach_slot_{fault}" for fault in _FAULT_TEXTS)),
}
"""Menus within a slot's own menu: ids by title."""
