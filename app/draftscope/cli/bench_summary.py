"""The result of a bench as the object that ``bench --json`` prints; ``bench_table`` makes its text from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.cli.bench_edit import DEFINITIONS as EDIT_DEFINITIONS
from draftscope.cli.bench_edit import edit_figures, summary
from draftscope.cli.bench_plan import RUNNING_IN_TOKENS, BenchPlan, Workload
from draftscope.cli.bench_runner import BenchResult, Measured
from draftscope.cli.bench_sample import Sample, TaskTokens, by_repeat, sum_of
from draftscope.cli.memory_growth import MemoryPoint, growth_as_json, point_of
from draftscope.cli.run_summary import acceptance_of, duration_figures, number
from draftscope.engine.codec import as_plain
from draftscope.engine.model_memory import MemoryNeeds
from draftscope.trace.paired import Summary, first_difference, paired_ratios, summary_of

DEFINITIONS = {
    "tokens_per_second": "all slots together, prompts excluded: tokens after the first of each slot / time from the "
    "first token of any slot to the last of any",
    "spread": "low and high: p10 and p90 of ten or more runs, else the least and the greatest",
    "ratio": "median over the repeats of tokens_per_second / that of the other variant in the same repeat",
    "acceptance": "accepted / drafted tokens",
    "mean_accepted_length": "1 + accepted / rounds, with the token that the target itself adds in every round",
    "per_round": "decode calls, or graphs computed for them, of all counted runs / their rounds",
    "first_differences": "index: of the generated token, from 0; probability: by the target, null where the token was "
    "drafted (only the draft's is on record); how near two candidates were is not measured",
}
"""What the figures mean."""

_FACTS = ("path", "description", "architecture", "size_bytes", "n_params", "n_ctx", "n_threads", "devices", "engine")
_FACTS_TOO = ("is_patched", "is_recurrent", "load_ms")


class BenchSummary:
    """Figures of a bench. ``needs``: what the file lets expect of memory, None where it is not predicted."""

    def __init__(self, plan: BenchPlan, result: BenchResult, needs: MemoryNeeds | None) -> None:
        self._plan = plan
        self._result = result
        self._needs = needs

    def as_json(self) -> dict[str, Any]:
        """The stable object of ``bench --json``; figures that do not exist are null."""
        failure = self._result.failure
        return {
            "model": {name: as_plain(getattr(self._result.model, name)) for name in (*_FACTS, *_FACTS_TOO)},
            "settings": self._settings(),
            "definitions": DEFINITIONS | (EDIT_DEFINITIONS if self._plan.edit else {}),
            "variants": [self._variant(index, entry) for index, entry in enumerate(self._result.measured)],
            "ratios": list(self._ratios()),
            "memory": list(self._memory()),
            "order": [{"repeat": repeat, "variant": index} for repeat, index in self._result.order],
            "elapsed_s": self._result.elapsed_s,
            "is_interrupted": self._result.is_interrupted,
            "error": None if failure is None else as_plain(failure.report()),
        }

    def _settings(self) -> dict[str, Any]:
        return {
            "workload": (Workload.EDIT if self._plan.edit else Workload.PROMPTS).value,
            "model": as_plain(self._plan.model),
            "common": as_plain(self._plan.common),
            "prompts": as_plain(self._plan.prompts),
            "stop": list(self._plan.stop),
            "ignore_eos": self._plan.ignore_eos,
            "n_repeats": self._plan.n_repeats,
            "n_warm_up": 1,
            "n_tokens_running_in": RUNNING_IN_TOKENS,
            "n_prompts_a_conversation": self._plan.edit.n_prompts_each if self._plan.edit else None,
        }

    # ---- speed

    def _speeds(self, entry: Measured) -> NDArray[np.float64]:
        return by_repeat(entry.samples, self._plan.n_repeats, lambda sample: sample.tokens_per_second)

    def _reference(self, n_slots: int) -> int | None:
        """The variant that others with so many slots are compared with: without MTP, or else the first there is."""
        own = [i for i, e in enumerate(self._result.measured) if e.variant.n_slots == n_slots and e.samples]
        return next((i for i in own if self._result.measured[i].variant.mode is None), own[0] if own else None)

    def _ratio(self, of: int, to: int) -> Summary:
        measured = self._result.measured
        return summary_of(paired_ratios(self._speeds(measured[of]), self._speeds(measured[to])))

    def _ratios(self) -> Iterator[dict[str, Any]]:
        for of, one in enumerate(self._result.measured):
            for to, other in enumerate(self._result.measured):
                if of != to and one.variant.n_slots == other.variant.n_slots and one.samples and other.samples:
                    yield {"n_slots": one.variant.n_slots, "of": of, "to": to} | summary(self._ratio(of, to))

    # ---- variants

    def _variant(self, index: int, entry: Measured) -> dict[str, Any]:
        variant, report = entry.variant, entry.report
        reference = self._reference(variant.n_slots)
        granted = [sample.granted for sample in entry.samples]
        return {
            "id": index,
            "label": variant.label,
            "n_slots": variant.n_slots,
            "mode": None if variant.mode is None else variant.mode.value,
            "n_draft_max": variant.n_draft_max,
            "replay": variant.replay.value,
            "start": None if variant.start is None else variant.start.value,
            "is_baseline": variant.mode is None,
            "is_available": entry.is_going_on,
            "why_not": entry.why_not or entry.error,
            "granted": {way: granted.count(way) for way in dict.fromkeys(granted)},
            "n_draft_granted": report.speculation.n_draft_max if report else None,
            "way_back": as_plain(report.way_back) if report else None,
            "n_samples": len(entry.samples),
            "samples": [_sample(sample) for sample in entry.samples],
            "tokens_per_second": summary(summary_of(self._speeds(entry))),
            "reference": reference,
            "ratio": summary(self._ratio(index, reference)) if reference is not None else None,
            "tokens": self._tokens(entry, reference),
            "edit": self._edit(entry, reference),
        } | _counts(entry.samples)

    def _edit(self, entry: Measured, reference: int | None) -> dict[str, Any] | None:
        if self._plan.edit is None:
            return None
        measured = self._result.measured
        other = None if reference is None else measured[reference]
        return edit_figures(entry, other, measured, self._plan.n_repeats)

    def _tokens(self, entry: Measured, reference: int | None) -> dict[str, Any] | None:
        """Whether every counted run gave the tokens of the reference's first one; if not, where one differs."""
        if reference is None or not entry.samples:
            return None
        expected = self._result.measured[reference].samples[0].tasks
        by_run = [self._differences(sample.tasks, expected) for sample in entry.samples]
        return {
            "are_equal": not any(by_run),
            "n_runs_equal": sum(not differences for differences in by_run),
            "first_differences": next((differences for differences in by_run if differences), []),
        }

    def _differences(self, tasks: Sequence[TaskTokens], expected: Sequence[TaskTokens]) -> list[dict[str, Any]]:
        """The first difference of each task that has one; tasks are in the same order in every run of so many slots."""
        return [
            {
                "slot": task.slot,
                "prompt": task.prompt,
                "place": self._plan.place_of(task.prompt),
                "index": index,
                "token": _at(task.tokens, index),
                "reference_token": _at(other.tokens, index),
                "probability": _probability(task, index),
                "reference_probability": _probability(other, index),
            }
            for task, other in zip(tasks, expected, strict=True)
            if (index := first_difference(task.tokens, other.tokens)) is not None
        ]

    # ---- memory

    def _memory(self) -> Iterator[dict[str, Any]]:
        """By the way back that was in use and the draft length, over the numbers of slots; of equal ones the first."""
        settings: dict[tuple[str, int], dict[int, Measured]] = {}
        for entry in self._result.measured:
            if entry.report is not None and entry.is_going_on:
                key = (entry.report.way_back.granted, entry.report.speculation.n_draft_max)
                settings.setdefault(key, {}).setdefault(entry.variant.n_slots, entry)
        for (way, n_draft), by_slots in settings.items():
            points = [self._point(by_slots[n_slots]) for n_slots in sorted(by_slots)]
            label = f"{way.replace('_', ' ')}, draft {n_draft}" if n_draft else "without MTP"
            yield {"way_back": way, "n_draft_max": n_draft} | growth_as_json(label, points)

    def _point(self, entry: Measured) -> MemoryPoint:
        """As it stood at the end of the last run; where that says nothing, when the contexts were made."""
        report = entry.report
        assert report is not None  # only such entries are asked for
        at_end = entry.samples[-1].reports[-1].memory if entry.samples else ()
        n_draft = report.speculation.n_draft_max
        used = at_end or report.memory
        return point_of(entry.variant.n_slots, used, self._needs, report.way_back.granted, report.n_ctx, n_draft)


