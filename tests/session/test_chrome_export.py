"""The thread that exports: progress, cancel, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from draftscope.session.chrome_export import ChromeExport
from draftscope.session.exports import Exports
from draftscope.session.run_record import RunRecord
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.export import chrome
from tests.session.polling import poll_until


def test_an_export_into_a_missing_folder_says_so(qtbot: QtBot, tmp_path: Path) -> None:
    exports = Exports()
    ended: list[ChromeExport] = []
    exports.ended.connect(ended.append)
    exports.start(RunRecord().snapshot(), tmp_path / "none" / "a.json", with_text=True)
    poll_until(qtbot, exports, lambda: bool(ended), timeout=5_000)
    assert ended[0].error
    assert not exports.is_running


def test_an_export_can_be_cancelled_and_only_one_is_written_at_a_time(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun = threading.Event()

    def endless(
        trace: object,
        path: Path,
        *,
        with_text: bool,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> None:
        progress(0.25)
        has_begun.set()
        while not cancelled():
            threading.Event().wait(0.005)
        raise TraceCancelled

    monkeypatch.setattr(chrome, "export_chrome", endless)
    exports = Exports()
    ended: list[ChromeExport] = []
    fractions: list[float] = []
    exports.ended.connect(ended.append)
    exports.progressed.connect(fractions.append)
    assert exports.start(RunRecord().snapshot(), tmp_path / "a.json", with_text=False)
    assert not exports.start(RunRecord().snapshot(), tmp_path / "b.json", with_text=False)
    assert has_begun.wait(5)
    exports.poll()
    exports.cancel()
    poll_until(qtbot, exports, lambda: bool(ended), timeout=5_000)
    assert ended[0].is_cancelled
    assert ended[0].error == ""
    assert fractions == [0.25]


def test_a_fault_in_the_export_does_not_go_unsaid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("slot")

    monkeypatch.setattr(chrome, "export_chrome", broken)
    export = ChromeExport(RunRecord().snapshot(), tmp_path / "a.json", with_text=True)
    export.start()
    export.join()
    assert "KeyError" in export.error
