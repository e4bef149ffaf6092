"""What probes found at the restores of a run: how many had which verdict, and those that differ, in sentences."""

from __future__ import annotations

from draftscope.engine.probes import RestoreKind
from draftscope.trace.report.markup import Html, element, joined, table
from draftscope.trace.report.sections import section
from draftscope.trace.restore_text import mode_words, probe_sentences
from draftscope.trace.restores import KIND_WORDS, RestoreTable
from draftscope.trace.trace import Trace

_MOST_TOLD = 30


def restores(trace: Trace) -> Html:
    """Empty where nothing was probed."""
    if len(trace.store.probes) == 0:
        return Html("")
    found = RestoreTable()
    found.update(trace.store)
    counts = [(verdict.name.lower().replace("_", " "), f"{n:,}") for verdict, n in found.n_by_verdict().items()]
    differing = found.select(only_differing=True)
    parts = [table(("verdict", "restores"), counts)]
    parts += [_told(found, place) for place in differing[:_MOST_TOLD].tolist()]
    if len(differing) > _MOST_TOLD:
        parts.append(element("p", f"and {len(differing) - _MOST_TOLD:,} more that differ.", class_="dim"))
    return section("Restores that were probed", *parts)


def _told(found: RestoreTable, place: int) -> Html:
    row, probe = found.rows[place], found.probe(place)
    where = f"Slot {row['slot']}" + (f", round {row['round']}" if row["round"] >= 0 else "")
    what = f"{where}: {KIND_WORDS[RestoreKind(int(row['kind']))]}, {mode_words(int(row['mechanism']))}"
    sentences = probe_sentences(probe) if probe is not None else ()
    return joined((element("h3", what), element("p", " ".join(sentences))))
