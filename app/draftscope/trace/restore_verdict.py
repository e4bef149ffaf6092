"""What a probe of a restore found: an enum for programs, sentences for people. Every place that judges takes it here.

A difference is a finding, not yet a defect: ``effect_of`` says what it did to the next draft, which may be nothing.
``worth_of`` says what would be there had nobody saved and restored hidden rows.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from draftscope.base import units
from draftscope.engine.probes import UNKNOWN_POSITION, ZERO_ROW, Probes, StateStatus


class Verdict(IntEnum):
    """The gravest that a probe found. NOTHING_COMPARED: it was probed, but there was nothing to compare with."""

    NOT_PROBED = 0
    EQUAL = 1
    NOTHING_COMPARED = 2
    ROW_ZERO = 3
    ROW_OF_OTHER_POSITION = 4
    ROW_UNKNOWN = 5
    STATE_DIFFERS = 6
    COMPANION_LENGTH = 7
    COMPANION_WRONG = 8

    @property
    def is_difference(self) -> bool:
        """Whether something is not what it was."""
        return self >= Verdict.ROW_ZERO


class Finding(NamedTuple):
    """One thing that a probe found, in words that go on from 'slot 2, round 14:'."""

    verdict: Verdict
    words: str


class Effect(NamedTuple):
    """What a difference did to the next draft. ``matters``: None where the level did not measure it."""

    matters: bool | None
    words: str


class _Rule(NamedTuple):
    """``holds``: of each of P probes, bool (P,); ``words`` of a single one."""

    verdict: Verdict
    holds: Callable[[Probes], NDArray[np.bool_]]
    words: Callable[[Any], str]


PARTS = ("conv", "delta-net")
"""Parts of the state of a recurrent layer, in the order of the axis of ``ArrayKind.LAYERS``."""


def _other_row(probe: Any) -> str:
    found, expected = int(probe["restored_position"]), int(probe["row_position"])
    return f"row differs: it is the row of position {found:,}, expected {expected:,}"


def _unknown_row(probe: Any) -> str:
    n, width = int(probe["restored_n_differing"]), int(probe["row_width"])
    of = "dimension" if n == 1 else "dimensions"
    largest = units.figure(float(probe["restored_max_abs"]))
    return f"row differs in {n:,} of {width:,} {of} by up to {largest}: it is none of the slot's known rows"


def _state(probe: Any) -> str:
    n, n_layers = int(probe["n_layers_differing"]), int(probe["n_layers"])
    largest, part = units.figure(float(probe["state_max_abs"])), PARTS[min(int(probe["worst_part"]), 1)]
    more = f" ({n:,} of {n_layers:,} recurrent layers differ)" if n > 1 else ""
    return f"recurrent layer {int(probe['worst_layer'])}, {part} part differs by up to {largest}{more}"


def _companion_length(probe: Any) -> str:
    n, expected = int(probe["companion_n"]), int(probe["companion_expected"])
    if n < expected:
        return f"MTP context holds {n:,} of {expected:,} positions"
    return f"MTP context holds {n:,} positions, {n - expected:,} more than it should"


def _companion_rows(probe: Any) -> str:
    n, first = int(probe["companion_n_wrong"]), int(probe["companion_first_wrong"])
    if n == 1:
        return f"1 of the MTP context's positions comes from another token or row: position {first:,}"
    return f"{n:,} of the MTP context's positions come from other tokens or rows, from position {first:,} on"


def _is_other_row(probes: Probes) -> NDArray[np.bool_]:
    found = probes["restored_position"]
    is_known = (found != UNKNOWN_POSITION) & (found != ZERO_ROW)
    return np.asarray(_row_differs(probes) & is_known & (found != probes["row_position"]))


def _row_differs(probes: Probes) -> NDArray[np.bool_]:
    return np.asarray(probes["restored_n_differing"] > 0)


def _is_zero(probes: Probes) -> NDArray[np.bool_]:
    return np.asarray(_row_differs(probes) & (probes["restored_position"] == ZERO_ROW))


_RULES = (
    _Rule(Verdict.ROW_ZERO, _is_zero, lambda _: "row is zero"),
    _Rule(Verdict.ROW_OF_OTHER_POSITION, _is_other_row, _other_row),
    _Rule(
        Verdict.ROW_UNKNOWN,
        lambda probes: _row_differs(probes) & ~_is_zero(probes) & ~_is_other_row(probes),
        _unknown_row,
    ),
    _Rule(Verdict.STATE_DIFFERS, lambda probes: probes["state_status"] == StateStatus.DIFFERS, _state),
    _Rule(
        Verdict.COMPANION_LENGTH,
        lambda probes: (probes["companion_expected"] >= 0) & (probes["companion_n"] != probes["companion_expected"]),
        _companion_length,
    ),
    _Rule(Verdict.COMPANION_WRONG, lambda probes: probes["companion_n_wrong"] > 0, _companion_rows),
)
"""What can be found, the gravest first."""

_STATES = {
    StateStatus.UNKNOWN_LAYOUT: "the recurrent state could not be compared: the layout of its bytes is not known",
    StateStatus.NO_REFERENCE: "the recurrent state could not be compared: there was none to compare it with",
}


def verdicts_of(probes: Probes) -> NDArray[np.uint8]:
    """The ``Verdict`` of each probe: uint8 (P,)."""
    found = np.where(_is_compared(probes), Verdict.EQUAL, Verdict.NOTHING_COMPARED).astype(np.uint8)
    for rule in reversed(_RULES):
        found[rule.holds(probes)] = rule.verdict
    return found


def _is_compared(probes: Probes) -> NDArray[np.bool_]:
    has_state = (probes["state_status"] == StateStatus.EQUAL) | (probes["state_status"] == StateStatus.DIFFERS)
    is_compared = (probes["restored_n_differing"] >= 0) | (probes["companion_expected"] >= 0) | has_state
    return np.asarray(is_compared)


def findings_of(probe: Any) -> tuple[Finding, ...]:
    """All that one probe (a row of ``PROBE_DTYPE``) found to differ, the gravest first; empty where nothing does."""
    one = np.asarray(probe).reshape(1)
    return tuple(Finding(rule.verdict, rule.words(probe)) for rule in _RULES if rule.holds(one)[0])


def verdict_words(probe: Any | None) -> str:
    """The verdict on one restore in words; None: it was not probed."""
    if probe is None:
        return "not probed"
    findings = findings_of(probe)
    if not findings:
        return "equal" if _is_compared(np.asarray(probe).reshape(1))[0] else "nothing could be compared"
    first, more = findings[0].words, len(findings) - 1
    return f"{first}; and {more} more" if more else first


def remarks_of(probe: Any) -> tuple[str, ...]:
    """What could not be compared, and why; empty where everything that the level asks for was."""
    remarks = []
    if int(probe["restored_n_differing"]) < 0:
        remarks.append("no hidden row was compared: nothing is drafted from here")
    status = int(probe["state_status"])
    if status in _STATES:
        remarks.append(_STATES[StateStatus(status)])
    return tuple(remarks)


# ---- what a difference does


def effect_of(probe: Any) -> Effect:
    """What the row that drafting went on from did to the next draft, compared with the saved one."""
    return _effect(probe, "restored")


def worth_of(probe: Any) -> str:
    """What would be there had nobody saved and restored hidden rows, in a sentence; '' where it was not measured."""
    n_differing = int(probe["without_n_differing"])
    if n_differing < 0:
        return ""
    if n_differing == 0:
        return "Without the hook the row would be the same here."
    where = _row_name(int(probe["without_position"]), int(probe["row_position"]))
    sentence = f"Without the hook drafting would go on from {where}, off by up to "
    sentence += units.figure(float(probe["without_max_abs"]))
    effect = _effect(probe, "without")
    return f"{sentence}: {effect.words}." if effect.matters is not None else f"{sentence}."


def _row_name(position: int, expected: int) -> str:
    if position == ZERO_ROW:
        return "a row of zeros"
    if position == UNKNOWN_POSITION:
        return "a row that is none of the slot's known ones"
    return f"the row of position {position:,} instead of {expected:,}"


def _effect(probe: Any, which: str) -> Effect:
    n_vocab, n_changed = int(probe["n_vocab"]), int(probe[f"{which}_n_changed"])
    if n_vocab == 0 or n_changed < 0:
        return Effect(None, "what it does to the draft was not measured")
    if n_changed == 0:
        return Effect(False, "no draft logit changes")
    is_other_top = int(probe[f"{which}_top"]) != int(probe["saved_top"])
    draft, is_other_draft = _draft(probe, which)
    accepted, is_other_accepted = _accepted(probe, which)
    top = "another likeliest token" if is_other_top else "the same likeliest token"
    parts = (f"{n_changed:,} of {n_vocab:,} draft logits change", top, draft, accepted)
    matters = is_other_top or is_other_draft or is_other_accepted
    return Effect(matters, ", ".join(part for part in parts if part))


def _draft(probe: Any, which: str) -> tuple[str, bool]:
    n_same, n_draft = int(probe[f"{which}_n_same"]), int(probe["n_draft"])
    if n_draft <= 0 or n_same < 0:
        return "", False
    if n_same >= n_draft:
        return "the same draft", False
    return f"another draft from its token {n_same + 1} on", True


def _accepted(probe: Any, which: str) -> tuple[str, bool]:
    saved, other = int(probe["saved_accepted"]), int(probe[f"{which}_accepted"])
    if saved < 0 or other < 0:
        return "", False
    return (f"{other} accepted either way", False) if saved == other else (f"{other} accepted instead of {saved}", True)
