"""Hidden rows, draft distributions and recurrent states of the scripted engine: the same every time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.fake_text import N_VOCAB
from draftscope.engine.probes import ZERO_ROW

N_RECURRENT_LAYERS = 18
"""Of the 24 layers of the scripted models, three of four."""

N_FINGERPRINTS = 24
"""Recent rows of a slot that are told apart."""

_N_LISTED = 6
"""Tokens that are listed beside the likeliest ones."""


class Compared(NamedTuple):
    """How a row differs from the saved one; see ``probes.PROBE_COLUMNS``."""

    n_differing: int
    worst: int
    max_abs: float
    rms: float
    cosine: float


class Distribution(NamedTuple):
    """Logits and probabilities of the listed tokens, float32 (U,)."""

    logits: NDArray[np.float32]
    probabilities: NDArray[np.float32]


def row_of(slot: int, position: int, width: int) -> NDArray[np.float32]:
    """The hidden row of a position of a slot, float32 (width,): of neighbours alike, as those of models are."""
    if position == ZERO_ROW:
        return np.zeros(width, np.float32)
    common = np.random.default_rng((slot, 7)).standard_normal(width, np.float32)
    own = np.random.default_rng((slot, position, 11)).standard_normal(width, np.float32)
    own[position % width] *= 6  # few dimensions of a model's rows are far larger than the others
    return 1.5 * common + own


def fingerprints_of(slot: int, last: int) -> NDArray[np.int64]:
    """Positions up to ``last`` and the digests of their rows, int64 (R, 2)."""
    positions = range(max(0, last + 1 - N_FINGERPRINTS), last + 1)
    rows = [(position, hash((slot, position)) & (2**62 - 1)) for position in positions]
    return np.array(rows, np.int64).reshape(-1, 2)


def compare(saved: NDArray[np.float32], other: NDArray[np.float32]) -> Compared:
    """Compare two rows of one width."""
    difference = np.abs(saved.astype(np.float64) - other)
    n_differing = int(np.count_nonzero(saved != other))
    lengths = float(np.linalg.norm(saved) * np.linalg.norm(other))
    cosine = float(saved.astype(np.float64) @ other) / lengths if lengths else math.nan
    worst = int(difference.argmax()) if n_differing else -1
    return Compared(n_differing, worst, float(difference.max()), float(np.sqrt(np.mean(difference**2))), cosine)


def listed_tokens(seed: tuple[int, ...], tops: tuple[int, ...]) -> NDArray[np.int32]:
    """The likeliest tokens of several distributions and some others, int32 (U,)."""
    others = np.random.default_rng(seed).integers(260, N_VOCAB, 4 * _N_LISTED).tolist()
    return np.array(list(dict.fromkeys((*tops, *others)))[: len(set(tops)) + _N_LISTED], np.int32)


def distribution(row: tuple[int, int], tokens: NDArray[np.int32], top: int, top_p: float) -> Distribution:
    """What a draft step gives from the row of (slot, position), with this likeliest token and its probability."""
    order = np.random.default_rng((row[0], row[1] + 3, 5)).permutation(len(tokens) - 1)
    others = np.minimum((1 - top_p) * 0.35 * 0.6**order, 0.8 * top_p)
    probabilities = np.empty(len(tokens), np.float64)
    probabilities[tokens != top] = others
    probabilities[tokens == top] = top_p
    logits = np.log(probabilities) + 11 + (row[1] % 7) * 0.21
    return Distribution(logits.astype(np.float32), probabilities.astype(np.float32))


def divergence(saved: Distribution, other: Distribution) -> float:
    """KL divergence in nats of the listed tokens, all the rest taken as one."""
    p, q = (np.append(d.probabilities, 1 - d.probabilities.sum(dtype=np.float64)) for d in (saved, other))
    p, q = np.maximum(p, 1e-9), np.maximum(q, 1e-9)
    return max(float(np.sum(p * np.log(p / q))), 0.0)


def layers_after(skipped: int | None, seed: int) -> NDArray[np.float64]:
    """How the recurrent layers differ: float64 (L, 2, 2), parts conv and delta-net, max |d| and rms."""
    layers = np.zeros((N_RECURRENT_LAYERS, 2, 2))
    if skipped is not None:
        largest = np.random.default_rng((seed, 13)).uniform(0.05, 0.9, 2)
        layers[skipped, :, 0] = largest
        layers[skipped, :, 1] = largest / 9
    return layers
