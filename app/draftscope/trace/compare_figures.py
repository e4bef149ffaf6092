"""The figures by which two runs are compared, from the records of each. Names are stable: thresholds name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from draftscope.engine.events import ENGINE_TRACK, Kind, Mechanism, Origin, Phase, Records
from draftscope.trace.compare_blocks import Measure, RunBlocks
from draftscope.trace.fallback_words import mechanism_words
from draftscope.trace.trace import Trace


class Unit(StrEnum):
    """What a figure is counted in."""

    RATE = "tok/s"
    TIME_US = "µs"
    SHARE = "share"
    NUMBER = "number"
    COUNT = "count"
    BYTES = "B"


@dataclass(frozen=True, slots=True)
class Figure:
    """What a figure is. ``better``: 1 when more is better, -1 when less is, 0 when neither is.

    ``group``: the heading that it stands under. ``scatters``: bytes that equal runs need not have equal.
    """

    name: str
    words: str
    group: str
    unit: Unit
    better: int
    definition: str
    scatters: bool = False


_SPEED, _ACCEPTANCE, _TIMES, _BACK, _WORK, _MEMORY = (
    *("Speed", "Acceptance", "Round times", "Going back", "Work", "Memory"),
)

_ROWS = (
    Figure(
        "tokens_per_second",
        "tokens per second, all slots",
        _SPEED,
        Unit.RATE,
        1,
        "tokens of all rounds / time from the start of the first round to the end of the last, less the times in which "
        "no slot had a task",
    ),
    Figure(
        "ttft_us",
        "time to first token",
        _SPEED,
        Unit.TIME_US,
        -1,
        "from the submission of a task to its first token, median over the tasks",
    ),
    Figure("acceptance", "acceptance", _ACCEPTANCE, Unit.SHARE, 1, "accepted / drafted tokens"),
    Figure(
        "mean_accepted_length",
        "mean accepted length",
        _ACCEPTANCE,
        Unit.NUMBER,
        1,
        "1 + accepted / rounds, with the token that the target itself adds in every round",
    ),
    Figure(
        "acceptance_at",
        "acceptance at position",
        _ACCEPTANCE,
        Unit.SHARE,
        1,
        "rounds that accepted at this draft position / rounds that drafted at least as far",
    ),
    Figure("round_us", "a round", _TIMES, Unit.TIME_US, -1, "median time of a round, all slots together"),
    Figure("draft_us", "drafting", _TIMES, Unit.TIME_US, -1, "median time of one MTP decode, of all slots together"),
    Figure(
        "verify_us",
        "verifying",
        _TIMES,
        Unit.TIME_US,
        -1,
        "median time of one verification by the target, of all slots together",
    ),
    Figure(
        "replay_us",
        "replaying",
        _TIMES,
        Unit.TIME_US,
        -1,
        "median time of one decode that replays tokens alone, of all slots together",
    ),
    Figure("save_us", "a save", _BACK, Unit.TIME_US, -1, "median time until a slot's state is kept"),
    Figure("restore_us", "a restore", _BACK, Unit.TIME_US, -1, "median time until a slot stands where it goes on"),
    Figure("n_saves", "saves", _BACK, Unit.COUNT, 0, "saves of all slots"),
    Figure("n_restores", "restores", _BACK, Unit.COUNT, 0, "restores of all slots"),
    Figure("n_fallbacks", "fallbacks", _BACK, Unit.COUNT, -1, "times that another way back had to be taken"),
    Figure("n_tokens", "tokens generated", _WORK, Unit.COUNT, 0, "tokens of all tasks, the first of each included"),
    Figure("n_rounds", "rounds", _WORK, Unit.COUNT, -1, "rounds of the run, whatever slots took part"),
    Figure(
        "target_decodes_per_token",
        "target decodes a token",
        _WORK,
        Unit.NUMBER,
        -1,
        "verifications and replays / tokens of all rounds",
    ),
    Figure(
        "draft_decodes_per_token",
        "MTP decodes a token",
        _WORK,
        Unit.NUMBER,
        -1,
        "decodes of the MTP context in rounds / tokens of all rounds",
    ),
    Figure(
        "graph_runs_per_token",
        "graph runs a token",
        _WORK,
        Unit.NUMBER,
        -1,
        "graphs computed for all decodes of rounds / tokens of all rounds; llama.cpp cuts batches, so one decode can "
        "be several",
    ),
    Figure(
        "memory_bytes",
        "memory, all kinds",
        _MEMORY,
        Unit.BYTES,
        -1,
        "bytes on host and devices that the engine told last, all slots together",
        scatters=True,
    ),
)
_BY_NAME = {row.name: row for row in _ROWS}
_RANK = {row.name: rank for rank, row in enumerate(_ROWS)}

_MEMORY_WORDS = {
    "kv": "keys and values",
    "draft": "MTP context",
    "prompt_checkpoints": "prompt checkpoints",
    "prompt_cache": "prompt cache",
}


def describe(name: str) -> Figure:
    """What a figure is, by its name, also one of a position (``acceptance_at_2``), mechanism or kind of memory.

    Raises:
        KeyError: no figure has this name.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    general, _, detail = name.rpartition("_") if name.startswith("acceptance_at_") else name.rpartition(".")
    row = _BY_NAME[general]
    if general == "acceptance_at":
        words = f"{row.words} {detail}"
    elif general == "memory_bytes":
        words = _MEMORY_WORDS.get(detail, detail.replace("_", " "))
    else:
        words = f"{row.words}, {mechanism_words(detail)}"
    return Figure(name, words, row.group, row.unit, row.better, row.definition, name == "memory_bytes.compute")


