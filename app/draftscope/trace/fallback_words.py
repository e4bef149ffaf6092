"""Fallbacks in sentences: what happened, to which slot, and what is done instead. One table for every place that tells.

``FALLBACK`` records carry a reason, the mechanism asked for and the one used; ``run``, the log, the notices and the
Checkpoints panel all take their words from here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from draftscope.engine.events import NO_ROUND, FallbackReason, Mechanism, Records

MECHANISMS = {
    Mechanism.NONE: "none",
    Mechanism.KV_REMOVAL: "plain KV removal",
    Mechanism.ROLLBACK: "native rollback",
    Mechanism.COW: "copy on write",
    Mechanism.DEVICE: "checkpoints in device memory",
    Mechanism.HOST: "checkpoints in host memory",
}
"""The ways back in words, as they stand in a sentence."""


def mechanism_words(name: str) -> str:
    """A mechanism in words, by its name in lower case as reports have it; a name that is not known stays as it is."""
    return MECHANISMS[Mechanism[name.upper()]] if name.upper() in Mechanism.__members__ else name


_REASONS = {
    FallbackReason.NONE: "another way back than {asked} was taken",
    FallbackReason.NOT_GRANTED: "llama.cpp did not grant {asked}",
    FallbackReason.BEYOND_REACH: "the way back was longer than {asked} can go",
    FallbackReason.REFUSED: "llama.cpp refused to drop the rejected draft",
    FallbackReason.NO_MEMORY: "there was no room{where} for a checkpoint",
    FallbackReason.RESTORE_FAILED: "the saved state could not be put back",
    FallbackReason.POSITION_MISMATCH: "target and draft context did not stand at the same position any more",
    FallbackReason.CANNOT_UNIFY: "the slots cannot share one cell space, which {asked} needs",
}
"""Why, as the first half of a sentence."""

_PLACES = {
    Mechanism.DEVICE: " on the device",
    Mechanism.HOST: " in host memory",
    Mechanism.COW: " beside the live states",
}
"""Where a mechanism keeps what it saves."""

_INSTEAD = {
    Mechanism.KV_REMOVAL: "so its newest tokens are dropped from the KV cache",
    Mechanism.ROLLBACK: "so native rollback is used",
    Mechanism.COW: "so copy on write is used",
    Mechanism.DEVICE: "so device memory is used",
    Mechanism.HOST: "so host memory is used",
}
"""What is done instead, as the second half."""

_LOSES_PLACE = (
    FallbackReason.BEYOND_REACH,
    FallbackReason.REFUSED,
    FallbackReason.RESTORE_FAILED,
    FallbackReason.POSITION_MISMATCH,
)
"""After these the slot has no state to go on from and is prefilled again, whatever way it takes from then on."""

_NOTHING_SAVED = "so nothing was drafted in this round"
_READ_AGAIN = "so the slot is read again from its beginning"
_NO_WAY = "so no states are saved"
_WITHOUT = {
    FallbackReason.NO_MEMORY: _NOTHING_SAVED,
    FallbackReason.NOT_GRANTED: _NO_WAY,
    FallbackReason.CANNOT_UNIFY: _NO_WAY,
}
"""What is done where no mechanism is left to use; after all other reasons the slot is prefilled again."""


_REASON_CODES = {int(reason) for reason in FallbackReason}
_MECHANISM_CODES = {int(mechanism) for mechanism in Mechanism}


class FallbackKind(NamedTuple):
    """What happened, whichever slot and round it happened in."""

    reason: FallbackReason
    asked: Mechanism
    used: Mechanism

    @property
    def clause(self) -> str:
        """Why, and what is done instead, without a capital letter and a full stop."""
        why = _REASONS[self.reason].format(asked=MECHANISMS[self.asked], where=_PLACES.get(self.asked, ""))
        if self.used is Mechanism.NONE:
            return f"{why}, {_WITHOUT.get(self.reason, _READ_AGAIN)}"
        if self.reason in _LOSES_PLACE:
            return f"{why}, {_READ_AGAIN} and goes on with {MECHANISMS[self.used]}"
        return f"{why}, {_INSTEAD[self.used]}"

    @property
    def sentence(self) -> str:
        """The same as a sentence of its own."""
        return f"{self.clause[0].upper()}{self.clause[1:]}."


class Fallback(NamedTuple):
    """One fallback. ``round`` is -1 outside a round, ``slot`` -1 when it is about all of them."""

    round: int
    slot: int
    position: int
    kind: FallbackKind

    @property
    def place(self) -> str:
        """Where, such as ``slot 2, round 14``."""
        slot = "all slots" if self.slot < 0 else f"slot {self.slot}"
        return slot if self.round == NO_ROUND else f"{slot}, round {self.round}"

    @property
    def sentence(self) -> str:
        """Where and what, such as ``Slot 2, round 14: there was no room on the device for a checkpoint, so ...``."""
        return f"{self.place.capitalize()}: {self.kind.clause}."


def fallback_of(record: Any) -> Fallback:
    """The fallback that a ``FALLBACK`` record tells of; codes that this version does not know become 'none'."""
    kind = FallbackKind(
        FallbackReason(int(record["code"])) if int(record["code"]) in _REASON_CODES else FallbackReason.NONE,
        _mechanism(record["n"]),
        _mechanism(record["m"]),
    )
    return Fallback(int(record["round"]), int(record["slot"]), int(record["position"]), kind)


def fallbacks_of(records: Records) -> list[Fallback]:
    """The fallbacks of ``FALLBACK`` records, in their order."""
    return [fallback_of(record) for record in records]


def _mechanism(code: Any) -> Mechanism:
    return Mechanism(int(code)) if int(code) in _MECHANISM_CODES else Mechanism.NONE
