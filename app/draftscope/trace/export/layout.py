"""Which events go on one track, in which order, and with which ends, so that slices nest strictly.

Chrome's and Perfetto's files are both written from this, so they agree slice by slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind, Phase, Records

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_IN_PART = 50_000
"""Records that are laid out at once: 10 MB."""

PROBE = 0
"""Stands for a kind of record where what probes measured lies among the records: ``PROBE_DTYPE``."""

ByKind = Mapping[int, Records]
"""The records of a trace by kind, and under ``PROBE`` the results of its probes, in order of arrival."""

_RANK = {Kind.ROUND: 0, Kind.SPAN: 1, Kind.SAVE: 2, Kind.RESTORE: 2, Kind.OPERATION: 3}
"""Who encloses whom among slices of equal start and end."""


class Part(IntEnum):
    """What kind of event an item becomes; the order of items of equal time."""

    SLICE = 0
    FLOW_START = 1
    FLOW_END = 2
    INSTANT = 3


@dataclass(frozen=True, slots=True)
class TrackLayout:
    """The items of one track, or of a part of it, by time in parallel arrays (I,), and the tokens of its rounds.

    Attributes:
        t_ns: int64, never falling.
        part: int64, ``Part``.
        kind, index: int64: the record, as kind and index among the records of that kind.
        end_ns: int64: end of a slice, clipped to the slice that encloses it; else ``t_ns``.
        flow: int64: number of the arrow that begins or ends here; -1 for other parts.
        token_round, token_index: int64 (T,), ordered by ``token_round``: index of the ROUND and of the TOKEN record.
    """

    t_ns: Ints
    part: Ints
    kind: Ints
    index: Ints
    end_ns: Ints
    flow: Ints
    token_round: Ints
    token_index: Ints

    def __len__(self) -> int:
        return len(self.t_ns)

    def tokens_of(self, rounds: Ints) -> tuple[Ints, Ints]:
        """TOKEN records of ROUND records (R,).

        Returns:
            indices of the tokens, round after round and in order of time within one; how many each round has (R,).
        """
        first = np.searchsorted(self.token_round, rounds)
        counts = np.searchsorted(self.token_round, rounds, "right") - first
        return self.token_index[expanded(first, counts)], counts

    def groups(self, chunk: slice) -> Iterator[tuple[Part, int, Ints]]:
        """Places of a chunk's items, by part and kind: int64 (G,), rising."""
        key = self.part[chunk] << 8 | self.kind[chunk]
        for value in np.unique(key).tolist():
            yield Part(value >> 8), value & 0xFF, np.flatnonzero(key == value) + chunk.start


def expanded(first: Ints, counts: Ints) -> Ints:
    """The numbers first[i], first[i] + 1, ... , ``counts[i]`` of them, for each i in turn: int64 (sum of counts,)."""
    ends = np.cumsum(counts)
    numbers: Ints = np.arange(int(counts.sum())) + np.repeat(first - (ends - counts), counts)
    return numbers


def lay_out(records: ByKind, slot: int, first_flow: int, n_most: int = MOST_IN_PART) -> Iterator[TrackLayout]:
    """Lay out everything about a slot, part after part in order of time, so that memory is for one part at a time.

    Args:
        first_flow: the number of its first arrow from a save to its restore.
        n_most: about how many records a part has; more where slices leave no moment free to cut at.
    """
    mine = {kind: of_kind["slot"] == slot for kind, of_kind in records.items()}
    arrows = _arrows(records, {kind: np.flatnonzero(mine[kind]) for kind in (Kind.SAVE, Kind.RESTORE)}, first_flow)
    edges = [*_cuts(records, mine, n_most), None]
    first = None
    for last in edges:
        yield _lay_out_part(records, mine, arrows, first, last)
        first = last


