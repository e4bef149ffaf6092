"""The panels of the window, as a table. Each is imported when it is built: pyqtgraph alone takes a third of a start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from draftscope.panels.panel import Panel


@dataclass(frozen=True, slots=True)
class PanelRow:
    """A panel in a dock: its id and title before it is built, and how to get its class."""

    id: str
    title: str
    load: Callable[[], type[Panel]]


def _acceptance() -> type[Panel]:
    from draftscope.panels.acceptance import AcceptancePanel

    return AcceptancePanel


def _timeline() -> type[Panel]:
    from draftscope.panels.timeline import TimelinePanel

    return TimelinePanel


def _checkpoints() -> type[Panel]:
    from draftscope.panels.checkpoints import CheckpointsPanel

    return CheckpointsPanel


def _restores() -> type[Panel]:
    from draftscope.panels.restore_diffs import RestoreDiffsPanel

    return RestoreDiffsPanel


def _engine() -> type[Panel]:
    from draftscope.panels.engine import EnginePanel

    return EnginePanel


def _log() -> type[Panel]:
    from draftscope.panels.log import LogPanel

    return LogPanel


DOCKED = (
    PanelRow("acceptance", "Acceptance", _acceptance),
    PanelRow("timeline", "Timeline", _timeline),
    PanelRow("checkpoints", "Checkpoints", _checkpoints),
    PanelRow("engine", "Engine", _engine),
    PanelRow("log", "Log", _log),
    PanelRow("restores", "Restore diffs", _restores),
)
"""The panels around the output, in the order of their shortcuts."""
