"""A session on the scripted engine, in a process of its own and in a thread."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from draftscope.engine.client import Client, WorkerClient, make_client
from draftscope.engine.errors import ErrorReport
from draftscope.engine.protocol import Prompt
from draftscope.session.export_job import ExportJob
from draftscope.session.session import Session, SessionState
from tests.session.polling import poll_until
from tests.session.scripted_client import request


@pytest.fixture(params=["thread", "process"])
def running(request: pytest.FixtureRequest, qtbot: QtBot) -> Iterator[Session]:
    client: Client = make_client("fake:400", in_process=request.param == "thread")
    session = Session(client)
    yield session
    session.close()


def reach(qtbot: QtBot, session: Session, state: SessionState) -> None:
    """Poll until the session is in a state."""
    poll_until(qtbot, session, lambda: session.state is state)


def reach_records(qtbot: QtBot, session: Session, n: int) -> None:
    """Poll until so many records have come."""
    poll_until(qtbot, session, lambda: session.trace.n_records >= n)


def load(qtbot: QtBot, session: Session) -> None:
    """Load a scripted model for two slots."""
    session.open_model("fake:model", request().context)
    reach(qtbot, session, SessionState.READY)


def test_the_engines_counts_and_the_sessions_figures_agree(qtbot: QtBot, running: Session) -> None:
    load(qtbot, running)
    running.run(request(text="the river and the mill"))
    reach(qtbot, running, SessionState.READY)
    assert set(running.results) == {0, 1}
    for slot, result in running.results.items():
        figures = running.acceptance.slot(slot)
        assert (figures.draft_n, figures.n_accepted, figures.n_rounds) == (
            result.draft_n,
            result.draft_n_accepted,
            result.n_rounds,
        )
        assert running.pieces.text(result.tokens).startswith(result.text)  # an end token is no text


def test_a_stopped_run_keeps_what_it_wrote(qtbot: QtBot, running: Session) -> None:
    load(qtbot, running)
    running.run(request())
    reach_records(qtbot, running, 30)
    running.stop()
    reach(qtbot, running, SessionState.READY)
    assert {result.stop for result in running.results.values()} == {"cancelled"}
    assert running.trace.n_records >= 30


def test_a_slow_load_is_cancelled_at_once(qtbot: QtBot, running: Session) -> None:
    running.open_model("fake:slow-load")
    poll_until(qtbot, running, lambda: running.progress[0] > 0, timeout=5_000)
    running.cancel_load()
    reach(qtbot, running, SessionState.NO_MODEL)


def test_a_refused_load_is_told(qtbot: QtBot, running: Session) -> None:
    failures: list[ErrorReport] = []
    running.failed.connect(failures.append)
    running.open_model("fake:fail-load")
    reach(qtbot, running, SessionState.NO_MODEL)
    assert failures[0].message


def test_an_engine_killed_while_generating_leaves_the_records_and_starts_again(qtbot: QtBot) -> None:
    client = WorkerClient("fake:200")
    session = Session(client)
    failures: list[ErrorReport] = []
    session.failed.connect(failures.append)
    try:
        load(qtbot, session)
        session.run(request())
        reach_records(qtbot, session, 30)
        pid = client.pid
        os.kill(pid, signal.SIGKILL)
        poll_until(qtbot, session, lambda: bool(failures), timeout=1_000)
        n_records = session.trace.n_records
        assert n_records >= 30
        assert "SIGKILL" in failures[0].message
        reach(qtbot, session, SessionState.READY)
        assert client.pid != pid
        assert session.trace.n_records == n_records
        assert session.last_request is not None
        session.run(session.last_request)
        reach(qtbot, session, SessionState.READY)
        assert set(session.results) == {0, 1}
    finally:
        session.close()


def test_a_run_is_exported_while_the_next_goes_on(qtbot: QtBot, running: Session, tmp_path: Path) -> None:
    ended: list[ExportJob] = []
    running.exports.ended.connect(ended.append)
    load(qtbot, running)
    running.run(request(text="a mill by the river"))
    reach(qtbot, running, SessionState.READY)
    path = tmp_path / "run.json"
    running.export("chrome", path)
    running.run(request())
    poll_until(qtbot, running, lambda: bool(ended), timeout=10_000)
    assert ended[0].error == ""
    assert json.loads(path.read_text())["traceEvents"]
    running.stop()
    reach(qtbot, running, SessionState.READY)


def test_a_prompt_that_fails_in_one_slot_leaves_the_other_its_result(qtbot: QtBot, running: Session) -> None:
    from dataclasses import replace

    load(qtbot, running)
    wanted = request()
    tasks = (replace(wanted.tasks[0], prompt=Prompt(text="fake:fail")), wanted.tasks[1])
    running.run(replace(wanted, tasks=tasks))
    reach(qtbot, running, SessionState.READY)
    assert running.results[0].error
    assert running.results[1].tokens
