"""Turns the spans of a lane into pixels: few spans cost one pass, many a search a pixel; only what is seen is drawn.

A pixel takes the phase that spent most of its time, with the share of the pixel that was spent at all. Spans narrower
than a pixel thus merge by what they cost, and a lone one never vanishes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Records
from draftscope.trace.span_times import N_PHASES, LaneTimes

NOTHING = -1
"""In ``phase_row``: no span touches this pixel."""


def phase_row(spans: Records, t0_ns: int, t1_ns: int, n_pixels: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The phase of each pixel and its cover.

    Args:
        spans: SPAN records of one lane, in any order; those outside [t0_ns, t1_ns) are ignored.
        t0_ns, t1_ns: time at the left edge of the first and the right edge of the last pixel, t1_ns > t0_ns.

    Returns:
        ``phase`` int8 (n_pixels,), ``NOTHING`` where no span is; ``cover`` float32 (n_pixels,) in [0, 1], the share of
        the pixel's time that spans take.
    """
    return _row_of(_time_in(spans, t0_ns, t1_ns, n_pixels))


def phase_row_of_many(
    times: LaneTimes, t0_ns: int, t1_ns: int, n_pixels: int
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The same from sums of times, for windows of so many spans that a pixel is long: its edges are whole ns here."""
    edges = t0_ns + np.round(np.arange(n_pixels + 1) * ((t1_ns - t0_ns) / n_pixels)).astype(np.int64)
    return _row_of(times.between(edges) * (n_pixels / (t1_ns - t0_ns)))


def _row_of(time_in: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    total = time_in.sum(axis=0)
    phase = np.where(total > 0, time_in.argmax(axis=0), NOTHING).astype(np.int8)
    return phase, np.minimum(total, 1.0).astype(np.float32)


def wide_starts(spans: Records, t0_ns: int, t1_ns: int, n_pixels: int, least: int) -> NDArray[np.int64]:
    """Pixels where spans of at least ``least`` pixels begin: where neighbours of one phase need a line between them."""
    scale = n_pixels / (t1_ns - t0_ns)
    wide = spans[spans["duration_ns"] * scale >= least]
    starts = np.floor((wide["t_start_ns"] - t0_ns) * scale).astype(np.int64)
    return starts[(starts >= 0) & (starts < n_pixels)]


def _time_in(spans: Records, t0_ns: int, t1_ns: int, n_pixels: int) -> NDArray[np.float64]:
    """Pixels of time by phase and pixel, float64 (N_PHASES, n_pixels)."""
    scale = n_pixels / (t1_ns - t0_ns)
    start = np.clip((spans["t_start_ns"] - t0_ns) * scale, 0.0, n_pixels)
    end = np.clip((spans["t_start_ns"] + spans["duration_ns"] - t0_ns) * scale, 0.0, n_pixels)
    is_seen = end > start
    start, end, code = start[is_seen], end[is_seen], spans["code"][is_seen].astype(np.int64)
    first = np.minimum(start.astype(np.int64), n_pixels - 1)
    last = np.minimum(end.astype(np.int64), n_pixels - 1)
    # The full pixels between first and last are added as steps and summed up; both ends are added as parts.
    width = n_pixels + 1
    steps = np.bincount(code * width + first, minlength=N_PHASES * width).astype(np.float64)
    steps -= np.bincount(code * width + last, minlength=N_PHASES * width)
    full = np.cumsum(steps.reshape(N_PHASES, width), axis=1)[:, :n_pixels]
    parts = np.bincount(code * n_pixels + first, weights=-(start - first), minlength=N_PHASES * n_pixels)
    parts += np.bincount(code * n_pixels + last, weights=end - last, minlength=N_PHASES * n_pixels)
    return np.maximum(full + parts.reshape(N_PHASES, n_pixels), 0.0)
