"""Records are taken as they come: for the file at once, for the window when it asks, and told apart by run."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from draftscope.engine.client import make_client
from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray
from draftscope.session.record_pump import RecordPump
from draftscope.session.recorder import Recorder
from draftscope.session.recordings import Recordings
from draftscope.session.session import Session, SessionState
from draftscope.trace.tracefile import read_trace
from tests.session.polling import poll_until
from tests.session.scripted_client import ScriptedClient, request
from tests.trace.files import make_arrays
from tests.trace.synthetic import make_records


class Kept:
    """What was recorded."""

    def __init__(self) -> None:
        self.records: list[Records] = []
        self.n_arrays = 0

    def take(self, records: Records, arrays: list[SideArray]) -> None:
        self.records.append(records)
        self.n_arrays += len(arrays)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def pump(client: ScriptedClient, kept: Kept) -> Iterator[RecordPump]:
    pump = RecordPump(client, kept.take)
    yield pump
    pump.stop()


def test_what_came_before_a_run_is_not_recorded_and_what_comes_in_it_is(client, pump, kept):
    client.records = make_records(1)
    pump.set_run(True)
    client.records = make_records(2)
    client.arrays = make_arrays()
    pump.set_run(False)
    client.records = make_records(3)
    batches = pump.take()
    assert [(len(batch.records), batch.is_of_run) for batch in batches] == [
        (len(make_records(1)), False),
        (len(make_records(2)), True),
        (len(make_records(3)), False),
    ]
    assert [len(records) for records in kept.records] == [len(make_records(2))]
    assert kept.n_arrays == len(batches[1].arrays) == len(make_arrays())
    assert pump.take() == []


def test_a_thread_records_while_nobody_asks_and_nothing_comes_twice(client, pump, kept):
    pump.start()
    pump.set_run(True)
    client.records = make_records(2)
    deadline = time.monotonic() + 10
    while not kept.records and time.monotonic() < deadline:
        time.sleep(0.005)
    assert len(kept.records) == 1
    (batch,) = pump.take()
    assert batch.records.tobytes() == make_records(2).tobytes()
    pump.stop()
    assert len(kept.records) == 1 and pump.take() == []


def test_a_window_that_does_not_look_for_a_while_costs_the_file_nothing(qtbot: QtBot, tmp_path) -> None:
    session = Session(make_client("fake:400"), recorder=Recorder(Recordings(tmp_path, 1 << 30)))
    session.open_model("fake:model", request().context)
    poll_until(qtbot, session, lambda: session.state is SessionState.READY)
    session.run(request(text="the river and the mill and the hill and the sea"))
    path, seen = session.recorder.path, session.trace.n_records
    assert path is not None
    deadline = time.monotonic() + 10
    while (not path.exists() or not read_trace(path).store.n_records) and time.monotonic() < deadline:
        time.sleep(0.01)  # and no poll
    assert read_trace(path).store.n_records > seen == 0
    session.close()
