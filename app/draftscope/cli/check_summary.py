"""The result of a check as the object that ``check --json`` prints; texts are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from draftscope.cli.check_figures import (
    NEAR_TIE,
    compare_tokens,
    layers_of,
    positions_of,
    timed_as_json,
)
from draftscope.cli.check_runner import CheckedWay, CheckResult
from draftscope.cli.check_verdict import verdict_of
from draftscope.cli.probe_summary import rows_in_use, verdicts_as_json
from draftscope.engine.codec import as_plain
from draftscope.engine.probes import FAULTS, PROBE_COLUMNS, Fault, Probes
from draftscope.trace.restore_diagnosis import diagnose

DEFINITIONS = {
    "omitted": "the row that drafting would go on from had nobody saved and restored hidden rows, against the saved "
    "one; of a rejected draft: the last row of the verification; measured in the same run, in which it is not used",
    "enabled": "the row that drafting did go on from, against the saved one",
    "max_abs, rms, cosine": "of the difference of the two rows, in activation units; the worst of the group",
    "row_of": "positions whose rows these are by their digests; -1: none of the slot's known rows, -2: zeros",
    "n_vectors_changed": "draft-logit vectors (first draft step from the row) in which any logit differs in any bit",
    "n_top_changed": "of these, whose likeliest token is another",
    "accepted, accepted_saved": "tokens of the draft from this row, and of that from the saved one, that did follow in "
    "the slot; n_followed tokens followed within the length of these drafts",
    "state": "recurrent state after the restore against the one saved; after a native rollback against decoding the "
    "tokens anew: rounding means no further away than such decodings are from each other (scatter), or than a step of "
    "half precision, in which F16 models are computed, of the largest value",
    "tokens": "replies at temperature 0 against those without MTP; near_tie: the two tokens' logits are nearer than "
    f"{NEAR_TIE}, by their probabilities; perhaps: the probability of one is not on record (it was drafted)",
    "timed": "probing off, hidden rows put back against the fault (omit_hook unless another was asked for), in turn; "
    "ratio: speed with the fault / without, pair by pair; change: geometric mean of these ratios, low and high its "
    "t interval by how they scatter, null of fewer than three pairs",
    "is_effect": "1 lies outside that interval",
}

_FACTS = ("path", "description", "architecture", "size_bytes", "n_params", "n_ctx", "n_threads", "devices", "engine")
_FACTS_TOO = ("is_patched", "is_recurrent", "load_ms")


def summary_of_check(result: CheckResult) -> dict[str, Any]:
    """The stable object of ``check --json``; figures that do not exist are null."""
    plan = result.plan
    probes = [way.store.probes for way in result.ways if way.is_checked]
    together = np.concatenate(probes) if probes else None
    summary: dict[str, Any] = {
        "model": {name: as_plain(getattr(result.model, name)) for name in (*_FACTS, *_FACTS_TOO)},
        "settings": {
            "model": as_plain(plan.model),
            "common": as_plain(plan.common),
            "fault": plan.fault.value,
            "n_pairs": plan.n_repeats,
            "max_tokens": plan.max_tokens,
        },
        "workload": _workload(result),
        "definitions": DEFINITIONS,
        "ways": [_way(way, result) for way in result.ways],
        "diagnosis": _diagnosis(together),
        "n_faults_injected": 0 if together is None else int(np.count_nonzero(together["fault"])),
        "is_interrupted": result.is_interrupted,
        "error": None if result.failure is None else as_plain(result.failure.report()),
        "elapsed_s": result.elapsed_s,
    }
    differs, sentences = verdict_of(summary)
    return summary | {"differs": differs, "verdict": sentences}


def _workload(result: CheckResult) -> dict[str, Any]:
    talk = result.talks[0]
    return {
        "form": result.form.value,
        "remark": result.form.remark,
        "n_conversations": len(result.talks),
        "n_turns": talk.n_turns,
        "n_edits": talk.n_steps - talk.n_turns,
        "n_replies": sum(len(outcome.results) for outcome, _ in result.reference),
    }


def _diagnosis(probes: Probes | None) -> dict[str, Any] | None:
    found = None if probes is None else diagnose(probes)
    if found is None:
        return None
    return {"cause": found.cause.value, "n": found.n, "n_probed": found.n_probed, "words": found.words}


def _way(way: CheckedWay, result: CheckResult) -> dict[str, Any]:
    report = way.report
    way_json: dict[str, Any] = {
        "mode": way.mode.value,
        "label": way.label,
        "is_checked": way.is_checked,
        "why_not": way.why_not,
        "way_back": as_plain(report.way_back) if report else None,
        "speculation": as_plain(report.speculation) if report else None,
    }
    if not way.is_checked:
        return way_json
    probes = way.store.probes
    return way_json | {
        "positions": list(positions_of(probes)),
        "layers": layers_of(way.store),
        "rows_in_use": rows_in_use(way.store),
        "verdicts": verdicts_as_json(probes),
        "diagnosis": _diagnosis(probes),
        "tokens": compare_tokens(way.outcomes, result.reference),
        "timed": timed_as_json(way.timed),
        "timed_tokens": _timed_tokens(way, result),
        "errors": sorted({r.error for outcome, _ in way.outcomes for _, r in outcome.results if r.error}),
        "n_dropped": way.n_dropped,
        "restores": list(_restores(probes)),
    }


def _timed_tokens(way: CheckedWay, result: CheckResult) -> dict[str, int]:
    """Replies of the timed runs without and with the fault that are those without MTP."""
    expected = {prompt: reply.tokens for outcome, _ in result.reference for prompt, reply in outcome.results}
    counts = {"n_replies": 0, "n_equal": 0, "n_equal_other": 0}
    for enabled, other in way.timed:
        for sample, name in ((enabled, "n_equal"), (other, "n_equal_other")):
            same = [task.tokens == expected.get(task.prompt) for task in sample.tasks]
            counts[name] += sum(same)
        counts["n_replies"] += len(enabled.tasks)
    return counts


def _restores(probes: Probes) -> Iterator[dict[str, Any]]:
    """Every probed restore with what was measured of it; what was not is left out."""
    for probe in probes:
        row: dict[str, Any] = {}
        for column in PROBE_COLUMNS:
            value = probe[column.name].item()
            if column.name == "fault":
                row["fault"] = FAULTS[value].value if FAULTS[value] is not Fault.NONE else None
            elif not (isinstance(value, float) and not np.isfinite(value)):
                row[column.name] = value
        yield row