def _counts(samples: Sequence[Sample]) -> dict[str, Any]:
    results = [result for sample in samples for result in sample.results]
    total = acceptance_of(results) if results else None
    decodes = sum_of([sample.decodes for sample in samples])
    n_rounds = decodes.rounds
    graph_runs = decodes.target_graph_runs + decodes.draft_graph_runs
    reports = [report for sample in samples for report in sample.reports]
    return {
        "acceptance": number(total.rate) if total else None,
        "mean_accepted_length": number(total.mean_accepted_length) if total else None,
        "draft_n": total.draft_n if total else 0,
        "draft_n_accepted": total.n_accepted if total else 0,
        "decodes": as_plain(decodes)
        | {
            "target_per_round": decodes.target / n_rounds if n_rounds else None,
            "draft_per_round": (decodes.draft + decodes.catch_up) / n_rounds if n_rounds else None,
            "graph_runs_per_round": graph_runs / n_rounds if n_rounds else None,
        },
        "decode_cost": as_plain(reports[-1].decode_cost) if reports else None,
        "n_saves": sum(report.n_saves for report in reports),
        "n_restores": sum(report.n_restores for report in reports),
        "n_fallbacks": sum(report.n_fallbacks for report in reports),
        "save_us": _durations([sample.save_us for sample in samples]),
        "restore_us": _durations([sample.restore_us for sample in samples]),
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "repeat": sample.repeat,
        "granted": sample.granted,
        "tokens_per_second": number(sample.tokens_per_second),
        "n_tokens": sum(len(result.tokens) for result in sample.results),
        "wall_s": sample.wall_s,
    }


def _at(tokens: Sequence[int], index: int) -> int | None:
    return tokens[index] if index < len(tokens) else None


def _probability(task: TaskTokens, index: int) -> float | None:
    return number(task.probabilities[index]) if index < len(task.probabilities) else None


def _durations(parts: Sequence[NDArray[np.float64]]) -> dict[str, float] | None:
    return duration_figures(np.concatenate(parts)) if parts else None
