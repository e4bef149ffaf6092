"""Restores and probes that tests write by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from draftscope.engine.events import Kind, Mechanism, Operation, Records
from draftscope.engine.probes import (
    FAULTS,
    LEVELS,
    ArrayKind,
    Fault,
    ProbeLevel,
    RestoreKind,
    SideArray,
    StateStatus,
    empty_probes,
)
from draftscope.trace.store import TraceStore
from tests.trace.synthetic import record


def probe(t_start_ns: int = 0, **columns: Any) -> Any:
    """A row of ``PROBE_DTYPE`` at which everything is equal, but for what is named."""
    row = empty_probes(1)[0]
    equal = {
        "t_start_ns": t_start_ns,
        "duration_ns": 900,
        "slot": 0,
        "kind": RestoreKind.REJECTION,
        "mechanism": Mechanism.HOST,
        "level": LEVELS.index(ProbeLevel.STATE),
        "fault": FAULTS.index(Fault.NONE),
        "position": 40,
        "row_position": 40,
        "restored_position": 40,
        "without_position": 43,
        "row_width": 64,
        "restored_n_differing": 0,
        "restored_max_abs": 0.0,
        "restored_rms": 0.0,
        "restored_cosine": 1.0,
        "without_n_differing": 64,
        "without_worst": 7,
        "without_max_abs": 2.5,
        "without_rms": 0.5,
        "without_cosine": 0.9,
        "companion_n": 41,
        "companion_expected": 41,
        "companion_n_wrong": 0,
        "n_vocab": 100,
        "n_draft": 3,
        "restored_n_changed": 0,
        "without_n_changed": 100,
        "saved_top": 5,
        "restored_top": 5,
        "without_top": 6,
        "restored_n_same": 3,
        "without_n_same": 0,
        "saved_accepted": 2,
        "restored_accepted": 2,
        "without_accepted": 0,
        "state_status": StateStatus.EQUAL,
        "n_layers": 18,
        "n_layers_differing": 0,
        "state_max_abs": 0.0,
    }
    for name, value in (equal | columns).items():
        row[name] = value
    return row


def result(row: Any) -> SideArray:
    """The probe as it comes from the engine."""
    return SideArray(int(row["t_start_ns"]), ArrayKind.RESULT, np.asarray(row).reshape(1))


def restore(t_start_ns: int, slot: int = 0, round_id: int = 1, position: int = 40, **columns: Any) -> Records:
    """A RESTORE record."""
    values = {"duration_ns": 5_000, "code": Mechanism.HOST, "m": 2, "size_bytes": 4096} | columns
    return record(Kind.RESTORE, t_start_ns=t_start_ns, slot=slot, round=round_id, position=position, **values)


def operation(t_start_ns: int, what: Operation, n: int, slot: int = 0, **columns: Any) -> Records:
    """An OPERATION record outside of rounds; the slot holds ``n`` positions after it."""
    values = {"duration_ns": 5_000, "position": n, "size_bytes": 4096} | columns
    return record(Kind.OPERATION, t_start_ns=t_start_ns, code=what, n=n, slot=slot, round=-1, **values)


def moment(t_start_ns: int) -> Records:
    """Any record of a time, so that the store's clock is there."""
    return record(Kind.SLOT, t_start_ns=t_start_ns, code=2, round=-1)


def store_with(*records: Records, probes: tuple[Any, ...] = ()) -> TraceStore:
    """A store of records, in order, and probes."""
    store = TraceStore()
    store.append(np.concatenate(records))
    store.append_arrays([result(row) for row in probes])
    return store
