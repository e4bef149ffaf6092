"""Records as a run of four slots would write them, for benchmarks of what reads them."""

from __future__ import annotations

import numpy as np

from draftscope.engine.events import ENGINE_TRACK, NO_ROUND, Kind, Origin, Phase, Records, empty_records

N_SLOTS = 4
N_DRAFT = 3
_ROUND_NS = 5_000_000


def rounds(n_rounds: int) -> Records:
    """``n_rounds`` rounds, about 32 records each; always the same ones."""
    chance = np.random.default_rng(7)
    one = _one_round()
    records = np.tile(one, n_rounds)
    number = np.repeat(np.arange(n_rounds, dtype=np.int32), len(one))
    records["round"] = number
    records["sequence"] = np.arange(len(records))
    records["t_start_ns"] += number.astype(np.int64) * _ROUND_NS
    is_round = records["kind"] == Kind.ROUND
    records["m"][is_round] = chance.integers(0, N_DRAFT + 1, int(is_round.sum()))
    return records


def _one_round() -> Records:
    rows: list[tuple[Kind, int, int, int]] = []  # kind, code, slot, start in us
    rows += [(Kind.SPAN, Phase.DRAFT, ENGINE_TRACK, 600 * step) for step in range(N_DRAFT)]
    rows += [(Kind.SPAN, Phase.VERIFY, ENGINE_TRACK, 2000)]
    for slot in range(N_SLOTS):
        rows += [(Kind.SPAN, Phase.DRAFT, slot, 0), (Kind.SPAN, Phase.VERIFY, slot, 2000)]
        rows += [(Kind.SPAN, Phase.ACCEPT, slot, 4000)]
        rows += [(Kind.TOKEN, Origin.ACCEPTED, slot, 4000)] * 2 + [(Kind.TOKEN, Origin.REJECTED, slot, 4000)]
        rows += [(Kind.ROUND, 2, slot, 0)]
    records = empty_records(len(rows))
    for record, (kind, code, slot, start_us) in zip(records, rows, strict=True):
        record["kind"], record["code"], record["slot"] = kind, code, slot
        record["t_start_ns"], record["duration_ns"] = start_us * 1000, 500_000
        record["n"], record["round"], record["token"], record["value"] = N_DRAFT, NO_ROUND, 5, 0.5
    return records
