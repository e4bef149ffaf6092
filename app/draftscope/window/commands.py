"""What the actions do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QDialog, QMainWindow

from draftscope.engine.events import Kind
from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.engine.rpc import split_names
from draftscope.session.run_setup import RunSetup
from draftscope.session.session import Session
from draftscope.session.settings import Settings
from draftscope.session.shown_run import ShownRun
from draftscope.session.state import SessionState
from draftscope.window.appearance import Appearance
from draftscope.window.chosen_slot import ChosenSlot
from draftscope.window.docks import Docks
from draftscope.window.dropped_files import is_trace
from draftscope.window.slot_dialogs import ask_for_fork, ask_for_restore, ask_for_save

if TYPE_CHECKING:
    from draftscope.session.comparing import Side


class Commands(QObject):
    """Each public method is an action; none waits for anything. Dialogs are opened without blocking."""

    palette_asked = Signal()
    write_asked = Signal()
    shortcuts_asked = Signal()
    recordings_asked = Signal()
    load_asked = Signal()
    """Another model is about to be loaded; what was said about the one before is out of date."""
    trace_asked = Signal(object)
    """A trace is to be shown: carries its ``Path``."""
    back_asked = Signal()
    """The live run is to be shown again."""
    report_asked = Signal(object, bool)
    """A report is to be written: carries the ``Path``, and whether with the text."""
    done = Signal()
    """Something of the window itself changed (layout, colours, full screen)."""

    def __init__(
        self,
        window: QMainWindow,
        session: Session,
        setup: RunSetup,
        settings: Settings,
        appearance: Appearance,
        docks: Docks,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._session = session
        self.shown: ShownRun = session
        """What is on the screen; the window tells."""
        self._setup = setup
        self._settings = settings
        self._appearance = appearance
        self._docks = docks
        self._chosen = ChosenSlot(session)

    # ---- file

    def open_model(self, path: str | Path | None = None) -> None:
        """Ask for a model file and how to load it; ``path`` is chosen already where it is given."""
        from draftscope.window.open_dialog import OpenDialog

        dialog = OpenDialog(self._setup, self._settings, self._window)
        dialog.chosen.connect(self.load_file)
        self._show(dialog)
        if path is None:
            dialog.browse()
        else:
            dialog.set_path(Path(path))

    def load_file(self, path: str | Path) -> None:
        """Load a model file with the settings as they are, or show a trace."""
        if is_trace(Path(path)):
            self.trace_asked.emit(Path(path))
            return
        self.back_asked.emit()
        self.load_asked.emit()
        devices = tuple(name.strip() for name in self._settings.text("model/devices").split(",") if name.strip())
        self._session.open_model(
            path,
            self._setup.values.context,
            n_gpu_layers=self._settings.whole("model/n_gpu_layers"),
            devices=devices,
            use_mmap=self._settings.flag("model/use_mmap"),
            rpc_servers=split_names(self._settings.text("model/rpc_servers")),
            draft_path=self._settings.draft_of(path),
        )

    def clear_recent(self) -> None:
        """Forget the recent files."""
        self._settings.clear_recent()

    def back_to_live(self) -> None:
        """Close the saved trace."""
        self.back_asked.emit()

    def compare(self, traces: Sequence[Path] = ()) -> None:
        """Ask for the two sides of a comparison; ``traces`` are chosen already."""
        from draftscope.window.compare_dialog import CompareDialog

        dialog = CompareDialog(self.shown, traces, self._window)
        dialog.chosen.connect(self._show_comparison)
        self._show(dialog)

    def _show_comparison(self, ours: Side, theirs: Side) -> None:
        from draftscope.window.compare_window import CompareWindow

        self._show(CompareWindow(ours, theirs, self._appearance, self._window))

    def report(self) -> None:
        """Ask where to write the report to."""
        from draftscope.window.report_dialog import ReportDialog

        dialog = ReportDialog(self.shown, self._settings, self._window)
        dialog.chosen.connect(self.report_asked)
        self._show(dialog)

    def export(self) -> None:
        """Ask how and where to export the run to, and show how that goes."""
        from draftscope.window.export_dialog import ExportDialog

        self._show(ExportDialog(self.shown, self._settings, self._window))

    def show_recordings(self) -> None:
        """List the recorded runs."""
        self.recordings_asked.emit()

    def quit(self) -> None:
        """Close the window."""
        self._window.close()

    # ---- run

    def run_demo(self) -> None:
        """Run the demo; the controls show what it runs with."""
        self.back_asked.emit()
        self.load_asked.emit()
        self._session.run_demo()
        if self._session.last_request is not None:
            self._setup.show_request(self._session.last_request)

    def edit_prompts(self) -> None:
        """Edit prompts and sampling."""
        from draftscope.window.prompts_dialog import PromptsDialog

        dialog = PromptsDialog(self._setup, self._session.model, self._window)
        self._show(dialog)

    def run(self) -> None:
        """Run what the controls say."""
        self._session.run(self._setup.request())

    def run_again(self) -> None:
        """Repeat the last run as it was."""
        if self._session.last_request is not None:
            self._setup.show_request(self._session.last_request)
            self._session.run(self._session.last_request)

    def write_message(self) -> None:
        """Go to the message box of the next slot."""
        self.write_asked.emit()

    def stop(self) -> None:
        """End the run, or cancel the load."""
        if self._session.state is SessionState.LOADING:
            self._session.cancel_load()
        else:
            self._session.stop()

    def restart_engine(self) -> None:
        """Start the engine anew."""
        self._session.restart_engine()

    # ---- the selected slot

    def go_on_in_slot(self) -> None:
        """Generate on from what the slot holds, with the sampling of the controls."""
        if self._chosen.slot is not None:
            self._session.chats.go_on(self._chosen.slot)

    def rewind_slot(self) -> None:
        """Go back to the selected round."""
        n_tokens = self._chosen.n_to_rewind
        if self._chosen.slot is not None and n_tokens is not None:
            self._session.slots.rewind(self._chosen.slot, n_tokens)

    def fork_slot(self) -> None:
        """Ask for the slot that is to hold the same, unless there is just one."""
        slot, model = self._chosen.slot, self._session.model
        if slot is not None and model is not None:
            ask_for_fork(self._window, self._session.slots, slot, model.n_slots)

    def save_slot(self) -> None:
        """Ask for the file."""
        if self._chosen.slot is not None:
            ask_for_save(self._window, self._session, self._chosen.slot)

    def restore_slot(self) -> None:
        """Ask for the file."""
        if self._chosen.slot is not None:
            ask_for_restore(self._window, self._session, self._chosen.slot)

    def clear_slot(self) -> None:
        """Empty the slot."""
        if self._chosen.slot is not None:
            self._session.slots.clear(self._chosen.slot)

    # ---- probes

    def choose_probe_level(self, level: ProbeLevel) -> None:
        """Measure at this level in all slots."""
        self._session.probing.set_level(level)

    def choose_slot_probe_level(self, level: ProbeLevel) -> None:
        """Measure at this level in the selected slot."""
        if self._chosen.slot is not None:
            self._session.probing.set_slot_level(self._chosen.slot, level)

    def inject_fault(self, fault: Fault) -> None:
        """Let the restores of all slots do this wrong."""
        self._session.probing.inject(fault)

    def inject_slot_fault(self, fault: Fault) -> None:
        """Let the restores of the selected slot do this wrong."""
        if self._chosen.slot is not None:
            self._session.probing.inject(fault, self._chosen.slot)

    # ---- view

    def toggle_panel(self, panel: str) -> None:
        """Show a panel, or hide it."""
        self._docks.toggle(panel)
        self.done.emit()

    def show_fallbacks(self) -> None:
        """Bring the list of the fallbacks to the front."""
        from draftscope.panels.checkpoints import CheckpointsPanel

        panel = self._docks.bring_forward("checkpoints")
        if isinstance(panel, CheckpointsPanel):
            panel.show_fallbacks()
        self.done.emit()

    def reset_layout(self) -> None:
        """Put every panel back in its place."""
        self._docks.reset()
        self.done.emit()

    def toggle_rejected(self) -> None:
        """Show rejected tokens, or hide them."""
        self.shown.view.set_show_rejected(not self.shown.view.show_rejected)

    def select_previous_round(self) -> None:
        """Select the round before the selected one, or the last."""
        self._step_round(-1)

    def select_next_round(self) -> None:
        """Select the round after the selected one, or the last."""
        self._step_round(1)

    def _step_round(self, step: int) -> None:
        rounds = self.shown.trace.kind(Kind.ROUND)["round"]
        if len(rounds) == 0:
            return
        first, last = int(rounds.min()), int(rounds.max())
        selected = self.shown.view.selected_round
        self.shown.view.select_round(last if selected is None else min(max(selected + step, first), last))

    def deselect(self) -> None:
        """Select nothing."""
        self.shown.view.select_round(None)
        self.shown.view.select_slot(None)

    def choose_theme(self, choice: str) -> None:
        """Follow the system's colours, or stay dark or light."""
        self._settings.set("window/theme", choice)
        self._appearance.choose(choice)
        self.done.emit()

    def toggle_full_screen(self) -> None:
        """Fill the screen, or go back."""
        self._window.setWindowState(self._window.windowState() ^ Qt.WindowState.WindowFullScreen)
        self.done.emit()

    # ---- help

    def show_palette(self) -> None:
        """Open the command palette."""
        self.palette_asked.emit()

    def show_shortcuts(self) -> None:
        """List the shortcuts."""
        self.shortcuts_asked.emit()

    def show_about(self) -> None:
        """Tell what this program is."""
        from draftscope.window.about_dialog import AboutDialog

        self._show(AboutDialog(self._session.model, self._window))

    def _show(self, dialog: QDialog) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()
