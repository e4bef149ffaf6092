"""What the window's situation is, as far as it decides what can be done now; and why something cannot."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.session.state import SessionState

NO_ENGINE = "This is a saved trace, which has no engine: go back to the live run first."
"""Why something that needs an engine cannot be done while a trace from a file is shown."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A moment of the window, taken whole so that every action is judged by the same. ``shown_panels`` holds ids."""

    state: SessionState = SessionState.NO_MODEL
    has_prompts: bool = False
    has_records: bool = False
    has_rounds: bool = False
    has_last_request: bool = False
    has_selection: bool = False
    has_recent: bool = False
    n_slots: int = 0
    slot: int | None = None
    """The selected slot, or the only one."""
    n_held: int = 0
    """Tokens that the slot holds."""
    n_to_rewind: int | None = None
    """Tokens that it held after the selected round."""
    is_changing_slot: bool = False
    is_exporting: bool = False
    has_recordings: bool = False
    """Whether there is a folder for recordings."""
    is_reporting: bool = False
    is_full_screen: bool = False
    shows_rejected: bool = True
    theme_choice: str = "system"
    shown_panels: frozenset[str] = frozenset()
    probe_level: ProbeLevel = ProbeLevel.OFF
    slot_probe_level: ProbeLevel | None = None
    """What is measured in the selected slot."""
    fault: Fault = Fault.NONE
    fault_slot: int | None = None
    """The slot that the fault is in; None: all."""
    drafts: bool = False
    """Whether the model drafts."""
    is_recurrent: bool = False
    has_assistant: bool = False


def always(_: Situation) -> str:
    """Can always be done."""
    return ""


def why_not_run(now: Situation) -> str:
    """Why no run can be started, or ''."""
    match now.state:
        case SessionState.SAVED:
            return NO_ENGINE
        case SessionState.NO_MODEL:
            return "No model is loaded: open a GGUF file, or run the demo."
        case SessionState.LOADING:
            return "The model is still loading."
        case SessionState.RUNNING | SessionState.STOPPING:
            return "A run is going on: stop it first."
        case SessionState.ENGINE_DIED:
            return "The engine has ended: start it again."
        case _:
            return "" if now.has_prompts else "There is no prompt yet: write one under Prompts."


def why_not_run_again(now: Situation) -> str:
    """Why the last run cannot be repeated, or ''."""
    if now.state is SessionState.SAVED:
        return NO_ENGINE
    if not now.has_last_request:
        return "Nothing has run yet."
    is_running = now.state in (SessionState.RUNNING, SessionState.STOPPING)
    return "A run is going on: stop it first." if is_running else ""


def why_not_demo(now: Situation) -> str:
    """Why the demo cannot be run, or ''."""
    if now.state in (SessionState.RUNNING, SessionState.STOPPING):
        return "A run is going on: stop it first."
    return "A model is loading: wait for it, or cancel." if now.state is SessionState.LOADING else ""


def why_not_stop(now: Situation) -> str:
    """Why there is nothing to stop, or ''."""
    if now.state is SessionState.SAVED:
        return NO_ENGINE
    if now.state is SessionState.STOPPING:
        return "The run is being stopped."
    return "" if now.state in (SessionState.RUNNING, SessionState.LOADING) else "Nothing is running."


def why_not_write(now: Situation) -> str:
    """Why there is no slot to write to, or ''."""
    if now.state is SessionState.SAVED:
        return NO_ENGINE
    return "No model is loaded: open a GGUF file, or run the demo." if now.state is SessionState.NO_MODEL else ""


def why_not_export(now: Situation) -> str:
    """Why nothing can be exported, or ''."""
    if now.is_exporting:
        return "An export is being written."
    return "" if now.has_records else "There is nothing to export: nothing has run yet."


def why_not_recordings(now: Situation) -> str:
    """Why there is no list of recordings, or ''."""
    return "" if now.has_recordings else "This window has no folder for recordings."


def why_not_restart(now: Situation) -> str:
    """Why the engine cannot be started anew, or ''."""
    return NO_ENGINE if now.state is SessionState.SAVED else ""


def why_not_report(now: Situation) -> str:
    """Why there is nothing to report, or ''."""
    if now.is_reporting:
        return "A report is being written."
    return "" if now.has_records else "There is nothing to report: nothing has run yet."


def why_not_back(now: Situation) -> str:
    """Why there is no way back to the live run, or ''."""
    return "" if now.state is SessionState.SAVED else "The live run is shown already."


