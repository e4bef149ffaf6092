"""Traces opened beside the live run: what panels read of them, damaged ones, and those still being written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from draftscope.engine.codec import as_plain
from draftscope.engine.protocol import ContextSettings, Prompt, SlotResult, SlotTask
from draftscope.session.exports import Exports
from draftscope.session.opened_trace import OpenedTrace
from draftscope.session.opened_traces import OpenedTraces
from draftscope.session.state import SessionState
from draftscope.trace.tracefile import TraceWriter
from tests.panels.made_session import made_model
from tests.trace.compared import in_start_order
from tests.trace.synthetic import PIECES, make_records

MODEL = made_model()
ROOT = Path(__file__).resolve().parents[2]
CLOCK = {"utc": "2026-11-29T12:00:00.000+00:00"}


@pytest.fixture
def traces(qtbot: QtBot) -> Iterator[OpenedTraces]:
    opened = OpenedTraces(Exports())
    yield opened
    opened.close()


def header(**more: Any) -> dict[str, Any]:
    """A header as the recorder writes it."""
    tasks = [as_plain(SlotTask(slot, Prompt(text=f"prompt {slot}"))) for slot in range(4)]
    settings = {"context": as_plain(ContextSettings()), "tasks": tasks}
    return {"program": "test", "model": as_plain(MODEL), "settings": settings} | more


def result(slot: int) -> dict[str, Any]:
    """The result of a slot."""
    return dict(
        as_plain(
            SlotResult(
                slot,
                f"answer {slot}",
                (101, 102),
                20,
                40,
                120,
                60,
                (30, 20, 10),
                (40, 40, 40),
                5.0,
                4.0,
                99.0,
                "max_tokens",
            )
        )
    )


def write(path: Path, *, with_text: bool = True, **more: Any) -> Path:
    """A whole trace of four slots."""
    with TraceWriter(path, header(**more), with_text=with_text) as writer:
        writer.append(in_start_order(make_records(40)))
        writer.add_pieces(PIECES)
        writer.add_log([(7, "info", "a line of the log")])
        writer.add_memory([(9, "kv", 1_000, 0)])
        writer.add_results([result(slot) for slot in range(4)])
    return path


def opened(qtbot: QtBot, traces: OpenedTraces, path: Path) -> OpenedTrace:
    """Open a file and wait for it."""
    traces.open(path)
    qtbot.waitUntil(lambda: (traces.poll(), not traces.is_reading)[1], timeout=10_000)
    assert traces.current is not None
    return traces.current


def test_a_trace_shows_what_a_live_run_shows(qtbot: QtBot, traces: OpenedTraces, tmp_path: Path) -> None:
    run = opened(qtbot, traces, write(tmp_path / "run.dscope", clock=CLOCK, machine={"processor": "x"}))
    assert run.state is SessionState.SAVED
    assert run.model == MODEL
    assert run.context == ContextSettings()
    assert [task.slot for task in run.tasks] == [0, 1, 2, 3]
    assert run.results[2].text == "answer 2"
    assert run.acceptance.slots() == (0, 1, 2, 3)
    assert [line.text for line in run.log.lines] == ["a line of the log"]
    assert [(use.kind, use.host_bytes) for use in run.memory] == [("kv", 1_000)]
    assert run.meter.n_records == run.trace.n_records > 1_000
    assert not run.is_running and run.busy_slots == frozenset()
    assert run.missing == ()
    assert "tiny.gguf · recorded 29 Nov 2026" in run.origin and run.origin.endswith("· on x")


def test_conversations_are_there_with_the_places_of_their_tokens(
    qtbot: QtBot, traces: OpenedTraces, tmp_path: Path
) -> None:
    run = opened(qtbot, traces, write(tmp_path / "run.dscope"))
    chat = run.chats.chat(1)
    assert [turn.text for turn in chat.dialogue.turns] == ["prompt 1", "answer 1"]
    (place,) = chat.places.values()
    from draftscope.engine.events import Kind

    tokens = run.trace.kind(Kind.TOKEN)
    assert place == (0, int((tokens["slot"] == 1).sum()))
    assert run.chats.why_not(1) == "A saved trace cannot be written to."


def test_nothing_can_be_run_on_a_saved_trace(qtbot: QtBot, traces: OpenedTraces, tmp_path: Path) -> None:
    run = opened(qtbot, traces, write(tmp_path / "run.dscope"))
    with qtbot.waitSignal(run.failed) as told:
        run.run_turn(ContextSettings(), run.tasks[0])
    assert "saved trace" in told.args[0].message
    before = [turn.text for turn in run.chats.chat(0).dialogue.turns]
    assert not run.chats.say(0, "hello")
    assert [turn.text for turn in run.chats.chat(0).dialogue.turns] == before


def test_a_file_without_text_says_so_and_keeps_its_figures(qtbot: QtBot, traces: OpenedTraces, tmp_path: Path) -> None:
    run = opened(qtbot, traces, write(tmp_path / "run.dscope", with_text=False))
    assert run.missing == ("It was written without the text of prompts and outputs.",)
    assert run.acceptance.total().n_accepted > 0


def test_a_trace_of_another_version_shows_its_records_and_says_what_it_cannot_read(
    qtbot: QtBot, traces: OpenedTraces, tmp_path: Path
) -> None:
    run = opened(qtbot, traces, write(tmp_path / "run.dscope", model={"path": "/m/new.gguf", "from_the_future": 1}))
    assert run.model is None
    assert run.trace.n_records > 1_000
    assert run.missing == ("It does not describe its model in a way that this version can read.",)
    assert run.origin == "new.gguf"


def test_a_recording_that_was_cut_off_opens_as_far_as_it_goes(
    qtbot: QtBot, traces: OpenedTraces, tmp_path: Path
) -> None:
    path = write(tmp_path / "run.dscope")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE run SET value = 'false' WHERE key = 'is_complete'")
    database.close()
    run = opened(qtbot, traces, path)
    assert run.trace.n_records > 1_000
    assert "cut off" in run.missing[0]


def test_a_file_that_is_no_trace_is_refused_and_what_was_open_stays(
    qtbot: QtBot, traces: OpenedTraces, tmp_path: Path
) -> None:
    first = opened(qtbot, traces, write(tmp_path / "run.dscope"))
    letter = tmp_path / "letter.dscope"
    letter.write_text("Dear reader")
    with qtbot.waitSignal(traces.failed) as told:
        traces.open(letter)
        qtbot.waitUntil(lambda: (traces.poll(), not traces.is_reading)[1])
    assert str(letter) in told.args[0].message
    assert traces.current is first


def test_reading_can_be_cancelled(qtbot: QtBot, traces: OpenedTraces, tmp_path: Path) -> None:
    traces.open(write(tmp_path / "run.dscope"))
    with qtbot.waitSignal(traces.reading_ended):
        traces.cancel()
    traces.poll()
    assert traces.current is None and not traces.is_reading


def test_a_recording_that_goes_on_is_followed_to_its_end(qtbot: QtBot, traces: OpenedTraces, tmp_path: Path) -> None:
    records = in_start_order(make_records(40))
    path = tmp_path / "run.dscope"
    writer = TraceWriter(path, header())
    try:
        writer.append(records[:500])
        writer.add_pieces(PIECES)
        qtbot.waitUntil(lambda: n_in_file(path) >= 500, timeout=10_000)
        run = opened(qtbot, traces, path)
        assert run.is_running
        assert run.trace.n_records == 500
        assert run.missing == ()
        assert run.chats.chat(0).first_token == 0  # it is being written
        writer.append(records[500:900])
        qtbot.waitUntil(lambda: (traces.poll(), run.trace.n_records == 900)[1], timeout=10_000)
        assert run.is_running
    finally:
        writer.append(records[900:])
        writer.add_results([result(slot) for slot in range(4)])
        writer.close()
    with qtbot.waitSignal(run.run_finished, timeout=10_000):
        qtbot.waitUntil(lambda: (traces.poll(), not run.is_running)[1], timeout=10_000)
    assert run.trace.n_records == len(records)
    assert run.acceptance.total().n_tokens > 0
    assert run.chats.chat(0).dialogue.turns[-1].text == "answer 0"
    assert run.chats.chat(0).first_token is None
    assert run.missing == ()


def test_a_recorder_that_is_killed_ends_what_is_followed(qtbot: QtBot, traces: OpenedTraces, tmp_path: Path) -> None:
    path = tmp_path / "run.dscope"
    script = (
        "import sys, time; from draftscope.trace.tracefile import TraceWriter; from tests.trace.synthetic import *;"
        "writer = TraceWriter(sys.argv[1], {}); writer.append(make_records(20)); writer.add_pieces(PIECES);"
        "time.sleep(60)"
    )
    recorder = subprocess.Popen([sys.executable, "-c", script, str(path)], cwd=ROOT)
    try:
        qtbot.waitUntil(lambda: path.exists() and n_in_file(path) > 0, timeout=20_000)
        run = opened(qtbot, traces, path)
        assert run.is_running
    finally:
        recorder.kill()
        recorder.wait()
    qtbot.waitUntil(lambda: (traces.poll(), not run.is_running)[1], timeout=10_000)
    assert run.trace.n_records == len(make_records(20))
    assert "cut off" in run.missing[0]


def n_in_file(path: Path) -> int:
    """Records that a file holds by now."""
    from draftscope.trace.tracefile.follower import TraceFollower

    follower = TraceFollower(path)
    return len(follower.poll().records)
