"""Everything that can be done in the window, as one table: menus, toolbar, palette and shortcuts page come from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from draftscope.window.commands import Commands
from draftscope.window.situation import (
    Situation,
    always,
    why_not_back,
    why_not_demo,
    why_not_deselect,
    why_not_export,
    why_not_fork,
    why_not_held,
    why_not_recent,
    why_not_recordings,
    why_not_report,
    why_not_restart,
    why_not_rewind,
    why_not_rounds,
    why_not_run,
    why_not_run_again,
    why_not_setup,
    why_not_slot,
    why_not_stop,
    why_not_write,
)

MENUS = ("File", "Run", "Slot", "View", "Help")

SLOT_ACTIONS = ("go_on", "rewind_slot", "fork_slot", "", "save_slot", "restore_slot", "", "clear_slot")
"""Ids of the actions in a slot's own menu; '' is a line."""


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


def _theme(choice: str, text: str, tip: str) -> Action:
    return Action(
        f"theme_{choice}",
        text,
        "View",
        tip,
        lambda commands: commands.choose_theme(choice),
        group=2,
        is_checked=lambda now: now.theme_choice == choice,
    )


def _panel(panel: str, title: str, shortcut: str) -> Action:
    return Action(
        f"panel_{panel}",
        f"{title} panel",
        "View",
        f"Show or hide the {title} panel",
        lambda commands: commands.toggle_panel(panel),
        shortcut,
        is_checked=lambda now: panel in now.shown_panels,
    )


