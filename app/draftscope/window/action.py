"""What an action of the window is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from draftscope.window.commands import Commands
from draftscope.window.situation import Situation, always


@dataclass(frozen=True, slots=True)
class Action:
    """A row. ``why_not`` answers '' when it can be done now, else the reason in a sentence.

    ``short``: its text on the toolbar. ``is_checked``: given for what is on or off. ``icon`` names a file of
    ``resources/icons`` and is '' for actions that stand in menus only. ``group``: rows of a menu between two lines.
    """

    id: str
    text: str
    menu: str
    tip: str
    do: Callable[[Commands], object]
    shortcut: str = ""
    icon: str = ""
    short: str = ""
    group: int = 0
    why_not: Callable[[Situation], str] = always
    is_checked: Callable[[Situation], bool] | None = None
