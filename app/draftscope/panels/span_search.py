"""Finds the span or the operation that a pointer means. No Qt."""

from __future__ import annotations

import numpy as np

from draftscope.engine.events import Kind, Records
from draftscope.trace.store import TraceStore


def span_near(store: TraceStore, slot: int, t_ns: int, reach_ns: int) -> np.void | None:
    """The span of a lane at a time, or the nearest within ``reach_ns``; of those equally near the shortest."""
    return _nearest(store.spans_in(slot, t_ns - reach_ns, t_ns + reach_ns + 1), t_ns)


def operation_near(store: TraceStore, slot: int, t_ns: int, reach_ns: int) -> np.void | None:
    """The operation of a lane at a time, or the nearest within ``reach_ns``."""
    found = store.operations_in(slot, t_ns - reach_ns, t_ns + reach_ns + 1)
    return _nearest(found, t_ns)


def _nearest(records: Records, t_ns: int) -> np.void | None:
    if len(records) == 0:
        return None
    starts, lengths = records["t_start_ns"], records["duration_ns"]
    distance = (starts - t_ns).clip(min=0) + (t_ns - starts - lengths).clip(min=0)
    nearest: np.void = records[np.lexsort((lengths, distance))[0]]
    return nearest


def round_extent(store: TraceStore, round_number: int) -> tuple[int, int] | None:
    """First start and last end of the spans of a round in ns; None when it has none."""
    records = store.round_records(round_number)
    spans = records[records["kind"] == Kind.SPAN]
    if len(spans) == 0:
        return None
    return int(spans["t_start_ns"].min()), int((spans["t_start_ns"] + spans["duration_ns"]).max())
