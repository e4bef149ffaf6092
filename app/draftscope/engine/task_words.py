"""Whose a task is, for sentences."""

from __future__ import annotations

from draftscope.engine.protocol import ANY_SLOT


def whose(slot: int) -> str:
    """The slot of a task in words."""
    return "a task for any slot" if slot == ANY_SLOT else f"slot {slot}"