def rank(name: str) -> tuple[int, str]:
    """Sorts names into the order of the table."""
    general = name.rpartition("_")[0] if name.startswith("acceptance_at_") else name.partition(".")[0]
    return _RANK[general], name


def measures_of(trace: Trace, n_blocks: int) -> dict[str, Measure]:
    """Every figure that a trace has, by name."""
    blocks = RunBlocks(trace.store, n_blocks)
    found = dict(_rounds(trace, blocks))
    found |= dict(_spans(trace, blocks))
    found |= dict(_back(trace, blocks))
    found |= dict(_memory(trace))
    return {name: measure for name, measure in found.items() if np.isfinite(measure.value)}


def _rounds(trace: Trace, blocks: RunBlocks) -> Iterator[tuple[str, Measure]]:
    records = trace.store.kind(Kind.ROUND)
    drafted, accepted = (blocks.per_round(records, records[column]) for column in ("n", "m"))
    n_slots = blocks.per_round(records)
    tokens = trace.store.kind(Kind.TOKEN)
    if len(blocks.rounds):
        yield "tokens_per_second", blocks.share(blocks.tokens, blocks.period_ns, 1e9)
        yield "round_us", _of_rounds(blocks, records)
        length = blocks.share(accepted, n_slots)
        yield "mean_accepted_length", Measure(1 + length.value, 1 + length.units)
    if drafted.any():
        yield "acceptance", blocks.share(accepted, drafted)
        for position in range(1, int(records["n"].max()) + 1):
            reached = records["n"] >= position
            at = blocks.per_round(records[reached & (records["m"] >= position)])
            yield f"acceptance_at_{position}", blocks.share(at, blocks.per_round(records[reached]))
    yield "n_rounds", Measure(len(blocks.rounds))
    yield "n_tokens", Measure(int(np.count_nonzero(tokens["code"] != Origin.REJECTED)))
    told = (result.get("ttft_ms") for result in in_prompt_order(trace.results))
    times = [ttft_ms * 1e3 for ttft_ms in told if isinstance(ttft_ms, int | float) and ttft_ms > 0]
    if times:
        yield "ttft_us", Measure(float(np.median(times)), np.array(times))


