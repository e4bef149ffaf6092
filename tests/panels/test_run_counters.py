"""Counts of a run from its records, however they come."""

from __future__ import annotations

import numpy as np
import pytest

from draftscope.cli.run_summary import decodes_in
from draftscope.engine.client import make_client
from draftscope.engine.events import Kind, Phase
from draftscope.engine.protocol import CheckpointMode
from draftscope.panels.run_counters import RunCounters
from draftscope.trace.store import TraceStore
from tests.engine.talk import Talk, task
from tests.trace.synthetic import make_store, record


@pytest.mark.parametrize("n_parts", [1, 2, 23])
def test_rides_are_rounds_in_which_any_slot_carried_replayed_tokens(n_parts: int) -> None:
    carried = [(0, 0), (1, 2), (1, 1), (2, 0), (4, 3), (5, 1), (5, 0), (5, 2)]
    spans = [record(Kind.SPAN, slot=0, code=Phase.VERIFY, round=round_id, m=m) for round_id, m in carried]
    spans.append(record(Kind.SPAN, slot=-1, code=Phase.VERIFY, round=7, m=1))
    spans.append(record(Kind.SPAN, slot=0, code=Phase.REPLAY, round=8, m=1))
    store, counters = TraceStore(), RunCounters()
    for part in np.array_split(np.concatenate(spans), n_parts):
        store.append(part)
        counters.update(store)
    assert counters.report(store).decodes.rides == 3


def test_counts_of_a_run_are_those_that_the_engine_and_the_command_line_give() -> None:
    client = make_client("fake:0", in_process=True)
    talk = Talk(client)
    talk.load("fake:hybrid", n_slots=2, n_ctx=2048, checkpoint=CheckpointMode.HOST)
    talk.listen()
    finished = talk.run(*(task(slot, "import sys", 200, ignore_eos=True) for slot in range(2)))
    store, counters = make_store(talk.records), RunCounters()
    counters.update(store)
    report = counters.report(store)
    assert report.decodes.rides == finished.report.decodes.rides == decodes_in(store).rides > 0
    assert report.decodes.target == finished.report.decodes.target
    assert report.n_saves == finished.report.n_saves
    client.close()
