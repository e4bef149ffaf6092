"""Log book, meter, view state, samples, and deaths in words."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from draftscope.engine.errors import EngineError
from draftscope.engine.protocol import EngineDied, LogLine
from draftscope.session import log_book
from draftscope.session.death import describe_death
from draftscope.session.log_book import LogBook
from draftscope.session.meter import Meter
from draftscope.session.samples import demo_request, read_samples, sample_prompts
from draftscope.session.view_state import ViewState


def test_a_full_log_book_forgets_the_oldest_and_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_book, "N_KEPT", 3)
    book = LogBook()
    for number in range(5):
        book.append(LogLine("info", str(number), number))
    assert [line.text for line in book.lines] == ["2", "3", "4"]
    assert book.n_total == 5


def test_the_meter_forgets_what_is_older_than_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    measured = Meter()
    measured.add_receive(100, 2_000_000)
    measured.add_draw("output", 4_000_000)
    now[0] = 500_000_000
    measured.add_receive(50, 4_000_000)
    assert measured.records_per_s == 150
    assert measured.receive_ms == 3.0
    assert measured.draw_ms == {"output": 4.0}
    assert measured.overhead == pytest.approx(0.010)
    now[0] = 1_400_000_000
    assert measured.records_per_s == 50
    assert measured.draw_ms == {"output": 0.0}
    now[0] = 9_000_000_000
    assert measured.receive_ms == 0.0
    assert measured.overhead == 0.0
    assert measured.n_records == 150


def test_the_view_state_tells_a_change_and_nothing_else(qtbot: QtBot) -> None:
    view = ViewState()
    told: list[str] = []
    view.selected_round_changed.connect(lambda: told.append("round"))
    view.selected_slot_changed.connect(lambda: told.append("slot"))
    view.time_range_changed.connect(lambda: told.append("range"))
    view.crosshair_changed.connect(lambda: told.append("crosshair"))
    view.show_rejected_changed.connect(lambda: told.append("rejected"))
    for _ in range(2):
        view.select_round(3)
        view.select_slot(1)
        view.set_time_range((1, 2))
        view.set_crosshair(9)
        view.set_show_rejected(False)
    assert told == ["round", "slot", "range", "crosshair", "rejected"]
    view.reset()
    assert (view.selected_round, view.selected_slot, view.time_range_ns, view.crosshair_ns) == (None,) * 4
    assert view.show_rejected is False


def test_the_samples_that_come_with_the_program_can_be_read() -> None:
    samples = sample_prompts()
    assert len(samples) >= 4
    assert all(sample.title for sample in samples)
    assert all(sample.prompt.text or sample.prompt.messages for sample in samples)
    assert [task.slot for task in demo_request().tasks] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"text": 3}', '{"messages": [{"role": "user"}]}', '{"sampling": {"x": 1}}']
)
def test_a_damaged_sample_names_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(EngineError, match="line 2"):
        read_samples(path)


def test_missing_samples_are_an_error_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be read"):
        read_samples(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("death", "words"),
    [
        (EngineDied(9, 0, "", ()), ("SIGKILL", "memory")),
        (EngineDied(6, 0, "loading the model", ()), ("SIGABRT", "loading the model")),
        (EngineDied(0, 3, "", ()), ("exit code 3",)),
        (EngineDied(200, 0, "", ()), ("signal 200",)),
    ],
)
def test_a_death_says_how_and_during_what(death: EngineDied, words: tuple[str, ...]) -> None:
    report = describe_death(death)
    for word in words:
        assert word in report.message
    assert "kept" in report.hint
