"""Runs to be compared: the same one, one that is slower throughout, one that scatters."""

from __future__ import annotations

import numpy as np

from draftscope.engine.events import Kind, Records
from draftscope.trace.trace import Trace
from tests.trace.synthetic import T_START_NS, make_records, make_trace


def slower(records: Records, factor: float) -> Records:
    """The same run on a machine that takes ``factor`` times as long for everything."""
    made = records.copy()
    made["t_start_ns"] = T_START_NS + ((records["t_start_ns"] - T_START_NS) * factor).astype(np.int64)
    made["duration_ns"] = (records["duration_ns"] * factor).astype(np.int64)
    return made


def scattered(records: Records, seed: int, share: float = 0.2) -> Records:
    """The same run with durations that scatter round by round, and the times between them."""
    made = records.copy()
    random = np.random.default_rng(seed)
    rounds = np.unique(records["round"])
    factors = np.exp(random.normal(0.0, share, len(rounds)))
    of_record = factors[np.searchsorted(rounds, records["round"])]
    made["duration_ns"] = (records["duration_ns"] * of_record).astype(np.int64)
    starts = np.unique(records["t_start_ns"])
    of_start = factors[np.searchsorted(rounds, records["round"][np.searchsorted(records["t_start_ns"], starts)])]
    moved = T_START_NS + np.concatenate([[0], np.cumsum(np.diff(starts) * of_start[:-1])]).astype(np.int64)
    made["t_start_ns"] = moved[np.searchsorted(starts, records["t_start_ns"])]
    return made


def in_start_order(records: Records) -> Records:
    """Records by their start, numbered anew."""
    made = records[np.argsort(records["t_start_ns"], kind="stable")]
    made["sequence"] = np.arange(len(made))
    return made


def run(factor: float = 1.0, seed: int | None = None, **options: object) -> Trace:
    """A trace of 80 rounds; ``seed`` lets its times scatter."""
    records = in_start_order(make_records(80, **options))
    if seed is not None:
        records = scattered(records, seed)
    trace = make_trace(slower(records, factor))
    trace.results = []
    return trace


def n_rounds(trace: Trace) -> int:
    """Rounds of a trace."""
    return len(np.unique(trace.store.kind(Kind.ROUND)["round"]))
