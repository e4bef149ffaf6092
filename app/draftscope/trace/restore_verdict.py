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
from draftscope.engine.events import Mechanism
from draftscope.engine.probes import UNKNOWN_POSITION, ZERO_ROW, Probes, StateStatus


class Verdict(IntEnum):
    """The gravest that a probe found.

    ROUNDING: nothing differs, but for the recurrent state, by no more than decoding the same tokens anew does from
    itself. NOTHING_COMPARED: it was probed, but there was nothing to compare with.
    """

    NOT_PROBED = 0
    EQUAL = 1
    ROUNDING = 2
    NOTHING_COMPARED = 3
    ROW_ZERO = 4
    ROW_OF_OTHER_POSITION = 5
    ROW_UNKNOWN = 6
    STATE_DIFFERS = 7
    COMPANION_LENGTH = 8
    COMPANION_WRONG = 9

    @property
    def is_difference(self) -> bool:
        """Whether something is not what it was."""
        return self >= Verdict.ROW_ZERO


class Finding(NamedTuple):
    """One thing that a probe found, in words that go on from 'slot 2, round 14:', and in few for a table."""

    verdict: Verdict
    words: str
    brief: str


class Effect(NamedTuple):
    """What a difference did to the next draft. ``matters``: None where the level did not measure it."""

    matters: bool | None
    words: str


class _Rule(NamedTuple):
    """``holds``: of each of P probes, bool (P,); ``words`` and ``brief`` of a single one."""

    verdict: Verdict
    holds: Callable[[Probes], NDArray[np.bool_]]
    words: Callable[[Any], str]
    brief: Callable[[Any], str]


PARTS = ("conv", "delta-net")
"""Parts of the state of a recurrent layer, in the order of the axis of ``ArrayKind.LAYERS``."""


def _other_row(probe: Any) -> str:
    found, expected = int(probe["restored_position"]), int(probe["row_position"])
    what = "row was saved wrong" if int(probe["restored_n_differing"]) == 0 else "row differs"
    return f"{what}: it is the row of position {found:,}, expected {expected:,}"


def _zero_row(probe: Any) -> str:
    return "row is zero, and was saved so" if int(probe["restored_n_differing"]) == 0 else "row is zero"


def _unknown_row(probe: Any) -> str:
    n, width = int(probe["restored_n_differing"]), int(probe["row_width"])
    of = "dimension" if n == 1 else "dimensions"
    largest = units.figure(float(probe["restored_max_abs"]))
    return f"row differs in {n:,} of {width:,} {of} by up to {largest}: it is none of the slot's known rows"


def _state(probe: Any) -> str:
    n, n_layers = int(probe["n_layers_differing"]), int(probe["n_layers"])
    largest, part = units.figure(float(probe["state_max_abs"])), PARTS[min(int(probe["worst_part"]), 1)]
    than = " by more than rounding" if probe["mechanism"] == Mechanism.ROLLBACK else ""
    more = f" ({n:,} of {n_layers:,} recurrent layers differ{than})" if n > 1 else ""
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
    return np.asarray(_is_named_wrong(probes) & (probes["restored_position"] != ZERO_ROW))


def _row_differs(probes: Probes) -> NDArray[np.bool_]:
    return np.asarray(probes["restored_n_differing"] > 0)


def _is_named_wrong(probes: Probes) -> NDArray[np.bool_]:
    """Whether a digest names the row as another than is due; where the bits are those saved, they were saved wrong."""
    found, expected = probes["restored_position"], probes["row_position"]
    is_compared = probes["restored_n_differing"] >= 0
    is_due = (expected >= 0) | (probes["restored_n_differing"] > 0)  # before the first token zeros are right
    return np.asarray(is_compared & is_due & (found != UNKNOWN_POSITION) & (found != expected))


def _is_zero(probes: Probes) -> NDArray[np.bool_]:
    return np.asarray(_is_named_wrong(probes) & (probes["restored_position"] == ZERO_ROW))


_RULES = (
    _Rule(Verdict.ROW_ZERO, _is_zero, _zero_row, lambda _: "row is zero"),
    _Rule(
        Verdict.ROW_OF_OTHER_POSITION,
        _is_other_row,
        _other_row,
        lambda probe: f"row of {probe['restored_position']:,}, expected {probe['row_position']:,}",
    ),
    _Rule(
        Verdict.ROW_UNKNOWN,
        lambda probes: _row_differs(probes) & ~_is_zero(probes) & ~_is_other_row(probes),
        _unknown_row,
        lambda _: "row is not known",
    ),
    _Rule(
        Verdict.STATE_DIFFERS,
        lambda probes: probes["state_status"] == StateStatus.DIFFERS,
        _state,
        lambda probe: f"layer {probe['worst_layer']} off by {units.figure(float(probe['state_max_abs']))}",
    ),
    _Rule(
        Verdict.COMPANION_LENGTH,
        lambda probes: (probes["companion_expected"] >= 0) & (probes["companion_n"] != probes["companion_expected"]),
        _companion_length,
        lambda probe: f"MTP context {probe['companion_n']:,} of {probe['companion_expected']:,}",
    ),
    _Rule(
        Verdict.COMPANION_WRONG,
        lambda probes: probes["companion_n_wrong"] > 0,
        _companion_rows,
        lambda probe: f"MTP context, {probe['companion_n_wrong']:,} wrong",
    ),
)
"""What can be found, the gravest first."""