ACTIONS = (
    Action("open", "Open…", "File", "Open a GGUF file or a trace", Commands.open_model, "Ctrl+O", "open", "Open"),
    Action(
        "clear_recent",
        "Forget recent files",
        "File",
        "Empty the list of recent files",
        Commands.clear_recent,
        why_not=why_not_recent,
    ),
    Action(
        "back_to_live",
        "Back to the live run",
        "File",
        "Close the saved trace and show the run of the engine again",
        Commands.back_to_live,
        "Ctrl+Backspace",
        why_not=why_not_back,
    ),
    Action(
        "compare",
        "Compare with…",
        "File",
        "Compare the run that is shown, or a trace, with another trace",
        Commands.compare,
        "Ctrl+K",
        group=1,
    ),
    Action(
        "report",
        "Report…",
        "File",
        "Write the run as one HTML page, for a bug report",
        Commands.report,
        group=1,
        why_not=why_not_report,
    ),
    Action(
        "export",
        "Export the run…",
        "File",
        "Write the run as a Chrome trace, for Perfetto and chrome://tracing",
        Commands.export,
        "Ctrl+E",
        "export",
        "Export",
        1,
        why_not_export,
    ),
    Action(
        "recordings",
        "Recordings…",
        "File",
        "The runs that were recorded: open, pin, copy or delete them",
        Commands.show_recordings,
        "Ctrl+Shift+R",
        group=1,
        why_not=why_not_recordings,
    ),
    Action("quit", "Quit", "File", "Close the window and end the engine", Commands.quit, "Ctrl+Q", group=2),
    Action(
        "demo",
        "Run the demo",
        "Run",
        "Load the bundled model and run four prompts on it",
        Commands.run_demo,
        "Ctrl+D",
        "demo",
        "Demo",
        0,
        why_not_demo,
    ),
    Action(
        "prompts",
        "Prompts and sampling…",
        "Run",
        "Write what each slot starts from, and how its tokens are chosen",
        Commands.edit_prompts,
        "Ctrl+P",
        "prompts",
        "Prompts",
        1,
        why_not_setup,
    ),
    Action(
        "run",
        "Run",
        "Run",
        "Run the prompts in all slots",
        Commands.run,
        "Ctrl+Return",
        "run",
        "Run",
        1,
        why_not_run,
    ),
    Action(
        "run_again",
        "Run the last run again",
        "Run",
        "Repeat the last run with its own prompts and settings",
        Commands.run_again,
        "Ctrl+Shift+Return",
        "run_again",
        "",
        1,
        why_not_run_again,
    ),
    Action(
        "write",
        "Write a message",
        "Run",
        "Go to the message box of the next slot",
        Commands.write_message,
        "Ctrl+M",
        group=1,
        why_not=why_not_write,
    ),
    Action(
        "stop",
        "Stop",
        "Run",
        "End the run, or cancel the load; what was recorded is kept",
        Commands.stop,
        "Ctrl+.",
        "stop",
        "Stop",
        1,
        why_not_stop,
    ),
    Action(
        "restart",
        "Restart the engine",
        "Run",
        "End the engine process, start a new one and load the model again",
        Commands.restart_engine,
        icon="restart",
        group=2,
        why_not=why_not_restart,
    ),
    Action(
        "go_on",
        "Go on in this slot",
        "Slot",
        "Generate on from what the selected slot holds",
        Commands.go_on_in_slot,
        why_not=why_not_held,
    ),
    Action(
        "rewind_slot",
        "Rewind to the selected round",
        "Slot",
        "Let the selected slot hold what it held after the selected round",
        Commands.rewind_slot,
        why_not=why_not_rewind,
    ),
    Action(
        "fork_slot",
        "Fork to…",
        "Slot",
        "Let another slot hold what the selected one holds",
        Commands.fork_slot,
        why_not=why_not_fork,
    ),
    Action(
        "save_slot",
        "Save slot…",
        "Slot",
        "Write what the selected slot holds into a file, for this model",
        Commands.save_slot,
        group=1,
        why_not=why_not_held,
    ),
    Action(
        "restore_slot",
        "Restore slot…",
        "Slot",
        "Let the selected slot hold what a file holds",
        Commands.restore_slot,
        group=1,
        why_not=why_not_slot,
    ),
    Action(
        "clear_slot",
        "Clear slot",
        "Slot",
        "Empty the selected slot",
        Commands.clear_slot,
        group=2,
        why_not=why_not_held,
    ),
    _panel("acceptance", "Acceptance", "Alt+1"),
    _panel("timeline", "Timeline", "Alt+2"),
    _panel("checkpoints", "Checkpoints", "Alt+3"),
    _panel("engine", "Engine", "Alt+4"),
    _panel("log", "Log", "Alt+5"),
    Action("reset_layout", "Reset the layout", "View", "Put every panel back in its place", Commands.reset_layout),
    Action(
        "show_rejected",
        "Show rejected tokens",
        "View",
        "Show the draft tokens that the target rejected",
        Commands.toggle_rejected,
        "Ctrl+J",
        group=1,
        is_checked=lambda now: now.shows_rejected,
    ),
    Action(
        "previous_round",
        "Select the round before",
        "View",
        "Select the round before the selected one in every panel",
        Commands.select_previous_round,
        "Alt+Left",
        group=1,
        why_not=why_not_rounds,
    ),
    Action(
        "next_round",
        "Select the next round",
        "View",
        "Select the round after the selected one in every panel",
        Commands.select_next_round,
        "Alt+Right",
        group=1,
        why_not=why_not_rounds,
    ),
    Action(
        "deselect",
        "Clear the selection",
        "View",
        "Select no round",
        Commands.deselect,
        "Alt+Up",
        group=1,
        why_not=why_not_deselect,
    ),
    _theme("system", "Colours of the system", "Dark or light as the system has it"),
    _theme("dark", "Dark colours", "Stay dark, whatever the system has"),
    _theme("light", "Light colours", "Stay light, whatever the system has"),
    Action(
        "full_screen",
        "Full screen",
        "View",
        "Fill the screen with the window",
        Commands.toggle_full_screen,
        "F11",
        group=3,
        is_checked=lambda now: now.is_full_screen,
    ),
    Action(
        "palette",
        "Find an action…",
        "Help",
        "Find and do anything by its name",
        Commands.show_palette,
        "Ctrl+Shift+P",
        "palette",
    ),
    Action("shortcuts", "Keyboard shortcuts", "Help", "List every shortcut", Commands.show_shortcuts, "F1"),
    Action("about", "About Draftscope", "Help", "Version, parts and licences", Commands.show_about, group=1),
)
"""Every action, in the order of its menu."""

TOOLBAR = ("open", "demo", "", "prompts", "run", "stop", "", "export")
"""Ids of the actions on the toolbar; '' is where the controls of the setup or a line stand."""
