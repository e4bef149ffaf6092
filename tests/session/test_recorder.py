"""Each run is recorded into a file of its own: what is in it, when it begins and ends, and what if it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from draftscope.engine.client import make_client
from draftscope.engine.events import Kind
from draftscope.engine.protocol import Failed, Load, LogLine, Pieces
from draftscope.session.recorder import Recorder
from draftscope.session.recordings import Recordings
from draftscope.session.session import Session, SessionState
from draftscope.session.settings import Settings
from draftscope.trace.tracefile import is_being_recorded, read_trace
from draftscope.trace.tracefile import writer as writer_module
from tests.session.polling import poll_until
from tests.session.scripted_client import ScriptedClient, refusal, request
from tests.trace.files import make_arrays
from tests.trace.synthetic import make_records


@pytest.fixture
def recordings(tmp_path: Path) -> Recordings:
    return Recordings(tmp_path / "recordings", 1 << 30)


@pytest.fixture
def settings(tmp_path: Path, qtbot: QtBot) -> Settings:
    return Settings(tmp_path / "settings.ini")


@pytest.fixture
def recorded(client: ScriptedClient, recordings: Recordings, settings: Settings) -> Iterator[Session]:
    """A session that records, with a model loaded for two slots."""
    session = Session(client, recorder=Recorder(recordings, settings))
    session.open_model("m.gguf", request().context)
    client.answers.append(LogLine("info", "loading a secret", 5))
    client.answer_load()
    session.poll()
    yield session
    session.close()


def run(session: Session, client: ScriptedClient, n_rounds: int = 3) -> None:
    """A run of some rounds, from its start to its end."""
    session.run(request())
    client.records = make_records(n_rounds)
    client.answers.append(Pieces({101: b" cat"}))
    client.arrays = make_arrays()
    session.poll()
    client.answers.append(LogLine("warning", "in between", 7))
    client.answer_run()
    session.poll()


def test_a_run_is_in_a_file_of_its_own_with_all_that_belongs_to_it(client, recorded, recordings):
    run(recorded, client)
    assert recorded.recorder.path is not None and recorded.recorder.path.parent == recordings.folder
    recorded.close()
    (path,) = recordings.paths()
    trace = read_trace(path)
    assert trace.is_complete and trace.missing == []
    assert trace.store.in_order().tobytes() == recorded.trace.in_order().tobytes()
    assert trace.header["settings"]["tasks"][1]["prompt"]["text"] == "hello"
    assert trace.header["model"]["path"] == "m.gguf"
    assert dict(trace.pieces.items()) == {101: b" cat"}
    assert [text for _, _, text in trace.log] == ["loading a secret", "in between"]
    assert trace.store.probes["t_start_ns"].tolist() == [1000, 2000]
    assert path.name.endswith("_m.dscope")


def test_the_next_run_gets_the_next_file_and_the_pieces_that_were_told_before(client, recorded, recordings, qtbot):
    run(recorded, client, 3)
    first = recorded.recorder.path
    recorded.run(request())
    assert first is not None
    poll_until(qtbot, recorded, lambda: is_being_recorded(first))
    client.records = make_records(5)
    recorded.poll()
    second = recorded.recorder.path
    assert second not in (None, first)
    poll_until(qtbot, recorded, lambda: not is_being_recorded(first))
    recorded.close()
    assert read_trace(first).store.n_records == len(make_records(3))
    trace = read_trace(second)
    assert trace.store.n_records == len(make_records(5)) and 101 in dict(trace.pieces.items())


def test_a_run_that_never_began_leaves_no_file_and_the_one_before_goes_on(client, recorded, recordings):
    run(recorded, client)
    first = recorded.recorder.path
    recorded.run(request())
    client.answers.append(Failed(client.last.id, refusal()))
    recorded.poll()
    assert recorded.recorder.path == first
    recorded.run_turn(request().context, request(1).tasks[0])
    client.records = make_records(2)
    client.answer_run()
    recorded.poll()
    recorded.close()
    assert recordings.paths() == [first]
    assert read_trace(first).store.n_records == len(make_records(3)) + len(make_records(2))
    assert len(read_trace(first).header["settings"]["tasks"]) == 3


def test_a_run_at_rest_is_whole_without_being_closed(client, recorded, qtbot):
    run(recorded, client)
    path = recorded.recorder.path
    poll_until(qtbot, recorded, lambda: path.exists() and read_trace(path).is_complete)
    assert is_being_recorded(path)


def test_another_model_ends_the_file(client, recorded, qtbot):
    run(recorded, client)
    path = recorded.recorder.path
    recorded.open_model("other.gguf", request().context)
    client.answer_load()
    recorded.poll()
    assert recorded.recorder.path is None
    # The writer's thread may not even have begun by now.
    poll_until(qtbot, recorded, lambda: path.exists() and not is_being_recorded(path))
    assert read_trace(path).is_complete


def test_recording_can_be_off_and_can_leave_out_the_text(client, recorded, recordings, settings):
    settings.set("recording/is_on", False)
    run(recorded, client)
    assert recorded.recorder.path is None and not recordings.folder.exists()
    settings.set("recording/is_on", True)
    settings.set("recording/with_text", False)
    run(recorded, client)
    recorded.close()
    (path,) = recordings.paths()
    data = path.read_bytes()
    assert b"hello" not in data and b"secret" not in data and b" cat" not in data
    trace = read_trace(path)
    assert set(trace.store.kind(Kind.TOKEN)["token"].tolist()) == {-1}
    assert trace.header["settings"]["tasks"][0]["sampling"]["seed"] == 0


def test_a_place_that_cannot_be_written_is_told_once_and_the_run_goes_on(client, recorded, recordings, qtbot):
    recordings.folder.write_text("a file is in the way")
    told: list[str] = []
    recorded.recorder.failed.connect(told.append)
    recorded.run(request())
    for _ in range(3):
        client.records = make_records(2)
        recorded.poll()
    poll_until(qtbot, recorded, lambda: bool(told))
    client.records = make_records(2)
    client.answer_run()
    recorded.poll()
    assert len(told) == 1 and "cannot be made" in told[0]
    assert recorded.recorder.problem == told[0] and recorded.recorder.path is None
    assert recorded.log.lines[-1].text == told[0]
    assert recorded.state is SessionState.READY and recorded.trace.n_records == 4 * len(make_records(2))


def test_a_disk_that_fails_in_the_middle_is_told_and_the_next_run_is_recorded_again(
    client, recorded, recordings, qtbot, monkeypatch
):
    told: list[str] = []
    recorded.recorder.failed.connect(told.append)
    recorded.run(request())
    client.records = make_records(2)
    recorded.poll()
    path = recorded.recorder.path
    poll_until(qtbot, recorded, lambda: path.exists() and read_trace(path).store.n_records > 0)

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(writer_module.Recording, "add_records", fail)
        client.records = make_records(2)
        recorded.poll()
        poll_until(qtbot, recorded, lambda: bool(told))
    assert "the disk is gone" in told[0]
    client.answer_run()
    recorded.poll()
    assert read_trace(path).store.n_records == len(make_records(2))
    run(recorded, client)
    assert recorded.recorder.path not in (None, path) and recorded.recorder.problem == ""


def test_no_call_of_the_session_waits_for_the_disk(client, recorded, monkeypatch):
    import threading

    let_go, main = threading.Event(), threading.get_ident()

    def hang(*_: object, **__: object) -> int:
        assert threading.get_ident() != main
        let_go.wait(20)
        return 1 << 30

    monkeypatch.setattr(recorded.recorder.recordings, "make_room", hang)
    recorded.recorder.recordings.folder.mkdir()
    run(recorded, client)
    run(recorded, client)  # begins, and ends the file before, while the disk hangs
    let_go.set()
    recorded.close()


def test_what_a_run_on_an_engine_of_its_own_records_is_what_the_window_has(qtbot, recordings):
    session = Session(make_client("fake:400"), recorder=Recorder(recordings))
    session.open_model("fake:model", request().context)
    poll_until(qtbot, session, lambda: session.state is SessionState.READY)
    asked = request(text="the river and the mill")
    session.run(replace(asked, tasks=tuple(replace(task, max_tokens=40) for task in asked.tasks)))
    poll_until(qtbot, session, lambda: session.state is SessionState.READY)
    session.close()
    (path,) = recordings.paths()
    trace = read_trace(path)
    assert trace.store.in_order().tobytes() == session.trace.in_order().tobytes()
    assert {result["slot"]: result["text"] for result in trace.results} == {
        slot: result.text for slot, result in session.results.items()
    }


def test_a_load_is_no_run(client, recorded, recordings):
    assert isinstance(client.sent[0], Load)
    client.records = make_records(2)
    recorded.poll()
    assert recorded.recorder.path is None and not recordings.folder.exists()
