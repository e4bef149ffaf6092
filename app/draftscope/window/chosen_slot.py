"""The slot that actions are about."""

from __future__ import annotations

from draftscope.engine.events import Kind
from draftscope.session.session import Session


class ChosenSlot:
    """The selected slot, or the only one that there is."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def slot(self) -> int | None:
        """Its number; None when none of several is selected."""
        model, selected = self._session.model, self._session.view.selected_slot
        if model is None:
            return None
        if selected is not None:
            return selected if selected < model.n_slots else None
        return 0 if model.n_slots == 1 else None

    @property
    def n_held(self) -> int:
        """Tokens that it holds."""
        return 0 if self.slot is None else self._session.slots.n_tokens(self.slot)

    @property
    def n_to_rewind(self) -> int | None:
        """Tokens that it held after the selected round; None where that cannot be said.

        A round of the run says so as long as the slot goes on from there, or from a place before it.
        """
        slot, round_id = self.slot, self._session.view.selected_round
        if slot is None or round_id is None:
            return None
        held = self._session.slots.held.get(slot)
        if held is None or held.origin not in ("", "rewound"):
            return None
        rounds = self._session.trace.kind(Kind.ROUND)
        mine = rounds[(rounds["slot"] == slot) & (rounds["round"] == round_id)]
        return int(mine["position"][-1]) if len(mine) else None
