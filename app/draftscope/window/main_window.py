"""The main window: puts the parts together and follows the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from draftscope.base.theme import Theme
from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.events import Kind
from draftscope.engine.probes import ProbeLevel
from draftscope.panels.output import OutputPanel
from draftscope.panels.panel import Panel
from draftscope.panels.probe_bar import FaultBanner
from draftscope.session.reports import Reports
from draftscope.session.run_setup import RunSetup
from draftscope.session.session import Session
from draftscope.session.settings import Settings
from draftscope.session.state import SessionState
from draftscope.trace.fallback_words import Fallback
from draftscope.window.action_set import ActionSet
from draftscope.window.appearance import Appearance
from draftscope.window.chosen_slot import ChosenSlot
from draftscope.window.command_palette import CommandPalette
from draftscope.window.commands import Commands
from draftscope.window.docks import Docks
from draftscope.window.dropped_files import pick_dropped
from draftscope.window.export_notices import ExportNotices
from draftscope.window.first_run import FirstRun
from draftscope.window.frame_clock import FrameClock
from draftscope.window.menus import RecentMenu, fill_menu_bar, make_slot_menu, make_toolbar
from draftscope.window.notices import Notice, NoticeArea, Offer, ProgressNotice
from draftscope.window.panel_rows import DOCKED
from draftscope.window.recordings_part import RecordingsPart
from draftscope.window.setup_controls import SetupControls
from draftscope.window.shortcuts_page import ShortcutsPage
from draftscope.window.situation import Situation
from draftscope.window.trace_view import TraceView
from draftscope.window.truth_strip import TruthStrip


class MainWindow(QMainWindow):
    """Toolbar, output in the middle, panels in docks, and the strip of truth. Owns the clock, not the session."""

    def __init__(self, session: Session, settings: Settings, appearance: Appearance) -> None:
        super().__init__()
        self.session = session
        self.settings = settings
        self.appearance = appearance
        self.setup = RunSetup(settings, self)
        session.chats.values = lambda: self.setup.values
        self.output = OutputPanel(session, appearance.theme)
        self.panels: list[Panel] = [self.output]
        self.docks = Docks(self, DOCKED, appearance.theme)
        self.commands = Commands(self, session, self.setup, settings, appearance, self.docks)
        self.chosen = ChosenSlot(session)
        self.actions_by_id = ActionSet(self.commands, appearance.theme, self)
        self.notices = NoticeArea()
        self.recordings = RecordingsPart(self, session.recorder, settings, self.notices.show_notice)
        self._load_notice = ProgressNotice(self.commands.stop)
        self.fault_banner = FaultBanner(appearance.theme)
        self.controls = SetupControls(self.setup, self)
        self.strip = TruthStrip(session)
        self.clock = FrameClock(session, self)
        self.clock.add(self.output)
        self.middle = QStackedWidget()
        self.traces = TraceView(session, self.docks, self.middle, self.clock, appearance)
        self.reports = Reports(self)
        self._build()
        self._connect()
        self._restore()
        self._follow()

    def _build(self) -> None:
        self.setWindowTitle("Draftscope")
        self.setAcceptDrops(True)
        self.setMinimumSize(1024, 560)
        self.resize(1280, 800)
        recent = RecentMenu(self.settings, self)
        recent.chosen.connect(self._open_recent)
        fill_menu_bar(self, self.actions_by_id, recent)
        self.toolbar = make_toolbar(self, self.actions_by_id, self.controls)
        self.notices.add_progress(self._load_notice)
        self.notices.add_progress(self.traces.progress)
        self.export_notices = ExportNotices(self.session.exports, self.notices, self)
        self.first_run = FirstRun(self.actions_by_id["demo"], self.actions_by_id["open"])
        self.middle.addWidget(self.first_run)
        self.middle.addWidget(self.output)
        central = QWidget()
        layout = QVBoxLayout(central)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.fault_banner)
        layout.addWidget(self.notices)
        layout.addWidget(self.traces.bar)
        layout.addWidget(self.middle, 1)
        self.setCentralWidget(central)
        self.setStatusBar(self.strip)
        self.palette_box = CommandPalette(self.actions_by_id, self)

    def _connect(self) -> None:
        session = self.session
        session.model_changed.connect(self._on_model_changed)
        session.failed.connect(self._on_failed)
        session.fallbacks.fell_back.connect(self._on_fell_back)
        session.run_started.connect(self.notices.clear)
        self.commands.load_asked.connect(self.notices.clear)
        session.slots.saved.connect(self._on_slot_saved)
        self.output.slot_menu_asked.connect(self._show_slot_menu)
        session.probing.changed.connect(self._on_probing_changed)
        self.fault_banner.end_asked.connect(self.actions_by_id["teach_none"].trigger)
        session.view.show_rejected_changed.connect(self._on_show_rejected)
        for changed in (session.state_changed, self.commands.done, self.docks.shown_changed, self.setup.changed):
            changed.connect(self._follow)
        self.clock.ticked.connect(self._follow)
        self.clock.ticked.connect(self.strip.tick)
        self.recordings.open_requested.connect(self.open_file)
        self.commands.recordings_asked.connect(self.recordings.show)
        self.commands.write_asked.connect(self.output.write)
        self.commands.palette_asked.connect(self.palette_box.ask)
        self.commands.shortcuts_asked.connect(self._show_shortcuts)
        self.appearance.theme_changed.connect(self._on_theme_changed)
        self._connect_traces()

    def _connect_traces(self) -> None:
        traces, commands = self.traces, self.commands
        traces.changed.connect(self._on_shown_changed)
        traces.traces.failed.connect(self._on_trace_failed)
        traces.bar.compare_asked.connect(self.actions_by_id["compare"].trigger)
        traces.bar.report_asked.connect(self.actions_by_id["report"].trigger)
        commands.trace_asked.connect(traces.open)
        commands.back_asked.connect(traces.back)
        commands.report_asked.connect(self._write_report)
        self.reports.ended.connect(self._on_report_ended)

    def _restore(self) -> None:
        self.session.view.set_show_rejected(self.settings.flag("window/show_rejected"))
        self.session.probing.set_level(ProbeLevel(self.settings.text("probe/level")))
        geometry = self.settings.layout("geometry")
        if not geometry.isEmpty():
            self.restoreGeometry(geometry)
        self.docks.restore(self.settings)

    # ---- following the session

    def situation(self) -> Situation:
        """The moment, as the actions judge it."""
        session, shown, model = self.session, self.traces.shown, self.session.model
        return Situation(
            state=shown.state,
            has_prompts=self.setup.has_prompts,
            has_records=shown.trace.n_records > 0,
            has_rounds=len(shown.trace.kind(Kind.ROUND)) > 0,
            has_last_request=session.last_request is not None,
            has_selection=shown.view.selected_round is not None,
            has_recent=bool(self.settings.recent_files),
            n_slots=model.n_slots if model is not None else 0,
            slot=self.chosen.slot,
            n_held=self.chosen.n_held,
            n_to_rewind=self.chosen.n_to_rewind,
            is_changing_slot=session.slots.is_changing,
            is_exporting=session.exports.is_running,
            has_recordings=session.recorder.recordings is not None,
            is_reporting=self.reports.is_running,
            is_full_screen=self.isFullScreen(),
            shows_rejected=shown.view.show_rejected,
            theme_choice=self.appearance.choice,
            shown_panels=self.docks.shown,
            probe_level=session.probing.level,
            slot_probe_level=None if self.chosen.slot is None else session.probing.level_of(self.chosen.slot),
            fault=session.probing.fault,
            fault_slot=session.probing.fault_slot,
            drafts=model is not None and model.speculation.is_active,
            is_recurrent=model is not None and model.is_recurrent,
            has_assistant=model is not None and model.speculation.family == "assistant",
        )

    def _follow(self) -> None:
        now = self.situation()
        self.actions_by_id.follow(now)
        self.controls.follow(now)
        self._follow_load()
        is_first = now.state is SessionState.NO_MODEL and not now.has_records and not self.session.tasks
        page = self.traces.output or (self.first_run if is_first else self.output)
        if self.middle.currentWidget() is not page:
            self.middle.setCurrentWidget(page)

    def _follow_load(self) -> None:
        settings = self.session.model_settings
        if self.session.state is not SessionState.LOADING or settings is None:
            self._load_notice.hide()
            return
        fraction, stage = self.session.progress
        name = Path(settings.path).name
        self._load_notice.tell(f"Loading {name}: {stage}", fraction, can_cancel=stage != "cancelling")

    def _on_model_changed(self) -> None:
        model = self.session.model
        self.controls.show_model(model)
        self._tell_title()
        if model is not None:
            self.settings.add_recent(model.path)

    def _tell_title(self) -> None:
        opened, model = self.traces.opened, self.session.model
        if opened is not None:
            self.setWindowTitle(f"{opened.path.name} (saved trace) · Draftscope")
        else:
            self.setWindowTitle("Draftscope" if model is None else f"{Path(model.path).name} · Draftscope")

    def _on_shown_changed(self) -> None:
        self.commands.shown = self.traces.shown
        self.strip.show_run(self.traces.shown)
        opened = self.traces.opened
        if opened is not None:
            self.settings.add_recent(opened.path)
            opened.view.show_rejected_changed.connect(self._on_show_rejected)
        self._tell_title()
        self._follow()

    def _on_trace_failed(self, report: ErrorReport) -> None:
        self.notices.show_notice(Notice(report.message, report.hint))

    def _write_report(self, path: Path, with_text: bool) -> None:
        self.reports.start(self.traces.shown.snapshot(), path, with_text=with_text)

    def _on_report_ended(self, path: Path, error: str) -> None:
        if error:
            self.notices.show_notice(Notice(error, "Choose another place, then write it again."))
        else:
            self.notices.show_notice(Notice(f"The report is in {path}.", "Open it in any browser.", tone="ok"))

    def _on_failed(self, report: ErrorReport) -> None:
        offers = []
        details = ""
        death = self.session.death
        if report.code is ErrorCode.ENGINE_DIED and death is not None:
            details = "\n".join(death.log_tail)
            if self.session.last_request is not None:
                offers.append(Offer("Run again", self.actions_by_id["run_again"].trigger))
        self.notices.show_notice(Notice(report.message, report.hint, details, offers))

    def _on_slot_saved(self, sentence: str) -> None:
        self.notices.show_notice(Notice(sentence, "", tone="ok"))

    def _show_slot_menu(self, slot: int, place: QPoint) -> None:
        self.session.view.select_slot(slot)
        self._follow()
        make_slot_menu(self, self.actions_by_id, slot).popup(place)

    def _on_probing_changed(self) -> None:
        probing = self.session.probing
        self.settings.set("probe/level", probing.level.value)
        self.fault_banner.show_fault(probing)
        self.strip.tell()
        self._follow()

    def _on_fell_back(self, fallback: Fallback) -> None:
        offers = [Offer("Show all", self.commands.show_fallbacks)]
        notice = Notice(fallback.kind.sentence, f"First in {fallback.place}.", "", offers, tone="warn")
        self.notices.show_notice(notice)

    def _on_show_rejected(self) -> None:
        self.settings.set("window/show_rejected", self.traces.shown.view.show_rejected)

    def _on_theme_changed(self, theme: Theme) -> None:
        for panel in (*self.panels, *self.traces.panels):
            panel.set_theme(theme)
        self.docks.set_theme(theme)
        self.fault_banner.set_theme(theme)
        self.actions_by_id.set_theme(theme)

    def _show_shortcuts(self) -> None:
        ShortcutsPage(self.actions_by_id, self).open()

    # ---- files given to the window

    def open_file(self, path: str | Path) -> None:
        """Open a file that was dropped, double-clicked or named on the command line; say so when it cannot be."""
        self.open_files([Path(path)])

    def open_files(self, paths: Sequence[Path]) -> None:
        """Open the one of several files that can be opened, and say what happens to the others."""
        picked = pick_dropped(paths)
        if picked.model is not None:
            self.commands.load_file(picked.model)
        elif len(picked.traces) == 1:
            self.traces.open(picked.traces[0])
        elif picked.traces:
            self.commands.compare(picked.traces)
        if picked.problem is not None:
            self.notices.show_notice(Notice(picked.problem.message, picked.problem.hint, tone="warn"))

    def _open_recent(self, path: str) -> None:
        if not Path(path).exists():
            self.settings.remove_recent(path)
        self.open_file(path)

    def take_over(self, path: Path | None) -> None:
        """A second start of the program: come to the front, and open its file if it brought one."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()
        if path is not None:
            self.open_file(path)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        """Take files; what kind they are is said when they are dropped."""
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """Open what was dropped."""
        event.acceptProposedAction()
        self.open_files([Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()])

    # ---- beginning and end

    def sizeHint(self) -> QSize:  # noqa: N802
        """The size of a first start."""
        return QSize(1280, 800)

    def start(self) -> None:
        """Show the window and start the clock; the panels follow once the window is on the screen."""
        self.show()
        self.first_run.demo.setFocus()
        self.clock.start()
        QTimer.singleShot(0, self.fill_docks)
        self.recordings.start()

    def fill_docks(self) -> None:
        """Build the panels of the docks; does nothing when they are there."""
        if len(self.panels) > 1:
            return
        for row in DOCKED:
            panel = row.load()(self.session, self.appearance.theme)
            self.panels.append(panel)
            self.docks.fill(panel)
            self.clock.add(panel)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Keep the layout, end the engine; nothing is left behind."""
        self.clock.stop()
        self.settings.set_layout("geometry", self.saveGeometry())
        self.docks.save(self.settings)
        self.settings.save()
        self.hide()  # the engine may take a moment to end
        self.recordings.close()
        self.traces.close()
        self.reports.close()
        self.session.close()
        super().closeEvent(event)