_STATES = {
    StateStatus.UNKNOWN_LAYOUT: "the recurrent state could not be compared: the layout of its bytes is not known",
    StateStatus.NO_REFERENCE: "the recurrent state could not be compared: there was none to compare it with",
}


_WITHOUT_FINDING = {
    Verdict.EQUAL: "equal",
    Verdict.ROUNDING: "equal, the recurrent state within rounding",
    Verdict.NOTHING_COMPARED: "nothing could be compared",
}


def verdicts_of(probes: Probes) -> NDArray[np.uint8]:
    """The ``Verdict`` of each probe: uint8 (P,)."""
    found = np.where(_is_compared(probes), Verdict.EQUAL, Verdict.NOTHING_COMPARED).astype(np.uint8)
    found[probes["state_status"] == StateStatus.ROUNDING] = Verdict.ROUNDING
    for rule in reversed(_RULES):
        found[rule.holds(probes)] = rule.verdict
    return found


def _is_compared(probes: Probes) -> NDArray[np.bool_]:
    has_state = np.isin(probes["state_status"], (StateStatus.EQUAL, StateStatus.DIFFERS, StateStatus.ROUNDING))
    is_compared = (probes["restored_n_differing"] >= 0) | (probes["companion_expected"] >= 0) | has_state
    return np.asarray(is_compared)


def findings_of(probe: Any) -> tuple[Finding, ...]:
    """All that one probe (a row of ``PROBE_DTYPE``) found to differ, the gravest first; empty where nothing does."""
    one = np.asarray(probe).reshape(1)
    return tuple(Finding(rule.verdict, rule.words(probe), rule.brief(probe)) for rule in _RULES if rule.holds(one)[0])


def verdict_words(probe: Any | None) -> str:
    """The verdict on one restore in words; None: it was not probed."""
    if probe is None:
        return "not probed"
    findings = findings_of(probe)
    if not findings:
        return _WITHOUT_FINDING[Verdict(int(verdicts_of(np.asarray(probe).reshape(1))[0]))]
    first, more = findings[0].words, len(findings) - 1
    return f"{first}; and {more} more" if more else first


def verdict_briefly(probe: Any | None) -> str:
    """The same in few words, for a table."""
    findings = () if probe is None else findings_of(probe)
    if not findings:
        return verdict_words(probe)
    return findings[0].brief + (f" +{len(findings) - 1}" if len(findings) > 1 else "")


def remarks_of(probe: Any) -> tuple[str, ...]:
    """What could not be compared, and what is rounding; empty where all that the level asks for was compared."""
    remarks = []
    if int(probe["restored_n_differing"]) < 0:
        remarks.append("no hidden row was compared: nothing is drafted from here")
    status = int(probe["state_status"])
    if status in _STATES:
        remarks.append(_STATES[StateStatus(status)])
    if status == StateStatus.ROUNDING:
        largest, scatter = (units.figure(float(probe[name])) for name in ("state_max_abs", "state_scatter"))
        remarks.append(
            f"the recurrent state is off by up to {largest}, no more than decoding the same tokens anew is from itself"
            f" ({scatter}): that is rounding"
        )
    return tuple(remarks)


# ---- what a difference does


def effect_of(probe: Any) -> Effect:
    """What the row that drafting went on from did to the next draft, compared with the saved one.

    Where both rows are the same and something is not right, drafts from them are the same and say nothing about it.
    """
    effect = _effect(probe, "restored")
    findings = findings_of(probe)
    if effect.matters is False and findings and int(probe["restored_n_differing"]) == 0:
        is_saved_wrong = findings[0].verdict in (Verdict.ROW_ZERO, Verdict.ROW_OF_OTHER_POSITION)
        row = "the saved row is wrong itself" if is_saved_wrong else "the row is the right one"
        return Effect(None, f"{row}, so drafts from it do not tell what this does")
    return effect


def effect_briefly(probe: Any | None) -> str:
    """The effect of a difference in two or three words, for a table; '' where nothing differs."""
    if probe is None or not findings_of(probe):
        return ""
    effect = effect_of(probe)
    if effect.matters is None:
        return "not measured"
    saved, restored = int(probe["saved_accepted"]), int(probe["restored_accepted"])
    if min(saved, restored) >= 0 and saved != restored:
        return f"accepts {restored}, not {saved}"
    if 0 <= int(probe["restored_n_same"]) < int(probe["n_draft"]):
        return "another draft"
    return "another likeliest token" if effect.matters else "none"


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
    has_top = int(probe["saved_top"]) >= 0  # not in traces without text
    is_other_top = int(probe[f"{which}_top"]) != int(probe["saved_top"])
    draft, is_other_draft = _draft(probe, which)
    accepted, is_other_accepted = _accepted(probe, which)
    top = ("another likeliest token" if is_other_top else "the same likeliest token") if has_top else ""
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
