"""The sections of a report, each from the trace alone; one that has nothing to say is empty."""

from __future__ import annotations

import math
from collections.abc import Iterable

from draftscope.base import units
from draftscope.engine.events import ENGINE_TRACK, Kind, Mechanism, Phase
from draftscope.trace.acceptance import DEFINITIONS, AcceptanceTable
from draftscope.trace.answer_words import END_WORDS
from draftscope.trace.checkpoints import DEFINITIONS as CHECKPOINT_DEFINITIONS
from draftscope.trace.checkpoints import CheckpointTable
from draftscope.trace.compare_figures import in_prompt_order, memory_of
from draftscope.trace.fallback_words import MECHANISMS, fallbacks_of
from draftscope.trace.operation_words import reuse_clause
from draftscope.trace.report import pictures
from draftscope.trace.report.markup import Html, element, facts, joined, table
from draftscope.trace.report.run_facts import granted_facts, model_facts, place_facts, prompts_of, settings_facts
from draftscope.trace.trace import Trace

_MOST_FALLBACKS = 50
_MOST_LINES = 80

_SHORT = 40
"""Characters of values of which two stand in a line."""


def section(title: str, *content: str) -> Html:
    """A section, or nothing where there is no content."""
    inner = joined(content)
    return element("section", element("h2", title), inner) if inner else Html("")


def what_ran(trace: Trace) -> Html:
    """Model, what was granted, programs and machine, settings."""
    parts = []
    for title, rows in (
        ("Model", model_facts(trace.header)),
        ("Granted", granted_facts(trace.header)),
        ("Programs and machine", place_facts(trace.header)),
        ("Asked for", settings_facts(trace.header)),
    ):
        if found := list(rows):
            are_short = max(len(value) for _, value in found) <= _SHORT
            parts += [element("h3", title), facts(found, are_short=are_short)]
    return section("What ran where", *parts)


def prompts(trace: Trace) -> Html:
    """The texts that the slots started from."""
    parts = (
        joined((element("h3", name), element("div", text, class_="text"))) for name, text in prompts_of(trace.header)
    )
    return section("Prompts", *parts)


def by_slot(trace: Trace, acceptance: AcceptanceTable) -> Html:
    """The figures of each slot, and of each task where there are results."""
    header = ("", "tokens", "rounds", "drafted", "accepted", "acceptance", "tokens a round", "tok/s")
    rows = [
        (
            name,
            f"{of.n_tokens:,}",
            f"{of.n_rounds:,}",
            f"{of.draft_n:,}",
            f"{of.n_accepted:,}",
            units.percent(of.rate),
            units.figure(of.mean_accepted_length),
            units.figure(of.tokens_per_second),
        )
        for name, of in (
            *((f"slot {slot}", acceptance.slot(slot)) for slot in acceptance.slots()),
            ("all slots", acceptance.total()),
        )
    ]
    return section("Slots", table(header, rows), _tasks(trace)) if acceptance.slots() else Html("")


def _tasks(trace: Trace) -> Html:
    rows = []
    for result in in_prompt_order(trace.results):
        number = {name: result[name] for name in _COUNTS if isinstance(result.get(name), int | float)}
        n_prompt, n_reused = int(number.get("n_prompt", 0)), int(number.get("n_reused", 0))
        stop = str(result.get("stop", ""))
        rows.append(
            (
                f"slot {result.get('slot')}",
                END_WORDS.get(stop, stop),
                str(result.get("error") or "") or reuse_clause(n_reused, str(result.get("reuse", "")), n_prompt),
                f"{n_prompt:,}",
                units.duration(number.get("ttft_ms", math.nan) * 1e6),
                units.duration(number.get("generate_ms", math.nan) * 1e6),
            )
        )
    if not rows:
        return Html("")
    header = ("task in", "end", "", "prompt tokens", "first token", "generating")
    return joined((element("h3", "Tasks"), table(header, rows, n_left=3)))


_COUNTS = ("n_prompt", "n_reused", "ttft_ms", "generate_ms")


def acceptance(found: AcceptanceTable) -> Html:
    """What was accepted: by position and over rounds."""
    total = found.total()
    if total.draft_n == 0:
        return Html("")
    rows = [
        (f"position {i}", f"{drafted:,}", f"{accepted:,}", units.percent(share))
        for i, (drafted, accepted, share) in enumerate(
            zip(total.drafted_at, total.accepted_at, total.per_position, strict=True), 1
        )
    ]
    header = ("all slots", "rounds that drafted so far", "rounds that accepted", "acceptance")
    return section(
        "Acceptance",
        pictures.acceptance_by_position(found),
        table(header, rows),
        pictures.acceptance_over_rounds(found),
    )


