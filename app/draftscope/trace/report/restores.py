"""What probes found at the restores of a run: verdicts, figures with and without the hook, and those that differ."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from draftscope.base import units
from draftscope.engine.probes import LEVELS, Probes, RestoreKind
from draftscope.trace.probe_cost import DEFINITION as COST_DEFINITION
from draftscope.trace.probe_cost import ProbeCost
from draftscope.trace.report.markup import Html, element, facts, joined, table
from draftscope.trace.report.sections import section
from draftscope.trace.restore_text import mode_words, probe_sentences
from draftscope.trace.restores import KIND_WORDS, RestoreTable
from draftscope.trace.rows_in_use import RowsInUse
from draftscope.trace.trace import Trace

_MOST_TOLD = 30
_NOTHING = "–"

_HEAD = ("for", "hidden row", "differs", "max |d|", "likeliest token changes", "accepted")

_EXPLAINED = (
    "What the hook is worth: the row that drafting went on from with it, and the one that would have been there "
    "without it, each beside the row saved. Accepted: tokens of the draft from this row that did follow in the slot, "
    "of those of the draft from the saved row."
)


def restores(trace: Trace) -> Html:
    """Empty where nothing was probed."""
    if len(trace.store.probes) == 0:
        return Html("")
    found = RestoreTable()
    found.update(trace.store)
    counts = [(verdict.name.lower().replace("_", " "), f"{n:,}") for verdict, n in found.n_by_verdict().items()]
    differing = found.select(only_differing=True)
    parts = [
        facts(_facts(trace)),
        table(("verdict", "restores"), counts),
        table(_HEAD, _rows(trace.store.probes), 2),
        element("p", _EXPLAINED, class_="dim"),
    ]
    parts += [_told(found, place) for place in differing[:_MOST_TOLD].tolist()]
    if len(differing) > _MOST_TOLD:
        parts.append(element("p", f"and {len(differing) - _MOST_TOLD:,} more that differ.", class_="dim"))
    return section("Restores that were probed", *parts)


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    """What was measured, what it cost, and which rows drafts went on from."""
    levels = np.bincount(trace.store.probes["level"], minlength=len(LEVELS)).tolist()
    yield "Level", ", ".join(f"{level.value} ({_restores(n)})" for level, n in zip(LEVELS, levels, strict=True) if n)
    cost, rows = ProbeCost(), RowsInUse()
    cost.update(trace.store)
    rows.update(trace.store)
    if math.isfinite(cost.share):
        yield "Cost", f"{units.duration(cost.probed_ns)}, {units.percent(cost.share)} of the time. {COST_DEFINITION}"
    if rows.words:
        yield "Rows in use", rows.words


def _restores(n: int) -> str:
    return "1 restore" if n == 1 else f"{n:,} restores"


def _rows(probes: Probes) -> Iterator[tuple[str, ...]]:
    """Rejected drafts and each sort of restored state, with the hook and without it."""
    for kind in np.unique(probes["kind"]).tolist():
        of_kind = probes[probes["kind"] == kind]
        for which, words in (("restored", "with the hook"), ("without", "without it")):
            yield KIND_WORDS[RestoreKind(kind)], words, *_figures(of_kind, which)


def _figures(probes: Probes, which: str) -> Iterator[str]:
    compared = probes[probes[f"{which}_n_differing"] >= 0]
    n_wrong = int(np.count_nonzero(compared[f"{which}_n_differing"] > 0))
    yield f"{n_wrong:,} of {len(compared):,}"
    yield units.figure(float(compared[f"{which}_max_abs"].max())) if len(compared) else _NOTHING
    tried = probes[probes["n_vocab"] > 0]
    n_top = int(np.count_nonzero(tried[f"{which}_top"] != tried["saved_top"]))
    yield f"{n_top:,} of {len(tried):,}" if len(tried) else _NOTHING
    told = tried[(tried["saved_accepted"] >= 0) & (tried[f"{which}_accepted"] >= 0)]
    accepted, saved = int(told[f"{which}_accepted"].sum()), int(told["saved_accepted"].sum())
    yield f"{accepted:,} of {saved:,}" if len(told) else _NOTHING


def _told(found: RestoreTable, place: int) -> Html:
    row, probe = found.rows[place], found.probe(place)
    where = f"Slot {row['slot']}" + (f", round {row['round']}" if row["round"] >= 0 else "")
    what = f"{where}: {KIND_WORDS[RestoreKind(int(row['kind']))]}, {mode_words(int(row['mechanism']))}"
    sentences = probe_sentences(probe) if probe is not None else ()
    return joined((element("h3", what), element("p", " ".join(sentences))))
