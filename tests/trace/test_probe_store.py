"""What probes measured is kept: the newest word of each probe, and side arrays as far as the budget reaches."""

from __future__ import annotations

import numpy as np

from draftscope.engine.probes import ArrayKind, SideArray, empty_probes
from draftscope.trace.probe_store import ProbeStore
from draftscope.trace.store import TraceStore


def result(t_start_ns: int, n_followed: int = -1) -> SideArray:
    probe = empty_probes(1)
    probe["t_start_ns"], probe["n_followed"] = t_start_ns, n_followed
    return SideArray(t_start_ns, ArrayKind.RESULT, probe)


def rows(t_start_ns: int, width: int = 4) -> SideArray:
    return SideArray(t_start_ns, ArrayKind.ROWS, np.full((3, width), t_start_ns, dtype=np.float32))


def test_a_probe_that_is_told_again_takes_its_own_place() -> None:
    store = ProbeStore()
    store.append([result(10), result(20), result(30)])
    before = store.results
    store.append([result(20, n_followed=3)])
    assert store.results["t_start_ns"].tolist() == [10, 20, 30]
    assert store.results["n_followed"].tolist() == [-1, 3, -1]
    assert before["n_followed"].tolist() == [-1, -1, -1]  # a view that was handed out stays as it is


def test_arrays_beyond_the_budget_are_counted_and_results_are_kept() -> None:
    store = ProbeStore(budget_bytes=100)
    store.append([result(1), rows(1), result(2), rows(2), rows(3)])
    assert store.n_not_kept == 1
    assert len(store.results) == 2
    kept = store.array(2, ArrayKind.ROWS)
    assert kept is not None
    assert (kept == 2).all()
    assert store.array(3, ArrayKind.ROWS) is None
    assert [array.t_start_ns for array in store.arrays()] == [1, 2]


def test_a_store_forgets_its_probes_with_its_records() -> None:
    store = TraceStore()
    store.append_arrays([result(1), rows(1)])
    handed_over = store.hand_over()
    assert (len(store.probes), len(handed_over.probes)) == (0, 1)
    assert handed_over.array(1, ArrayKind.ROWS) is not None
