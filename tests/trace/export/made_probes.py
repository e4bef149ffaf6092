"""Results and side arrays of made-up probes."""

from __future__ import annotations

import numpy as np

from draftscope.engine.events import Mechanism
from draftscope.engine.probes import ArrayKind, RestoreKind, SideArray, StateStatus, empty_probes
from draftscope.trace.trace import Trace
from tests.trace.synthetic import T_START_NS

WIDTH = 32


def made_arrays(n: int = 3) -> list[SideArray]:
    """A result and every side array of ``n`` probes; the i-th has 5 + i likeliest tokens."""
    chance = np.random.default_rng(3)
    arrays = []
    for i in range(n):
        t_start_ns = T_START_NS + 1_000 * i
        result = empty_probes(1)
        result["t_start_ns"], result["duration_ns"], result["slot"], result["round"] = t_start_ns, 500, i % 2, i
        result["kind"], result["mechanism"], result["level"] = RestoreKind.REJECTION, Mechanism.HOST, 3
        result["restored_max_abs"], result["saved_top"], result["state_status"] = 0.25 * i, 101, StateStatus.EQUAL
        n_top = 5 + i
        values = {
            ArrayKind.RESULT: result,
            ArrayKind.ROWS: chance.normal(size=(3, WIDTH)).astype(np.float32),
            ArrayKind.FINGERPRINTS: np.arange(8, dtype=np.int64).reshape(4, 2) + i,
            ArrayKind.DRAFT_TOKENS: np.full((3, 3), 101, np.int32),
            ArrayKind.TOP_TOKENS: np.arange(n_top, dtype=np.int32),
            ArrayKind.TOP_LOGITS: chance.normal(size=(3, n_top)).astype(np.float32),
            ArrayKind.TOP_PROBABILITIES: chance.random((3, n_top), np.float32),
            ArrayKind.LAYERS: chance.random((2, 2, 2)),
        }
        arrays += [SideArray(t_start_ns, kind, array) for kind, array in values.items()]
    return arrays


def with_probes(trace: Trace, n: int = 3) -> Trace:
    """The trace, with ``n`` probes more."""
    trace.store.append_arrays(made_arrays(n))
    return trace