def _lay_out_part(
    records: ByKind, mine: Mapping[int, Mask], arrows: Sequence[Ints], first_ns: int | None, last_ns: int | None
) -> TrackLayout:
    """What begins in [first_ns, last_ns); None is for ever. ``arrows``: items of their begins and of their ends."""
    chosen = {
        kind: np.flatnonzero(mine[kind] & _between(of_kind["t_start_ns"], first_ns, last_ns))
        for kind, of_kind in records.items()
    }
    token_round, token_index, free_tokens = _tokens_by_round(records, chosen)
    took_time = records[Kind.OPERATION]["duration_ns"][chosen[Kind.OPERATION]] > 0
    moments, chosen[Kind.OPERATION] = chosen[Kind.OPERATION][~took_time], chosen[Kind.OPERATION][took_time]
    groups = [
        _slices(records, chosen),
        *(items[:, _between(items[0], first_ns, last_ns)] for items in arrows),
        _moments(records, Kind.FALLBACK, chosen[Kind.FALLBACK], Part.INSTANT),
        _moments(records, Kind.SLOT, chosen[Kind.SLOT], Part.INSTANT),
        _moments(records, Kind.OPERATION, moments, Part.INSTANT),
        _moments(records, Kind.ROW, chosen[Kind.ROW], Part.INSTANT),
        _moments(records, PROBE, chosen[PROBE], Part.INSTANT),
        _moments(records, Kind.TOKEN, free_tokens, Part.INSTANT),
    ]
    items = np.concatenate(groups, axis=1)
    t_ns, part, kind, index, end_ns, flow = items[:, np.lexsort((items[1], items[0]))]
    return TrackLayout(t_ns, part, kind, index, end_ns, flow, token_round, token_index)


def _between(t_ns: Ints, first_ns: int | None, last_ns: int | None) -> Mask:
    inside = np.ones(len(t_ns), np.bool_)
    if first_ns is not None:
        inside &= t_ns >= first_ns
    if last_ns is not None:
        inside &= t_ns < last_ns
    return inside


