"""The program on a stage: a real window over a real engine, offscreen, driven by hand and photographed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QApplication, QDialog, QWidget

from draftscope.base.theme import THEMES, Theme
from draftscope.engine.worker_client import WorkerClient
from draftscope.panels.checkpoints import TABS, CheckpointsPanel
from draftscope.panels.panel import Panel
from draftscope.panels.restore_details import TABS as RESTORE_TABS
from draftscope.panels.restore_diffs import RestoreDiffsPanel
from draftscope.session.recorder import Recorder
from draftscope.session.recordings import Recordings
from draftscope.session.session import Session
from draftscope.session.settings import Settings
from draftscope.session.state import SessionState
from draftscope.window.appearance import Appearance
from draftscope.window.main_window import MainWindow

SIZES = ((1600, 980), (1280, 800))
TIMEOUT_S = 60.0


class Stage:
    """One window with its engine; pictures go into ``out``, one a theme, named by what they show."""

    def __init__(self, app: QApplication, appearance: Appearance, out: Path, settings: Path, backend: str) -> None:
        self.app = app
        self.appearance = appearance
        self.out = out
        self.pictures: list[Path] = []
        self.client = WorkerClient(backend)
        kept, recordings = Settings(settings), Recordings(settings.with_suffix(".recordings"), 1 << 30)
        self.session = Session(self.client, recorder=Recorder(recordings, kept))
        self.window = MainWindow(self.session, kept, appearance)
        self.window.resize(*SIZES[0])
        self.window.start()
        self.pump(lambda: self.window.isVisible())

    def pump(self, until: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        """Let the program run until something is so.

        Raises:
            TimeoutError: it did not come about.
        """
        deadline = time.monotonic() + timeout_s
        while not until():
            if time.monotonic() > deadline:
                raise TimeoutError("The program did not get where the picture needs it within a minute.")
            self.app.processEvents()
            time.sleep(0.002)

    def settle(self, seconds: float = 0.3) -> None:
        """Let it draw what is stale and what animates."""
        end = time.monotonic() + seconds
        self.pump(lambda: time.monotonic() > end)

    def run_demo(self) -> None:
        """Run the demo to its end."""
        self.window.actions_by_id["demo"].trigger()
        self.pump(lambda: self.session.state is SessionState.RUNNING)
        self.pump(lambda: self.session.state is SessionState.READY)
        self.settle()

    def run(self) -> None:
        """Run what the controls say, to its end."""
        self.window.actions_by_id["run"].trigger()
        self.pump(lambda: self.session.is_running)
        self.pump(lambda: not self.session.is_running)
        self.settle()

    def say(self, slot: int, text: str) -> None:
        """Say something in a slot and wait for the answer."""
        self.session.chats.say(slot, text)
        self.pump(lambda: slot not in self.session.busy_slots)
        self.settle(0.1)

    def wear(self, theme: Theme) -> None:
        """Put on a theme."""
        self.appearance.choose(theme.name)
        self.settle(0.15)

    def panel(self, panel_id: str) -> Panel:
        """A panel of the window, shown and in front."""
        found = next(panel for panel in self.window.panels if panel.id == panel_id)
        if panel_id != "output":
            dock = self.window.docks.dock(panel_id)
            dock.show()
            dock.raise_()
        return found

    def shoot_window(self, name: str) -> None:
        """The whole window in both sizes and both themes."""
        for width, height in SIZES:
            self.window.resize(width, height)
            self.settle()
            self._shoot(self.window, f"window-{name}-{width}x{height}")

    def shoot_panel(self, panel_id: str, name: str) -> None:
        """A panel at the place that it has in the larger window."""
        self.window.resize(*SIZES[0])
        panel = self.panel(panel_id)
        self.settle()
        self._shoot(panel, f"panel-{panel_id}-{name}")

    def shoot_widget(self, widget: QWidget, name: str) -> None:
        """Any widget as it is, in both themes."""
        self.settle()
        self._shoot(widget, name)

    def shoot_pages(self, name: str, titles: Collection[str] = ()) -> None:
        """The pages of the Checkpoints panel, all of them or those with these titles."""
        panel = self.panel("checkpoints")
        assert isinstance(panel, CheckpointsPanel)
        for index, (title, _) in enumerate(TABS):
            if not titles or title in titles:
                panel.tabs.setCurrentIndex(index)
                self.shoot_panel("checkpoints", f"{title.lower()}-{name}")
        panel.tabs.setCurrentIndex(0)

    def shoot_restores(self, name: str, titles: Collection[str] = ()) -> None:
        """The pages of the Restore diffs panel, all of them or those with these titles."""
        panel = self.panel("restores")
        assert isinstance(panel, RestoreDiffsPanel)
        for index, (title, _) in enumerate(RESTORE_TABS):
            if not titles or title in titles:
                panel.details.tabs.setCurrentIndex(index)
                self.shoot_panel("restores", f"{title.lower().replace(' ', '-')}-{name}")
        panel.details.tabs.setCurrentIndex(0)

    def shoot_dialog(self, name: str, opening: Callable[[], object]) -> None:
        """The dialog that an action opens; closed again afterwards."""
        opening()
        self.pump(lambda: self._dialog() is not None)
        dialog = self._dialog()
        assert dialog is not None
        self.settle()
        self._shoot(dialog, f"dialog-{name}")
        self.close_dialog(dialog)

    def open_dialog(self, action: str) -> QDialog:
        """The dialog that an action opens."""
        self.window.actions_by_id[action].trigger()
        self.pump(lambda: self._dialog() is not None)
        dialog = self._dialog()
        assert dialog is not None
        self.settle()
        return dialog

    def shoot_open(self, dialog: QDialog, name: str) -> None:
        """A dialog as it is, in each theme; it stays open."""
        self._shoot(dialog, f"dialog-{name}")

    def close_dialog(self, dialog: QDialog) -> None:
        """Close a dialog and wait until it is gone."""
        dialog.close()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        self.settle(0.05)

    def shoot_now(self, widget: QWidget, name: str, theme: Theme) -> None:
        """A widget as it is at this moment, wearing ``theme`` already."""
        path = self.out / f"{name}-{theme.name}.png"
        if not widget.grab().save(str(path)):
            raise OSError(f"The picture {path} could not be written.")
        self.pictures.append(path)

    def close(self) -> None:
        """End window and engine."""
        self.window.close()
        self.window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def _dialog(self) -> QDialog | None:
        shown = (widget for widget in self.app.topLevelWidgets() if isinstance(widget, QDialog))
        return next((dialog for dialog in shown if dialog.isVisible()), None)

    def _shoot(self, widget: QWidget, name: str) -> None:
        for theme in THEMES:
            self.wear(theme)
            self.shoot_now(widget, name, theme)


def check_fonts() -> None:
    """See that Qt has fonts: without any, every text in a picture is a row of boxes.

    Raises:
        RuntimeError: it has none.
    """
    if not QFontDatabase.families():
        raise RuntimeError("Qt finds no fonts. Install some and fontconfig: apt install fonts-dejavu-core fontconfig.")