def rounds(trace: Trace) -> Html:
    """Where the time went, and how many decodes it took."""
    spans = trace.store.kind(Kind.SPAN)
    shared = spans[(spans["slot"] == ENGINE_TRACK) & (spans["round"] >= 0)]
    if len(trace.store.kind(Kind.ROUND)) == 0 or len(shared) == 0:
        return Html("")
    rows = []
    for phase in Phase:
        own = shared[shared["code"] == phase]
        if len(own):
            length = float(own["duration_ns"].sum())
            cells = (
                f"{len(own):,}",
                f"{int(own['m'].sum()):,}",
                units.duration(length / len(own)),
                units.duration(length),
            )
            rows.append((phase.name.lower().replace("_", " "), *cells))
    header = ("decodes of all slots together", "decodes", "graph runs", "mean", "sum")
    return section(
        "Rounds", pictures.phases_over_rounds(trace.store), table(header, rows), pictures.slowest_round(trace.store)
    )


def checkpoints(trace: Trace) -> Html:
    """Saves and restores: distributions, and what the decodes after a restore pay."""
    found = CheckpointTable()
    found.update(trace.store)
    if not found.groups():
        return Html("")
    rows = []
    for kind, mechanism in sorted({(group.kind, group.mechanism) for group in found.groups()}):
        timing = found.timing(kind, mechanism)
        assert timing is not None  # the group has events
        times = (units.duration(us * 1e3) for us in (timing.median_us, timing.p99_us))
        rows.append((kind.name.lower(), MECHANISMS[mechanism], f"{timing.n:,}", *times))
    parts = [pictures.checkpoint_times(found), table(("", "", "events", "median", "p99"), rows, n_left=2)]
    if (after := found.after_restore()) is not None:
        text = (
            f"The target's decodes of a round after a restore take {units.duration(after.after_us * 1e3)} (median of "
            f"{after.n_after:,} rounds), those of the other rounds {units.duration(after.other_us * 1e3)} "
            f"({after.n_other:,} rounds)."
        )
        parts.append(element("p", text))
    return section("Going back", *parts)


def fallbacks(trace: Trace) -> Html:
    """Every time another way back had to be taken."""
    found = fallbacks_of(trace.store.kind(Kind.FALLBACK))
    items = [element("p", fallback.sentence) for fallback in found[:_MOST_FALLBACKS]]
    if len(found) > _MOST_FALLBACKS:
        items.append(element("p", f"and {len(found) - _MOST_FALLBACKS:,} more.", class_="dim"))
    return section("Fallbacks", *items)


def memory(trace: Trace) -> Html:
    """Bytes by kind, beside what was predicted."""
    rows = []
    for kind in memory_of(trace):
        sizes = [kind.get(name) for name in ("host_bytes", "device_bytes", "predicted_bytes")]
        cells = (units.bytes_text(size) if isinstance(size, int) and size >= 0 else "–" for size in sizes)
        rows.append((kind["kind"].replace("_", " "), *cells))
    header = ("all slots together", "host", "devices", "predicted")
    return section("Memory", table(header, rows)) if rows else Html("")


def log(trace: Trace) -> Html:
    """The last lines of engine and session."""
    lines = [f"{level}: {text}" for _, level, text in trace.log[-_MOST_LINES:]]
    if not lines:
        return Html("")
    more = len(trace.log) - len(lines)
    note = element("p", f"The last {len(lines)} of {len(trace.log):,} lines.", class_="dim") if more else Html("")
    return section("Log", note, element("pre", "\n".join(lines), class_="log"))


def definitions() -> Html:
    """What the figures mean."""
    rows: Iterable[tuple[str, str]] = (DEFINITIONS | CHECKPOINT_DEFINITIONS).items()
    return section("What the figures mean", facts((name.replace("_", " "), text) for name, text in rows))


def used_mechanism(trace: Trace) -> str:
    """The way back that most rounds used, by its name; '' without rounds."""
    codes = trace.store.kind(Kind.ROUND)["code"].tolist()
    return Mechanism(max(set(codes), key=codes.count)).name.lower().replace("_", " ") if codes else ""