def _cuts(records: ByKind, mine: Mapping[int, Mask], n_most: int) -> list[int]:
    """Times, rising, at which no slice of the track is open, so that parts on both sides can be laid out apart."""
    n_parts = -(-sum(int(np.count_nonzero(of_kind)) for of_kind in mine.values()) // n_most)
    leading = Kind.ROUND if mine[Kind.ROUND].any() else Kind.SPAN
    starts = records[leading]["t_start_ns"][mine[leading]]
    if n_parts <= 1 or len(starts) == 0:
        return []
    wanted = {int(starts[len(starts) * number // n_parts]) for number in range(1, n_parts)}
    for kind in _RANK:
        begins, ends = records[kind]["t_start_ns"][mine[kind]], ends_of(records[kind])[mine[kind]]
        wanted = {t_ns for t_ns in wanted if not ((begins < t_ns) & (ends > t_ns)).any()}
    return sorted(wanted)


def ends_of(records: Records) -> Ints:
    """End of each record in ns, int64 (K,); a negative duration counts as none."""
    ends: Ints = records["t_start_ns"] + np.maximum(records["duration_ns"], 0)
    return ends


def _moments(records: ByKind, kind: int, index: Ints, part: Part, flow: Ints | None = None) -> Ints:
    t_ns = records[kind]["t_start_ns"][index]
    same = np.ones_like(index)
    return np.stack([t_ns, part * same, kind * same, index, t_ns, -same if flow is None else flow])


def _slices(records: ByKind, chosen: dict[int, Ints]) -> Ints:
    """Rounds, spans, saves, restores and operations by time, those that enclose first: int64 (6, K)."""
    parts = []
    for kind, rank in _RANK.items():
        index = chosen[kind]
        if kind == Kind.SPAN:
            index = index[~_is_told_by_record(records, chosen)]
        rows = _moments(records, kind, index, Part.SLICE)
        rows[4] = ends_of(records[kind][index])
        parts.append(np.concatenate([rows, np.full((1, len(index)), rank)]))
    rows = np.concatenate(parts, axis=1)
    rows = rows[:6, np.lexsort((rows[6], -rows[4], rows[0]))]
    rows[4] = nested_ends(rows[0], rows[4])
    return rows


def _is_told_by_record(records: ByKind, chosen: dict[int, Ints]) -> NDArray[np.bool_]:
    """Spans (K,) of a save or restore that has a record of its own, which says more."""
    spans = records[Kind.SPAN][chosen[Kind.SPAN]]
    told = np.zeros(len(spans), np.bool_)
    for phase, kind in ((Phase.SAVE, Kind.SAVE), (Phase.RESTORE, Kind.RESTORE)):
        starts = records[kind]["t_start_ns"][chosen[kind]]
        told |= (spans["code"] == phase) & np.isin(spans["t_start_ns"], starts)
    return told


def nested_ends(start: Ints, end: Ints) -> Ints:
    """The ends that make intervals nest: one that begins inside another ends with it at the latest.

    Args:
        start, end: int64 (K,), ordered by start, of equal starts the longer first; end >= start.
    """
    open_ends: list[int] = []
    ends: list[int] = []
    for t_start, t_end in zip(start.tolist(), end.tolist(), strict=True):
        while open_ends and open_ends[-1] <= t_start:
            open_ends.pop()
        clipped = min(t_end, open_ends[-1]) if open_ends else t_end
        open_ends.append(clipped)
        ends.append(clipped)
    return np.array(ends, np.int64)


def _tokens_by_round(records: ByKind, chosen: dict[int, Ints]) -> tuple[Ints, Ints, Ints]:
    """Give each token to the round of its number in whose time it falls.

    Returns:
        the ROUND and the TOKEN indices of those that have a round, ordered by ROUND index; TOKEN indices of the others.
    """
    tokens, rounds = chosen[Kind.TOKEN], chosen[Kind.ROUND]
    tokens = tokens[np.argsort(records[Kind.TOKEN]["t_start_ns"][tokens], kind="stable")]
    if len(rounds) == 0:
        return rounds, rounds, tokens
    rounds = rounds[np.argsort(records[Kind.ROUND]["t_start_ns"][rounds], kind="stable")]
    of_round, of_token = records[Kind.ROUND][rounds], records[Kind.TOKEN][tokens]
    place = np.searchsorted(of_round["t_start_ns"], of_token["t_start_ns"], side="right") - 1
    is_owned = (place >= 0) & (of_token["t_start_ns"] <= ends_of(of_round)[place])
    is_owned &= of_token["round"] == of_round["round"][place]
    owner, owned = rounds[place[is_owned]], tokens[is_owned]
    order = np.argsort(owner, kind="stable")
    return owner[order], owned[order], tokens[~is_owned]


def _arrows(records: ByKind, chosen: Mapping[int, Ints], first_flow: int) -> tuple[Ints, Ints]:
    """Begins and ends of arrows: from each restore's save, the newest before it of its epoch and mechanism."""
    index = np.concatenate([chosen[Kind.SAVE], chosen[Kind.RESTORE]])
    is_restore = np.arange(len(index)) >= len(chosen[Kind.SAVE])
    found = np.concatenate([records[Kind.SAVE][chosen[Kind.SAVE]], records[Kind.RESTORE][chosen[Kind.RESTORE]]])
    key = found["n"].astype(np.int64) * 256 + found["code"]
    order = np.lexsort((is_restore, found["t_start_ns"], key))
    key, index, is_restore = key[order], index[order], is_restore[order]
    newest = np.maximum.accumulate(np.where(is_restore, -1, np.arange(len(index))))
    pairs = np.flatnonzero(is_restore & (newest >= 0))
    pairs = pairs[key[newest[pairs]] == key[pairs]]
    flows = np.arange(first_flow, first_flow + len(pairs))
    begins = _moments(records, Kind.SAVE, index[newest[pairs]], Part.FLOW_START, flows)
    return begins, _moments(records, Kind.RESTORE, index[pairs], Part.FLOW_END, flows)
