"""Figures of a check: what probes measured at groups of restores, tokens against those without MTP, timed pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.cli.bench_sample import Outcomes, Sample, target_probabilities
from draftscope.cli.run_summary import acceptance_of, number
from draftscope.engine.probes import ArrayKind, Probes, RestoreKind, StateStatus
from draftscope.trace.paired import first_difference, paired_ratios, summary_of
from draftscope.trace.restores import KIND_WORDS
from draftscope.trace.store import TraceStore

NEAR_TIE = 0.02
"""Two tokens whose logits are nearer than this are a near-tie: batches of other shapes round them otherwise."""

MOST_GROUPS = 6
"""Of rejected drafts, by position."""

FEWEST_OF_GROUP = 4
"""Fewer rejected drafts are not taken apart."""

CONFIDENCE = 0.99
"""Of the interval of a change of speed: one in a hundred that are none is called one."""

_MOST_DIFFERENCES = 20

# Two-sided 99 % quantiles of Student's t, from 2 degrees of freedom on; 2.58 is the normal's.
_T = (9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921)


def positions_of(probes: Probes) -> Iterator[dict[str, Any]]:
    """Restores that put a state back, by what they were for and position; then rejected drafts.

    Those are many, each at a position of its own: at most ``MOST_GROUPS`` groups of neighbours, equally many in each.
    """
    is_rejection = probes["kind"] == RestoreKind.REJECTION
    for kind in np.unique(probes["kind"][~is_rejection]).tolist():
        of_kind = probes[probes["kind"] == kind]
        for position in np.unique(of_kind["position"]).tolist():
            yield figures_of(of_kind[of_kind["position"] == position])
    rejections = probes[is_rejection]
    in_order = rejections[np.argsort(rejections["position"], kind="stable")]
    n_groups = min(MOST_GROUPS, max(len(in_order) // FEWEST_OF_GROUP, 1))
    yield from (figures_of(group) for group in np.array_split(in_order, n_groups) if len(group))


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
    """Each recurrent layer over all restores: how often its parts were equal, and the largest difference.

    ``n_rounding``: restores in which it is off by no more than rounding, which only a native rollback may be.
    """
    found = [(probe, store.array(int(probe["t_start_ns"]), ArrayKind.LAYERS)) for probe in store.probes]
    values = [(probe, array[:, :, 0]) for probe, array in found if array is not None]
    values = [(probe, value) for probe, value in values if value.shape == values[0][1].shape]
    if not values:
        return []
    stacked = np.stack([value for _, value in values])
    is_rounding = np.stack([_is_rounding(probe, value) for probe, value in values])
    return [
        {
            "layer": layer,
            "n": len(stacked),
            "n_equal": int(np.count_nonzero((stacked[:, layer] == 0).all(axis=1))),
            "n_conv_equal": int(np.count_nonzero(stacked[:, layer, 0] == 0)),
            "n_delta_equal": int(np.count_nonzero(stacked[:, layer, 1] == 0)),
            "n_rounding": int(np.count_nonzero(is_rounding[:, layer])),
            "max_abs": _extreme(stacked[:, layer].reshape(-1), np.nanmax),
        }
        for layer in range(stacked.shape[1])
    ]


def _is_rounding(probe: Any, max_abs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which layers are off by no more than rounding: all but those that the probe counts, which are off most.

    Args:
        max_abs: float64 (L, 2).
    """
    worst = np.nan_to_num(max_abs, nan=np.inf).max(axis=1)
    n_differing = 0 if probe["state_status"] == StateStatus.ROUNDING else max(int(probe["n_layers_differing"]), 0)
    is_rounding = worst != 0
    is_rounding[np.argsort(-worst, kind="stable")[:n_differing]] = False
    return np.asarray(is_rounding)


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
    ratio, low, high = _change(ratios)
    return {
        "n_pairs": len(pairs),
        "enabled": _timed([pair[0] for pair in pairs], speeds[0]),
        "other": _timed([pair[1] for pair in pairs], speeds[1]),
        "ratio": _spread(ratios),
        "change": {"ratio": number(ratio), "low": number(low), "high": number(high), "confidence": CONFIDENCE},
        "is_effect": bool(low > 1 or high < 1),
    }


def _change(ratios: NDArray[np.float64]) -> tuple[float, float, float]:
    """Geometric mean of the pairs' ratios, and the t interval of it; NaN of fewer than three, which do not tell it."""
    logs = np.log(ratios[np.isfinite(ratios) & (ratios > 0)])
    if not len(logs):
        return math.nan, math.nan, math.nan
    mean = float(np.mean(logs))
    degrees = len(logs) - 1
    if degrees < 2:
        return math.exp(mean), math.nan, math.nan
    width = _T[min(degrees - 2, len(_T) - 1)] * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - width), math.exp(mean + width)


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
