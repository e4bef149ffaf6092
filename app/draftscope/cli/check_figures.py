"""Figures of a check: what probes measured at groups of restores, tokens against those without MTP, timed pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.cli.bench_sample import Outcomes, Sample, target_probabilities
from draftscope.cli.check_verdict import FEWEST_PAIRS
from draftscope.cli.run_summary import acceptance_of, number
from draftscope.engine.probes import ArrayKind, Probes, RestoreKind, StateStatus
from draftscope.trace.paired import first_difference, paired_ratios, summary_of
from draftscope.trace.restores import KIND_WORDS
from draftscope.trace.store import TraceStore

NEAR_TIE = 0.02
"""Two tokens whose logits are nearer than this are a near-tie: batches of other shapes round them otherwise."""

_MOST_DIFFERENCES = 20


def positions_of(probes: Probes) -> Iterator[dict[str, Any]]:
    """Restores that put a state back, by what they were for and position; then all rejected drafts together."""
    is_rejection = probes["kind"] == RestoreKind.REJECTION
    for kind in np.unique(probes["kind"][~is_rejection]).tolist():
        of_kind = probes[probes["kind"] == kind]
        for position in np.unique(of_kind["position"]).tolist():
            yield figures_of(of_kind[of_kind["position"] == position])
    if is_rejection.any():
        yield figures_of(probes[is_rejection])


def figures_of(probes: Probes) -> dict[str, Any]:
    """What probes of one kind measured together; ``probes`` must hold one at least."""
    kind = RestoreKind(int(probes["kind"][0]))
    has_row = probes[probes["restored_n_differing"] >= 0]
    return {
        "kind": kind.name.lower(),
        "for": KIND_WORDS[kind],
        "position": [int(probes["position"].min()), int(probes["position"].max())],
        "slots": sorted({int(slot) for slot in probes["slot"]}),
        "n_restores": len(probes),
        "n_rows": len(has_row),
        "row_position": _range(has_row["row_position"]),
        "omitted": _rows(has_row, "without"),
        "enabled": _rows(has_row, "restored"),
        "companion": _companion(probes),
        "state": _states(probes),
    }


def _range(values: NDArray[np.int32]) -> list[int]:
    return [int(values.min()), int(values.max())] if len(values) else []


def _rows(probes: Probes, which: str) -> dict[str, Any]:
    """Of the row in use, or of the one that would be there without the hook: how it differs, and what it does."""
    tried = probes[probes["n_vocab"] > 0]
    told = tried[(tried["saved_accepted"] >= 0) & (tried[f"{which}_accepted"] >= 0)]
    found = probes[f"{which}_position"]
    return {
        "row_of": [int(position) for position in np.unique(found)],
        "n_named_right": int(np.count_nonzero(found == probes["row_position"])),
        "n_differing": int(np.count_nonzero(probes[f"{which}_n_differing"] > 0)),
        "max_abs": _extreme(probes[f"{which}_max_abs"], np.nanmax),
        "least_max_abs": _extreme(probes[f"{which}_max_abs"], np.nanmin),
        "rms": _extreme(probes[f"{which}_rms"], np.nanmax),
        "cosine": _extreme(probes[f"{which}_cosine"], np.nanmin),
        "n_vectors": len(tried),
        "n_vectors_changed": int(np.count_nonzero(tried[f"{which}_n_changed"] > 0)),
        "logit_max_abs": _extreme(tried[f"{which}_logit_max_abs"], np.nanmax),
        "kl": _extreme(tried[f"{which}_kl"], np.nanmax),
        "n_top_changed": int(np.count_nonzero(tried[f"{which}_top"] != tried["saved_top"])),
        "n_drafts_changed": int(np.count_nonzero(tried[f"{which}_n_same"] < tried["n_draft"])),
        "n_told": len(told),
        "accepted": int(told[f"{which}_accepted"].sum()),
        "accepted_saved": int(told["saved_accepted"].sum()),
        "n_followed": int(told["n_followed"].sum()),
    }


def _extreme(values: NDArray[np.float64], of: Any) -> float | None:
    return number(of(values)) if len(values) and not np.isnan(values).all() else None


def _companion(probes: Probes) -> dict[str, int]:
    checked = probes[probes["companion_expected"] >= 0]
    wrong = (checked["companion_n"] != checked["companion_expected"]) | (checked["companion_n_wrong"] > 0)
    return {"n": len(checked), "n_right": int(np.count_nonzero(~wrong))}


def _states(probes: Probes) -> dict[str, Any]:
    counts = {status.name.lower(): int(np.count_nonzero(probes["state_status"] == status)) for status in StateStatus}
    return {
        "by_status": {name: n for name, n in counts.items() if n},
        "max_abs": _extreme(probes["state_max_abs"], np.nanmax),
        "scatter": _extreme(probes["state_scatter"], np.nanmax),
    }


def layers_of(store: TraceStore) -> list[dict[str, Any]]:
    """Each recurrent layer over all restores: how often its parts were equal, and the largest difference."""
    arrays = [store.array(int(t_ns), ArrayKind.LAYERS) for t_ns in store.probes["t_start_ns"]]
    values = [array[:, :, 0] for array in arrays if array is not None]
    if not values:
        return []
    stacked = np.stack([value for value in values if value.shape == values[0].shape])
    return [
        {
            "layer": layer,
            "n": len(stacked),
            "n_conv_equal": int(np.count_nonzero(stacked[:, layer, 0] == 0)),
            "n_delta_equal": int(np.count_nonzero(stacked[:, layer, 1] == 0)),
            "max_abs": _extreme(stacked[:, layer].reshape(-1), np.nanmax),
        }
        for layer in range(stacked.shape[1])
    ]


# ---- tokens


def compare_tokens(outcomes: Outcomes, reference: Outcomes) -> dict[str, Any]:
    """Replies against those without MTP; behind a first difference nothing is compared."""
    expected = {
        prompt: (result, target_probabilities(records, result))
        for outcome, records in reference
        for prompt, result in outcome.results
    }
    differences = []
    n = 0
    for outcome, records in outcomes:
        for prompt, result in outcome.results:
            other, probabilities = expected.get(prompt, (None, None))
            if other is None or probabilities is None:
                continue
            n += 1
            index = first_difference(result.tokens, other.tokens)
            if index is not None:
                own = target_probabilities(records, result)
                differences.append(_difference(prompt, result.slot, index, _at(own, index), _at(probabilities, index)))
    by_sort = [difference["sort"] for difference in differences]
    return {
        "n_replies": n,
        "n_equal": n - len(differences),
        "n_near_ties": by_sort.count("near_tie"),
        "n_perhaps": by_sort.count("perhaps"),
        "n_other": by_sort.count("other"),
        "differences": differences[:_MOST_DIFFERENCES],
    }


def _at(probabilities: NDArray[np.float64], index: int) -> float:
    return float(probabilities[index]) if index < len(probabilities) else math.nan


def _difference(prompt: int, slot: int, index: int, own: float, other: float) -> dict[str, Any]:
    """``sort``: near_tie; other; perhaps: a probability is not on record, and the known one is of at most a half."""
    known = [p for p in (own, other) if math.isfinite(p)]
    if len(known) == 2 and min(known) > 0:
        sort = "near_tie" if abs(math.log(own / other)) <= NEAR_TIE else "other"
    else:  # of two equally likely tokens none has more than a half
        sort = "perhaps" if max(known, default=0.0) <= 0.5 * math.exp(NEAR_TIE) else "other"
    figures = {"probability": number(own), "reference_probability": number(other)}
    return {"prompt": prompt, "slot": slot, "index": index, "sort": sort} | figures


# ---- timed pairs


def timed_as_json(pairs: Sequence[tuple[Sample, Sample]]) -> dict[str, Any] | None:
    """Speeds and acceptance both ways, and whether the difference is more than the runs scatter; None without pairs."""
    if not pairs:
        return None
    speeds = [np.array([pair[i].tokens_per_second for pair in pairs]) for i in (0, 1)]
    ratios = paired_ratios(speeds[1], speeds[0])
    scatter = max(float(np.ptp(row) / np.median(row)) for row in speeds)
    ratio = summary_of(ratios)
    is_one_sided = bool((ratios > 1).all() or (ratios < 1).all())
    return {
        "n_pairs": len(pairs),
        "enabled": _timed([pair[0] for pair in pairs], speeds[0]),
        "other": _timed([pair[1] for pair in pairs], speeds[1]),
        "ratio": _spread(ratios),
        "scatter": scatter,
        "is_effect": len(pairs) >= FEWEST_PAIRS and is_one_sided and abs(ratio.median - 1) > scatter,
    }


def _timed(samples: Sequence[Sample], speeds: NDArray[np.float64]) -> dict[str, Any]:
    total = acceptance_of([result for sample in samples for result in sample.results])
    return {
        "tokens_per_second": _spread(speeds),
        "acceptance": number(total.rate),
        "draft_n": total.draft_n,
        "draft_n_accepted": total.n_accepted,
        "mean_accepted_length": number(total.mean_accepted_length),
    }


def _spread(row: NDArray[np.float64]) -> dict[str, Any]:
    of = summary_of(row)
    return {name: number(getattr(of, name)) for name in ("median", "best", "low", "high")}
