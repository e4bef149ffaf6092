"""The pictures of a report, each of one question, from the records."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from draftscope.base import units
from draftscope.engine.events import ENGINE_TRACK, Kind, Phase, Records
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.checkpoints import CheckpointTable
from draftscope.trace.fallback_words import MECHANISMS
from draftscope.trace.report.chart import BOTTOM, TOP, Chart, figure, legend, time_ticks, whole_ticks
from draftscope.trace.report.markup import Html, element, joined
from draftscope.trace.report.style import phase_colour, slot_colour
from draftscope.trace.store import TraceStore

_MOST_BINS = 160
_MOST_BARS_LABELLED = 32
_WINDOW = 32

_PHASES = (Phase.DRAFT, Phase.CATCH_UP, Phase.SAVE, Phase.REPLAY, Phase.VERIFY, Phase.ACCEPT, Phase.RESTORE)
"""From the bottom up, in the order of a round."""

_SHARED = (Phase.DRAFT, Phase.CATCH_UP, Phase.REPLAY, Phase.VERIFY)
"""Told by the engine's own track; the others by those of the slots, one after the other."""

_TRACK = 26.0


def acceptance_by_position(table: AcceptanceTable) -> Html:
    """Bars by draft position, one a slot."""
    slots = [slot for slot in table.slots() if any(table.slot(slot).drafted_at)]
    n = max(len(table.slot(slot).drafted_at) for slot in slots)
    chart = Chart((0.5, n + 0.5), (0.0, 1.0), 220.0)
    width = 0.8 / len(slots)
    parts = [chart.grid((share, units.percent(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0))]
    for rank, slot in enumerate(slots):
        of_slot = table.slot(slot)
        counts = zip(of_slot.per_position, of_slot.accepted_at, of_slot.drafted_at, strict=True)
        for position, (share, accepted, drafted) in enumerate(counts, 1):
            if math.isnan(share):
                continue
            x = position - 0.4 + rank * width
            title = f"slot {slot}, position {position}: {accepted:,} of {drafted:,} rounds"
            parts.append(chart.bar(x + 0.06 * width, x + 0.94 * width, 0.0, share, slot_colour(slot), title))
            if n * len(slots) <= _MOST_BARS_LABELLED:
                place: dict[str, str | float] = {
                    "x": chart.at_x(x + width / 2),
                    "y": chart.at_y(share) - 4,
                    "text_anchor": "middle",
                }
                parts.append(element("text", units.percent(share), class_="value", **place))
    parts.append(chart.scale((position, f"position {position}") for position in range(1, n + 1)))
    parts.append(legend([(f"slot {slot}", slot_colour(slot)) for slot in slots]))
    caption = "Rounds that accepted a token at this draft position / rounds that drafted at least as far"
    return figure(caption, chart.picture("Acceptance by draft position", *parts))


def acceptance_over_rounds(table: AcceptanceTable) -> Html:
    """A line a slot: accepted / drafted over the last rounds."""
    lines = {slot: table.over_rounds(slot, _WINDOW) for slot in table.slots()}
    last = max(int(rounds[-1]) for rounds, _ in lines.values() if len(rounds))
    chart = Chart((0.0, max(last, 1)), (0.0, 1.0), 200.0)
    parts = [chart.grid((share, units.percent(share)) for share in (0.0, 0.5, 1.0))]
    for slot, (rounds, rates) in lines.items():
        told = np.flatnonzero(np.isfinite(rates))
        chosen = told[:: max(1, len(told) // (2 * _MOST_BINS))]
        points = " ".join(f"{chart.at_x(rounds[i]):.1f},{chart.at_y(float(rates[i])):.1f}" for i in chosen.tolist())
        line: dict[str, str | float] = {
            "points": points,
            "fill": "none",
            "stroke": slot_colour(slot),
            "stroke_width": 1.6,
        }
        parts.append(element("polyline", **line))
    parts.append(chart.scale(whole_ticks(last)))
    parts.append(legend([(f"slot {slot}", slot_colour(slot)) for slot in lines]))
    caption = f"Accepted / drafted tokens over the last {_WINDOW} rounds of a slot, by round"
    return figure(caption, chart.picture("Acceptance over rounds", *parts))


def phases_over_rounds(store: TraceStore) -> Html:
    """Where the time of rounds goes: stacked bars, each the mean of a few rounds."""
    spans = store.kind(Kind.SPAN)
    spans = spans[spans["round"] >= 0]
    n_rounds = int(spans["round"].max()) + 1
    n_bins = min(n_rounds, _MOST_BINS)
    edges = np.linspace(0, n_rounds, n_bins + 1).astype(np.int64)
    times = {phase: _mean_times(spans, phase, edges) for phase in _PHASES}
    high = max(float(np.sum(list(times.values()), axis=0).max()), 1.0)
    chart = Chart((0.0, n_rounds), (0.0, high), 260.0)
    parts = [chart.grid(time_ticks(high))]
    floor = np.zeros(n_bins)
    for phase, row in times.items():
        name = phase.name.lower()
        for i in np.flatnonzero(row).tolist():
            x0, x1 = float(edges[i]), float(edges[i + 1])
            parts.append(chart.bar(x0, x1, floor[i], floor[i] + row[i], phase_colour(name)))
        floor = floor + row
    parts.append(chart.scale(whole_ticks(n_rounds)))
    seen = [phase.name.lower() for phase, row in times.items() if row.any()]
    parts.append(legend([(name.replace("_", " "), phase_colour(name)) for name in seen]))
    mean = "" if n_bins == n_rounds else f"; a bar is the mean of about {n_rounds / n_bins:.0f} rounds"
    caption = f"What the time of each round was spent on{mean}"
    return figure(caption, chart.picture("Time of rounds by phase", *parts))


def _mean_times(spans: Records, phase: Phase, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    own = spans[(spans["code"] == phase) & ((spans["slot"] == ENGINE_TRACK) == (phase in _SHARED))]
    bins = np.searchsorted(edges, own["round"], "right") - 1
    sums = np.bincount(bins, own["duration_ns"].astype(np.float64), minlength=len(edges) - 1)
    return np.asarray(sums / np.diff(edges), np.float64)


def slowest_round(store: TraceStore) -> Html:
    """Every span of the round that took longest, track by track."""
    rounds = store.kind(Kind.ROUND)
    number = int(rounds["round"][int(np.argmax(rounds["duration_ns"]))])
    records = store.round_records(number)
    spans = records[(records["kind"] == Kind.SPAN) & (records["code"] != Phase.IDLE)]
    if len(spans) == 0:
        return Html("")
    start = int(spans["t_start_ns"].min())
    length = max(int((spans["t_start_ns"] + spans["duration_ns"]).max()) - start, 1)
    tracks = sorted(set(spans["slot"].tolist()))
    chart = Chart((0.0, length), (float(len(tracks)), 0.0), TOP + BOTTOM + _TRACK * len(tracks))
    parts = [chart.scale(time_ticks(length, 8), has_lines=True)]
    for rank, track in enumerate(tracks):
        name = "decodes" if track == ENGINE_TRACK else f"slot {track}"
        parts.append(element("text", name, x=62.0, y=chart.at_y(rank + 0.5) + 4, text_anchor="end"))
        for span in spans[spans["slot"] == track]:
            x0, duration = int(span["t_start_ns"]) - start, int(span["duration_ns"])
            phase = Phase(int(span["code"])).name.lower()
            title = f"{phase.replace('_', ' ')}, {name}: {units.duration(duration)}, {int(span['n'])} tokens"
            colour = phase_colour(phase)
            parts.append(chart.bar(x0, x0 + duration, rank + 0.82, rank + 0.18, colour, title))
    seen = dict.fromkeys(Phase(code).name.lower() for code in sorted(set(spans["code"].tolist())))
    parts.append(legend([(name.replace("_", " "), phase_colour(name)) for name in seen]))
    median = float(np.median(rounds["duration_ns"]))
    caption = f"The slowest round, number {number}: {units.duration(length)}; the median is {units.duration(median)}"
    return figure(caption, chart.picture("Spans of the slowest round", *parts))


def checkpoint_times(table: CheckpointTable) -> Html:
    """How long saves and restores took, as distributions on one scale of powers of ten."""
    groups = sorted({(group.kind, group.mechanism) for group in table.groups()})
    rows = [(kind, mechanism, np.maximum(table.durations_us(kind, mechanism), 1e-3)) for kind, mechanism in groups]
    low = math.floor(math.log10(min(row.min() for _, _, row in rows)))
    high = max(math.ceil(math.log10(max(row.max() for _, _, row in rows))), low + 1)
    chart = Chart((low, high), (float(len(rows)), 0.0), TOP + BOTTOM + 64.0 * len(rows))
    powers = ((float(power), units.duration(10.0**power * 1e3)) for power in range(low, high + 1))
    parts = [chart.scale(powers, has_lines=True)]
    edges = np.linspace(low, high, 40 * (high - low) + 1)
    for rank, (kind, mechanism, durations) in enumerate(rows):
        counts, _ = np.histogram(np.log10(durations), edges)
        tallest = max(int(counts.max()), 1)
        phase = "save" if kind == Kind.SAVE else "restore"
        for i in np.flatnonzero(counts).tolist():
            height = 0.62 * counts[i] / tallest
            parts.append(chart.bar(edges[i], edges[i + 1], rank + 0.95, rank + 0.95 - height, phase_colour(phase)))
        median = float(np.median(durations))
        x = chart.at_x(math.log10(median))
        ends = {"y1": chart.at_y(rank + 0.28), "y2": chart.at_y(rank + 0.95)}
        parts.append(element("line", x1=x, x2=x, class_="median", **ends))
        words = f"{phase}, {MECHANISMS[mechanism]}: {len(durations):,}, median {units.duration(median * 1e3)}"
        parts.append(element("text", words, x=78.0, y=chart.at_y(rank + 0.2)))
    caption = "How long saves and restores of one slot took; the line is the median"
    return figure(caption, chart.picture("Times of saves and restores", joined(parts)))
