"""The result of a run as the object that ``run --json`` prints.

Definitions (of ``trace.acceptance``): acceptance = accepted / drafted; mean accepted length = 1 + accepted / rounds,
with the token that the target adds; tokens per second of a slot: from its first token on, so without the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.cli.generation import Outcome
from draftscope.cli.plan import Plan
from draftscope.cli.slot_files import SlotFiles
from draftscope.engine.codec import as_plain
from draftscope.engine.events import ENGINE_TRACK, Kind, Operation, Phase
from draftscope.engine.protocol import DecodeCounts, ModelReport, SlotResult
from draftscope.trace.acceptance import SlotAcceptance, from_counts
from draftscope.trace.checkpoints import AfterRestore, CheckpointTable, Timing, timing_of
from draftscope.trace.fallback_words import fallbacks_of
from draftscope.trace.store import TraceStore


def settings_of(plan: Plan) -> dict[str, Any]:
    """Everything that was asked for, as JSON types; with it the run can be repeated."""
    return {
        "model": as_plain(plan.model),
        "context": as_plain(plan.context),
        "prompts": as_plain(plan.prompts),
        "stop": list(plan.stop),
        "ignore_eos": plan.ignore_eos,
        "reuse": plan.may_reuse,
        "probe": plan.probe.value,
    }


class RunSummary:
    """Figures of one run. ``n_dropped`` records are missing in the store; counts of results are exact all the same."""

    def __init__(
        self,
        plan: Plan,
        model: ModelReport,
        outcome: Outcome,
        store: TraceStore,
        n_dropped: int,
        slot_files: SlotFiles | None = None,
    ) -> None:
        self._plan = plan
        self._model = model
        self._outcome = outcome
        self._store = store
        self._n_dropped = n_dropped
        self._slot_files = slot_files or SlotFiles()

    def as_json(self) -> dict[str, Any]:
        """The stable object of ``run --json``; figures that do not exist are null."""
        return {
            "model": as_plain(self._model),
            "settings": settings_of(self._plan),
            "slots": [task_as_json(prompt, result) for prompt, result in self._in_order()],
            "checkpoints": self._checkpoints(),
            "memory": self._memory(),
            "decodes": self._decodes(),
            "speculation": as_plain(self._model.speculation),
            "fallbacks": self._fallbacks(),
            "records": {"n": self._store.n_records, "dropped": self._n_dropped},
            "totals": self._totals(),
            "slot_files": self._slot_files.as_json(),
            "is_interrupted": self._outcome.is_interrupted,
        }

    def _in_order(self) -> list[tuple[int, SlotResult]]:
        """Tasks as they were dealt, not as they ended: those that began, by slot; then those that waited, by prompt."""
        n_slots = self._model.n_slots
        return sorted(self._outcome.results, key=lambda task: task[0] if task[0] >= n_slots else task[1].slot)

    def _checkpoints(self) -> dict[str, Any]:
        way = self._model.way_back
        table = CheckpointTable()
        table.update(self._store)
        return {
            "mode": way.granted,
            "asked": way.asked.value,
            "why": way.why,
            "n_rs_seq_asked": way.n_rs_seq_asked,
            "n_rs_seq_granted": way.n_rs_seq_granted,
            "n_saves": self._count("n_saves", Kind.SAVE),
            "n_restores": self._count("n_restores", Kind.RESTORE),
            "save_us": _timing(table.timing(Kind.SAVE)),
            "restore_us": _timing(table.timing(Kind.RESTORE)),
            "after_restore_us": _after_restore(table.after_restore()),
            "timings": [
                {"kind": group.kind.name.lower(), "mechanism": group.mechanism.name.lower(), "slot": group.slot}
                | (_timing(table.timing(*group)) or {})
                for group in table.groups()
            ],
            "bytes_per_slot": way.bytes_per_slot,
        }

    def _memory(self) -> list[dict[str, Any]]:
        """By kind, as it stood at the end; the model's own report was made before the first checkpoint."""
        reports = self._outcome.reports
        return list(as_plain(reports[-1].memory if reports else self._model.memory))

    def _count(self, name: str, kind: Kind) -> int:
        """The engine's count where one report covers the run; else of the records."""
        reports = self._outcome.reports
        return int(getattr(reports[0], name)) if len(reports) == 1 else len(self._store.kind(kind))

    def _decodes(self) -> dict[str, Any]:
        is_one = len(self._outcome.reports) == 1
        counts = self._outcome.reports[0].decodes if is_one else decodes_in(self._store)
        rounds = counts.rounds
        figures = {
            "target_per_round": counts.target / rounds if rounds else None,
            "draft_per_round": (counts.draft + counts.catch_up) / rounds if rounds else None,
            "counted_by": "engine" if is_one else "records",
        }
        return dict(as_plain(counts)) | figures

    def _fallbacks(self) -> list[dict[str, Any]]:
        return [
            {
                "round": fallback.round,
                "slot": fallback.slot,
                "position": fallback.position,
                "reason": fallback.kind.reason.name.lower(),
                "asked": fallback.kind.asked.name.lower(),
                "used": fallback.kind.used.name.lower(),
                "sentence": fallback.sentence,
            }
            for fallback in fallbacks_of(self._store.kind(Kind.FALLBACK))
        ]

    def _totals(self) -> dict[str, Any]:
        results = [result for _, result in self._outcome.results]
        total = acceptance_of(results)
        n_tokens = sum(len(result.tokens) for result in results)
        wall_ms = self._wall_ms()
        return {
            "n_tokens": n_tokens,
            "n_prompt": sum(result.n_prompt for result in results),
            "n_prompt_processed": sum(result.n_prompt - result.n_reused for result in results),
            "n_rounds": total.n_rounds,
            "draft_n": total.draft_n,
            "draft_n_accepted": total.n_accepted,
            "acceptance": number(total.rate),
            "mean_accepted_length": number(total.mean_accepted_length),
            "wall_ms": wall_ms,
            "tokens_per_second": n_tokens / wall_ms * 1e3 if wall_ms else None,
            "n_fallbacks": len(self._fallbacks()),
            "n_shifts": int(np.count_nonzero(self._store.kind(Kind.OPERATION)["code"] == Operation.SHIFT)),
            "load_ms": self._model.load_ms,
        }

    def _wall_ms(self) -> float:
        reports, span = self._outcome.reports, self._store.time_range()
        if len(reports) == 1:
            return reports[0].wall_ms
        return (span[1] - span[0]) / 1e6 if span else 0.0


