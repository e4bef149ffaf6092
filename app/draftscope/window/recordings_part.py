"""What the window has to do with recordings: their dialog, and notices about those that ended where they should not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QMainWindow

from draftscope.session.recorder import Recorder
from draftscope.session.recordings_desk import RecordingsDesk
from draftscope.session.settings import Settings
from draftscope.trace.tracefile import TraceFacts
from draftscope.window.notices import Notice, Offer
from draftscope.window.recordings_dialog import RecordingsDialog
from draftscope.window.recordings_table import date_text

MOST_TOLD = 2
"""Recordings that were cut off and get a notice of their own."""

_LESS = "What ran then was killed, or the machine stopped: at most the last tenth of a second is missing."


class RecordingsPart(QObject):
    """Recordings in the window. Where the session records nowhere, there is nothing to show."""

    open_requested = Signal(object)
    """Carries the path of a recording that is to be shown."""

    def __init__(
        self, window: QMainWindow, recorder: Recorder, settings: Settings, tell: Callable[[Notice], object]
    ) -> None:
        super().__init__(window)
        self._window = window
        self._settings = settings
        self._tell = tell
        self._notices: dict[Path, Notice] = {}
        self._to_open: Path | None = None
        self.desk = RecordingsDesk(recorder.recordings, self) if recorder.recordings is not None else None
        recorder.failed.connect(self._on_recording_failed)
        if self.desk is not None:
            self.desk.cut_off_found.connect(self._on_cut_off_found)
            self.desk.kept.connect(self._on_kept)
            self.desk.failed.connect(self._on_failed)

    def start(self) -> None:
        """Look for recordings that were cut off."""
        if self.desk is not None:
            self.desk.ask_cut_off()

    def show(self) -> None:
        """Open the dialog."""
        if self.desk is not None:
            dialog = RecordingsDialog(self.desk, self._settings, self._window)
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.open_requested.connect(self.open_requested)
            dialog.open()

    def close(self) -> None:
        """End what is being done."""
        if self.desk is not None:
            self.desk.close()

    def _on_recording_failed(self, sentence: str) -> None:
        offers = [Offer("Recordings…", self.show)] if self.desk is not None else []
        self._tell(Notice(sentence, "The run goes on.", "", offers, tone="warn"))

    def _on_failed(self, sentence: str) -> None:
        self._tell(Notice(sentence, "", tone="warn"))

    def _on_cut_off_found(self, found: list[TraceFacts]) -> None:
        for facts in reversed(found[:MOST_TOLD]):
            self._tell_cut_off(facts)
        more = len(found) - MOST_TOLD
        if more > 0:
            text = f"{more} more {'recording was' if more == 1 else 'recordings were'} cut off."
            self._tell(Notice(text, "", "", [Offer("Recordings…", self.show)], tone="warn"))

    def _tell_cut_off(self, facts: TraceFacts) -> None:
        assert self.desk is not None
        desk, path = self.desk, facts.path
        if facts.problem:
            notice = Notice(
                "A recording was cut off and cannot be read.",
                facts.problem,
                "",
                [Offer("Delete", lambda: self._remove(desk, path))],
                tone="warn",
            )
        else:
            tokens = "1 token" if facts.n_tokens == 1 else f"{facts.n_tokens:,} tokens"
            notice = Notice(
                f"The recording of {facts.model or path.name} of {date_text(facts)}, {tokens}, was cut off.",
                _LESS,
                "",
                [
                    Offer("Open", lambda: self._open(desk, path)),
                    Offer("Keep", lambda: desk.keep(path)),
                    Offer("Delete", lambda: self._remove(desk, path)),
                ],
                tone="warn",
            )
        self._notices[path] = notice
        notice.dismissed.connect(lambda: self._notices.pop(path, None))
        self._tell(notice)

    def _open(self, desk: RecordingsDesk, path: Path) -> None:
        self._to_open = path
        desk.keep(path)

    def _remove(self, desk: RecordingsDesk, path: Path) -> None:
        self._dismiss(path)
        desk.remove([path])

    def _on_kept(self, path: Path) -> None:
        self._dismiss(path)
        if self._to_open == path:
            self._to_open = None
            self.open_requested.emit(path)

    def _dismiss(self, path: Path) -> None:
        if (notice := self._notices.get(path)) is not None:
            notice.dismiss()
