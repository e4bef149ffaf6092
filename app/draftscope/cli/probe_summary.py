"""What probes found in a run, summed up, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from draftscope.cli.run_summary import number
from draftscope.engine.probes import ProbeLevel, Probes, RestoreKind
from draftscope.trace.probe_cost import ProbeCost
from draftscope.trace.restore_verdict import Verdict, verdict_words, verdicts_of
from draftscope.trace.rows_in_use import RowsInUse
from draftscope.trace.store import TraceStore


def probes_as_json(store: TraceStore, level: ProbeLevel, n_dropped: int) -> dict[str, Any] | None:
    """What ``run --json`` says of probes; None with level OFF. ``n_dropped``: results and arrays lost on the way."""
    if level is ProbeLevel.OFF:
        return None
    cost = ProbeCost()
    cost.update(store)
    kinds = {kind.name.lower(): int(np.count_nonzero(store.probes["kind"] == kind)) for kind in RestoreKind}
    return {
        "level": level.value,
        "n": len(store.probes),
        "by_kind": {name: n for name, n in kinds.items() if n},
        "verdicts": verdicts_as_json(store.probes),
        "rows_in_use": rows_in_use(store),
        "cost": {"probed_ms": cost.probed_ns / 1e6, "share": number(cost.share)},
        "n_dropped": n_dropped,
        "n_not_kept": store.n_arrays_not_kept,
    }


def rows_in_use(store: TraceStore) -> dict[str, Any]:
    """From which position's row each draft went on."""
    rows = RowsInUse()
    rows.update(store)
    counts = {name: getattr(rows, name) for name in ("n", "n_right", "n_zero", "n_unknown", "n_other")}
    return counts | {"words": rows.words}


def verdicts_as_json(probes: Probes) -> dict[str, Any]:
    """How many restores have each verdict, and the first few differences in words."""
    verdicts = verdicts_of(probes)
    counts = {verdict.name.lower(): int(np.count_nonzero(verdicts == verdict)) for verdict in Verdict}
    differing = probes[verdicts >= Verdict.ROW_ZERO]
    return {
        "n": len(probes),
        "n_differing": len(differing),
        "by_verdict": {name: n for name, n in counts.items() if n},
        "first": [
            f"slot {probe['slot']}, position {probe['position']}: {verdict_words(probe)}" for probe in differing[:3]
        ],
    }