def acceptance_of(results: Sequence[SlotResult]) -> SlotAcceptance:
    """The figures of a task, or of several together; tokens per second only of a single one."""
    return from_counts(
        n_rounds=sum(result.n_rounds for result in results),
        draft_n=sum(result.draft_n for result in results),
        n_accepted=sum(result.draft_n_accepted for result in results),
        drafted_at=results[0].drafted_at if len(results) == 1 else (),
        accepted_at=results[0].accepted_at if len(results) == 1 else (),
        n_tokens=sum(len(result.tokens) for result in results),
        generate_ms=results[0].generate_ms if len(results) == 1 else 0.0,
    )


def task_as_json(prompt: int, result: SlotResult) -> dict[str, Any]:
    """One task in the object of ``run --json``; ``prompt`` is the index of what it started from."""
    acceptance = acceptance_of([result])
    return {
        "slot": result.slot,
        "prompt": prompt,
        "text": result.text,
        "tokens": list(result.tokens),
        "n_prompt": result.n_prompt,
        "n_reused": result.n_reused,
        "reuse": result.reuse,
        "n_tokens": len(result.tokens),
        "n_rounds": result.n_rounds,
        "draft_n": result.draft_n,
        "draft_n_accepted": result.draft_n_accepted,
        "accepted_per_position": list(result.accepted_at),
        "drafted_per_position": list(result.drafted_at),
        "acceptance": number(acceptance.rate),
        "acceptance_per_position": [number(rate) for rate in acceptance.per_position],
        "mean_accepted_length": number(acceptance.mean_accepted_length),
        "tokens_per_second": number(acceptance.tokens_per_second),
        "ttft_ms": number(result.ttft_ms),
        "prompt_ms": number(result.prompt_ms),
        "generate_ms": number(result.generate_ms),
        "stop": result.stop,
        "error": result.error,
    }


def decodes_in(store: TraceStore) -> DecodeCounts:
    """Count decodes in the records: for runs that no single report of the engine covers."""
    spans = store.kind(Kind.SPAN)
    spans = spans[spans["slot"] == ENGINE_TRACK]
    rounds = spans["round"][spans["round"] >= 0]
    calls = {phase: spans[spans["code"] == phase] for phase in Phase}

    def n(*phases: Phase) -> int:
        return sum(len(calls[phase]) for phase in phases)

    def runs(*phases: Phase) -> int:
        return sum(int(calls[phase]["m"].sum()) for phase in phases)

    return DecodeCounts(
        rounds=len(np.unique(rounds)),
        target=n(Phase.VERIFY, Phase.REPLAY),
        draft=n(Phase.DRAFT),
        replay=n(Phase.REPLAY),
        rides=_rides(store),
        catch_up=n(Phase.CATCH_UP),
        target_graph_runs=runs(Phase.VERIFY, Phase.REPLAY),
        draft_graph_runs=runs(Phase.DRAFT, Phase.CATCH_UP),
        prompt=n(Phase.PROMPT),
        prompt_graph_runs=runs(Phase.PROMPT),
    )


def _rides(store: TraceStore) -> int:
    """Verifications in which any slot had replayed tokens in front of its sampled one."""
    spans = store.kind(Kind.SPAN)
    carried = spans[(spans["slot"] != ENGINE_TRACK) & (spans["code"] == Phase.VERIFY) & (spans["m"] > 0)]
    return len(np.unique(carried["round"]))


def duration_figures(durations_us: NDArray[np.float64]) -> dict[str, float] | None:
    """How many events, the median and the 99th percentile of their durations; None when there were none."""
    return _timing(timing_of(durations_us))


def _timing(timing: Timing | None) -> dict[str, float] | None:
    return None if timing is None else {"n": timing.n, "median": timing.median_us, "p99": timing.p99_us}


def _after_restore(compared: AfterRestore | None) -> dict[str, float] | None:
    """What the target's decodes pay in a round after a restore; null where too few rounds can be compared."""
    if compared is None:
        return None
    return {
        "paid": compared.paid_us,
        "after": compared.after_us,
        "other": compared.other_us,
        "n_after": compared.n_after,
        "n_other": compared.n_other,
    }


def number(value: float) -> float | None:
    """A figure for JSON, which has no NaN: null where there is none."""
    return float(value) if math.isfinite(value) else None