def in_prompt_order(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results of a trace by the number of their prompt, and then by slot, whenever they ended."""

    def key(result: dict[str, Any]) -> tuple[int, int]:
        prompt, slot = result.get("prompt"), result.get("slot")
        return (prompt if isinstance(prompt, int) else 0, slot if isinstance(slot, int) else 0)

    return sorted(results, key=key)


def _of_rounds(blocks: RunBlocks, records: Records) -> Measure:
    """A round lasts as long as that of its slowest slot."""
    longest = np.zeros(len(blocks.rounds))
    np.maximum.at(longest, np.searchsorted(blocks.rounds, records["round"]), records["duration_ns"] / 1e3)
    one_each = records[np.unique(records["round"], return_index=True)[1]]
    return blocks.medians(one_each, longest)


def _spans(trace: Trace, blocks: RunBlocks) -> Iterator[tuple[str, Measure]]:
    spans = trace.store.kind(Kind.SPAN)
    spans = spans[(spans["slot"] == ENGINE_TRACK) & (spans["round"] >= 0)]
    for name, phase in (("draft_us", Phase.DRAFT), ("verify_us", Phase.VERIFY), ("replay_us", Phase.REPLAY)):
        own = spans[spans["code"] == phase]
        yield name, blocks.medians(own, own["duration_ns"] / 1e3)
    target = spans[np.isin(spans["code"], (Phase.VERIFY, Phase.REPLAY))]
    draft = spans[np.isin(spans["code"], (Phase.DRAFT, Phase.CATCH_UP))]
    if len(target):
        yield "target_decodes_per_token", blocks.share(blocks.per_round(target), blocks.tokens)
        runs = blocks.per_round(target, target["m"]) + blocks.per_round(draft, draft["m"])
        yield "graph_runs_per_token", blocks.share(runs, blocks.tokens)
    if len(draft):
        yield "draft_decodes_per_token", blocks.share(blocks.per_round(draft), blocks.tokens)


def _back(trace: Trace, blocks: RunBlocks) -> Iterator[tuple[str, Measure]]:
    for kind, what in ((Kind.SAVE, "save"), (Kind.RESTORE, "restore")):
        events = trace.store.kind(kind)
        yield f"{what}_us", blocks.medians(events, events["duration_ns"] / 1e3)
        for mechanism in Mechanism:
            own = events[events["code"] == mechanism]
            yield f"{what}_us.{mechanism.name.lower()}", blocks.medians(own, own["duration_ns"] / 1e3)
        counts = np.bincount(blocks.blocks_of(events) + 1, minlength=blocks.n + 1)[1:]
        yield f"n_{what}s", Measure(len(events), counts.astype(np.float64))
    yield "n_fallbacks", Measure(len(trace.store.kind(Kind.FALLBACK)))


def memory_of(trace: Trace) -> list[dict[str, Any]]:
    """Bytes by kind as the engine told last; empty where the trace has none."""
    model = trace.header.get("model")
    given = model.get("memory") if isinstance(model, dict) else None
    kinds = [kind for kind in given or [] if isinstance(kind, dict) and isinstance(kind.get("kind"), str)]
    last = {kind: {"host_bytes": host, "device_bytes": device} for _, kind, host, device in trace.memory}
    if not last:
        return kinds
    predicted = {kind["kind"]: kind.get("predicted_bytes") for kind in kinds}
    return [{"kind": kind, "predicted_bytes": predicted.get(kind)} | sizes for kind, sizes in last.items()]


def _memory(trace: Trace) -> Iterator[tuple[str, Measure]]:
    sizes = {
        kind["kind"]: sum(size for place in ("host_bytes", "device_bytes") if isinstance(size := kind.get(place), int))
        for kind in memory_of(trace)
    }
    if sizes:
        yield "memory_bytes", Measure(sum(sizes.values()))
    for kind, size in sizes.items():
        yield f"memory_bytes.{kind}", Measure(size)