def why_not_setup(now: Situation) -> str:
    """Why the settings of the next run cannot be changed, or ''."""
    if now.state is SessionState.SAVED:
        return NO_ENGINE
    is_running = now.state in (SessionState.RUNNING, SessionState.STOPPING)
    return "Settings can be changed when the run has ended." if is_running else ""


def why_not_recent(now: Situation) -> str:
    """Why there are no recent files to forget, or ''."""
    return "" if now.has_recent else "No file has been opened yet."


def why_not_rounds(now: Situation) -> str:
    """Why no round can be selected, or ''."""
    return "" if now.has_rounds else "There is no round yet: nothing has run."


def why_not_deselect(now: Situation) -> str:
    """Why there is no selection to clear, or ''."""
    return "" if now.has_selection else "No round is selected."


def why_not_slot(now: Situation) -> str:
    """Why nothing can be done with a slot, or ''."""
    match now.state:
        case SessionState.SAVED:
            return NO_ENGINE
        case SessionState.NO_MODEL:
            return "No model is loaded: open a GGUF file, or run the demo."
        case SessionState.LOADING:
            return "The model is still loading."
        case SessionState.RUNNING | SessionState.STOPPING:
            return "A run is going on: stop it first."
        case SessionState.ENGINE_DIED:
            return "The engine has ended: start it again."
    if now.is_changing_slot:
        return "A slot is being changed: wait a moment."
    return "" if now.slot is not None else "Select a slot first: click on its card."


def why_not_held(now: Situation) -> str:
    """Why nothing can be done with what a slot holds, or ''."""
    return why_not_slot(now) or ("" if now.n_held else f"Slot {now.slot} holds nothing.")


def why_not_fork(now: Situation) -> str:
    """Why a slot cannot be forked, or ''."""
    return why_not_held(now) or ("" if now.n_slots > 1 else "There is no other slot: load the model with more of them.")


def why_not_rewind(now: Situation) -> str:
    """Why a slot cannot go back to the selected round, or ''."""
    if reason := why_not_held(now):
        return reason
    if not now.has_selection:
        return "Select a round first: click on a token, or on the timeline."
    if now.n_to_rewind is None:
        return f"Slot {now.slot} had no part in the selected round, or holds something else by now."
    return "" if now.n_to_rewind < now.n_held else f"The selected round is the last that slot {now.slot} holds."


def why_not_slot_probe(now: Situation) -> str:
    """Why no level can be chosen for a single slot, or ''."""
    if now.state is SessionState.SAVED:
        return NO_ENGINE
    if now.n_slots == 0:
        return "No model is loaded: open a GGUF file, or run the demo."
    return "" if now.slot is not None else "Select a slot first: click on its card."


def why_not_fault(now: Situation) -> str:
    """Why no fault can be injected, or ''."""
    match now.state:
        case SessionState.SAVED:
            return NO_ENGINE
        case SessionState.NO_MODEL:
            return "No model is loaded: open a GGUF file, or run the demo."
        case SessionState.LOADING:
            return "The model is still loading."
        case SessionState.ENGINE_DIED:
            return "The engine has ended: start it again."
    return "" if now.drafts else "Nothing is drafted, so no restore can go wrong: choose a draft length, then run."


def why_not_skip_layer(now: Situation) -> str:
    """Why no recurrent layer can be left out, or ''."""
    return why_not_fault(now) or ("" if now.is_recurrent else "This model has no recurrent layers to leave out.")


def why_not_behind(now: Situation) -> str:
    """Why no MTP context can be left behind, or ''."""
    return why_not_fault(now) or ("An assistant keeps no keys that could be left behind." if now.has_assistant else "")


def why_not_slot_behind(now: Situation) -> str:
    """Why no MTP context of a single slot can be left behind, or ''."""
    return why_not_behind(now) or why_not_slot_probe(now)


def why_not_slot_fault(now: Situation) -> str:
    """Why no fault can be injected into a single slot, or ''."""
    return why_not_fault(now) or why_not_slot_probe(now)


def why_not_slot_skip_layer(now: Situation) -> str:
    """Why no recurrent layer of a single slot can be left out, or ''."""
    return why_not_skip_layer(now) or why_not_slot_probe(now)


def why_not_end_fault(now: Situation) -> str:
    """Why there is no fault to end, or ''."""
    return "No fault is active." if now.fault is Fault.NONE else ""
