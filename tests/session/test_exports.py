"""The thread that exports: progress, cancel, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from draftscope.session.export_job import ExportJob
from draftscope.session.exports import Exports
from draftscope.session.run_record import RunRecord
from draftscope.trace.errors import TraceCancelled
from draftscope.trace.export import formats
from tests.session.polling import poll_until
from tests.trace.export.made_probes import made_arrays
from tests.trace.synthetic import make_records


def test_an_export_into_a_missing_folder_says_so(qtbot: QtBot, tmp_path: Path) -> None:
    exports = Exports()
    ended: list[ExportJob] = []
    exports.ended.connect(ended.append)
    exports.start(RunRecord().snapshot(), "chrome", tmp_path / "none" / "a.json", with_text=True)
    poll_until(qtbot, exports, lambda: bool(ended), timeout=5_000)
    assert ended[0].error
    assert not exports.is_running


def test_an_export_can_be_cancelled_and_only_one_is_written_at_a_time(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun = threading.Event()

    def endless(
        format_id: str,
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

    monkeypatch.setattr(formats, "export_trace", endless)
    exports = Exports()
    ended: list[ExportJob] = []
    fractions: list[float] = []
    exports.ended.connect(ended.append)
    exports.progressed.connect(fractions.append)
    assert exports.start(RunRecord().snapshot(), "chrome", tmp_path / "a.json", with_text=False)
    assert not exports.start(RunRecord().snapshot(), "chrome", tmp_path / "b.json", with_text=False)
    assert has_begun.wait(5)
    exports.poll()
    exports.cancel()
    poll_until(qtbot, exports, lambda: bool(ended), timeout=5_000)
    assert ended[0].is_cancelled
    assert ended[0].error == ""
    assert fractions == [0.25]


@pytest.mark.parametrize("form", [one.id for one in formats.FORMATS])
def test_every_format_is_written_with_what_the_run_has(qtbot: QtBot, tmp_path: Path, form: str) -> None:
    record, exports = RunRecord(), Exports()
    record.append(make_records(20))
    record.append_arrays(made_arrays())
    ended: list[ExportJob] = []
    exports.ended.connect(ended.append)
    assert exports.start(record.snapshot(), form, tmp_path / "out", with_text=True)
    poll_until(qtbot, exports, lambda: bool(ended), timeout=10_000)
    assert ended[0].error == ""
    assert ended[0].size_bytes == formats.size_of(tmp_path / "out") > 0
    if form == "npz":
        with np.load(tmp_path / "out") as arrays:
            assert len(arrays["probes"]) == len(arrays["rows"]) == 3


def test_a_folder_with_other_files_is_told_in_a_sentence(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear reader")
    job = ExportJob(RunRecord().snapshot(), "csv", tmp_path, with_text=True)
    job.start()
    job.join()
    assert job.error == f"The folder holds other files (letter.txt): {tmp_path}."


def test_a_fault_in_the_export_does_not_go_unsaid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("slot")

    monkeypatch.setattr(formats, "export_trace", broken)
    export = ExportJob(RunRecord().snapshot(), "chrome", tmp_path / "a.json", with_text=True)
    export.start()
    export.join()
    assert "KeyError" in export.error
