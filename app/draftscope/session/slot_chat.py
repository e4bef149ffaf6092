"""The conversation of one slot, and where its answers stand in the trace of the run."""

from __future__ import annotations

from dataclasses import dataclass, field

from draftscope.engine.dialogue import Dialogue

TokenRange = tuple[int, int]
"""From the first to behind the last TOKEN record of a slot, counted in the trace of the run."""


@dataclass(slots=True)
class SlotChat:
    """``places``: tokens of answers by the number of their turn, as far as the trace of the run holds them.

    ``first_token``: where the answer that is being generated begins; None while there is none. ``goes_on``: it follows
    what the slot holds, so it is the rest of the last one. ``error``: why the last message got no answer, '' where it
    did. ``revision`` rises with every change of what is said.
    """

    dialogue: Dialogue = field(default_factory=Dialogue)
    places: dict[int, TokenRange] = field(default_factory=dict)
    first_token: int | None = None
    goes_on: bool = False
    error: str = ""
    revision: int = 0
