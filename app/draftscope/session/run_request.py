"""What a run is asked to do: the contexts it needs and one task a slot."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.engine.protocol import ContextSettings, SlotTask


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Contexts and tasks of one run. Tasks name slots below ``context.n_slots``, each at most once.

    ``is_turn``: one slot goes on with its conversation; what other slots do, and the run so far, stays.
    """

    context: ContextSettings
    tasks: tuple[SlotTask, ...]
    is_turn: bool = False
