"""Fallbacks are told while a run goes on: in the log each, and once of each kind to who listens."""

from __future__ import annotations

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from draftscope.engine.client import make_client
from draftscope.engine.events import FallbackReason, Kind, Mechanism, Records
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SlotTask
from draftscope.session.fallback_watch import MOST_LOGGED, FallbackWatch
from draftscope.session.log_book import LogBook
from draftscope.session.run_request import RunRequest
from draftscope.session.session import Session, SessionState
from draftscope.trace.fallback_words import Fallback
from draftscope.trace.store import TraceStore
from tests.session.polling import poll_until
from tests.trace.synthetic import record


def fallback(round_id: int, reason: FallbackReason = FallbackReason.NO_MEMORY) -> Records:
    return record(Kind.FALLBACK, slot=1, round=round_id, code=reason, n=Mechanism.DEVICE, m=Mechanism.HOST)


class Watched:
    """A watch with what it said."""

    def __init__(self) -> None:
        self.log = LogBook()
        self.told: list[Fallback] = []
        self.store = TraceStore()
        self.watch = FallbackWatch(self.log)
        self.watch.fell_back.connect(self.told.append)

    def receive(self, *records: Records) -> None:
        """Records come."""
        self.store.append(np.concatenate(records))
        self.watch.follow(self.store)

    @property
    def lines(self) -> list[str]:
        """Texts of the log."""
        return [line.text for line in self.log.lines]


@pytest.fixture
def watched(qapp: object) -> Watched:
    return Watched()


def test_each_fallback_is_logged_once_and_the_first_of_its_kind_is_told(watched: Watched) -> None:
    watched.receive(fallback(3), fallback(5))
    watched.receive(fallback(8), fallback(8, FallbackReason.RESTORE_FAILED))
    assert [line.split(":")[0] for line in watched.lines] == [f"Slot 1, round {n}" for n in (3, 5, 8, 8)]
    assert [(told.round, told.kind.reason.name) for told in watched.told] == [(3, "NO_MEMORY"), (8, "RESTORE_FAILED")]
    assert {line.level for line in watched.log.lines} == {"warning"}


def test_the_next_run_is_told_anew(watched: Watched) -> None:
    watched.receive(fallback(3))
    watched.store.clear()
    watched.receive(fallback(1))
    assert [told.round for told in watched.told] == [3, 1]


def test_a_run_that_falls_back_all_the_time_does_not_flood_the_log(watched: Watched) -> None:
    watched.receive(*(fallback(n) for n in range(500)))
    assert len(watched.lines) == MOST_LOGGED + 1
    assert watched.lines[-1].startswith("More of the same are not logged one by one: There was no room")
    assert len(watched.told) == 1


def test_a_run_on_the_scripted_engine_goes_on_in_host_memory_and_says_so(qtbot: QtBot) -> None:
    session = Session(make_client("fake:0", in_process=True))
    told: list[Fallback] = []
    session.fallbacks.fell_back.connect(told.append)
    context = ContextSettings(n_slots=4, checkpoint=CheckpointMode.DEVICE)
    tasks = tuple(SlotTask(slot, Prompt(text="import sys"), max_tokens=600, ignore_eos=True) for slot in range(4))
    session.open_model("fake:hybrid", context)
    poll_until(qtbot, session, lambda: session.state is SessionState.READY)
    session.run(RunRequest(context, tasks))
    poll_until(qtbot, session, lambda: len(session.results) == 4)
    assert [fallback.kind.sentence for fallback in told] == [
        "There was no room on the device for a checkpoint, so host memory is used."
    ]
    assert {result.stop for result in session.results.values()} == {"max_tokens"}
    used = {Mechanism(int(code)) for code in session.trace.kind(Kind.RESTORE)["code"]}
    assert used == {Mechanism.DEVICE, Mechanism.HOST}
    session.close()
