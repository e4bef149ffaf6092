"""Places labels beside each other without overlap. No Qt."""

from __future__ import annotations

from collections.abc import Sequence


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions as near to ``wanted`` as can be, at least ``gap`` apart and within [low, high], in the order given.

    Neighbours that collide are moved apart about their mean, as one block. When not all fit, they are spread evenly
    over the whole range and are then closer than ``gap``.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    if len(order) > 1 and gap * (len(order) - 1) > high - low:
        step = (high - low) / (len(order) - 1)
        return _in_given_order(order, [low + step * rank for rank in range(len(order))])
    blocks: list[tuple[float, int]] = []
    for index in order:
        blocks.append((min(max(wanted[index], low), high), 1))
        while len(blocks) > 1 and _end(blocks[-2], gap) + gap > _start(blocks[-1], gap):
            blocks[-2:] = [_join(blocks[-2], blocks[-1], gap, low, high)]
    places = [_start(block, gap) + gap * rank for block in blocks for rank in range(block[1])]
    return _in_given_order(order, places)


def _join(
    first: tuple[float, int], second: tuple[float, int], gap: float, low: float, high: float
) -> tuple[float, int]:
    count = first[1] + second[1]
    middle = (first[0] * first[1] + second[0] * second[1]) / count
    half = gap * (count - 1) / 2
    return min(max(middle, low + half), high - half), count


def _start(block: tuple[float, int], gap: float) -> float:
    return block[0] - gap * (block[1] - 1) / 2


def _end(block: tuple[float, int], gap: float) -> float:
    return block[0] + gap * (block[1] - 1) / 2


def _in_given_order(order: list[int], places: list[float]) -> list[float]:
    result = [0.0] * len(order)
    for place, index in zip(places, order, strict=True):
        result[index] = place
    return result
