"""Moves the shared selection from round to round, for the arrow keys of any panel."""

from __future__ import annotations

from draftscope.engine.events import Kind
from draftscope.session.shown_run import ShownRun


def step_round(session: ShownRun, step: int) -> None:
    """Select the round ``step`` after the selected one, within the run; without a selection, the newest."""
    rounds = session.trace.kind(Kind.ROUND)["round"]
    if len(rounds) == 0:
        return
    first, last = int(rounds.min()), int(rounds.max())
    selected = session.view.selected_round
    session.view.select_round(last if selected is None else min(max(selected + step, first), last))
