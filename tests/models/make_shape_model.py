"""Makes a random model whose recurrent layers have the shapes of a real one: about 20 MB of state a sequence.

    python -m tests.models.make_shape_model --out X.gguf [--architecture qwen35|qwen3next] [--size full|small]

The tiny models of the tests have states of a few kilobytes, which any checkpoint copies in no time. Here 18 delta-net
layers of 16 heads, 128 wide, and their convolutions keep 20.2 MB, as in the smallest published models of these
families. ``full`` has their other widths too, but for a narrower feed-forward part and a tiny vocabulary: 0.4 B
parameters in Q8_0, so that a decode costs what it should beside a copy of the state. ``small`` is as narrow as can be:
the same state, made and run within seconds, for tests of what happens and not of what it costs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import gguf

from tests.models.families import HybridShape, make_hybrid

ARCHITECTURES = ("qwen35", "qwen3next")
_DELTA_HEADS = (16, 16, 128)
_N_LAYER, _INTERVAL = 24, 4
_KERNEL = 4
# Tuned so that greedy acceptance is neither 0 nor 1; a narrow model is disturbed by less.
SHAPES = {
    "full": HybridShape(
        width=1024,
        n_layer=_N_LAYER,
        interval=_INTERVAL,
        heads=(8, 2, 256),
        delta_heads=_DELTA_HEADS,
        inner=2048,
        expert_inner=384,
        n_rot=64,
        sections=(11, 11, 10, 0),
        noise=1.0,
        nextn_noise=0.45,
    ),
    "small": HybridShape(n_layer=_N_LAYER, interval=_INTERVAL, delta_heads=_DELTA_HEADS, noise=0.1, nextn_noise=0.3),
}
"""Name of a size -> its shape."""


def state_bytes(shape: HybridShape) -> int:
    """Bytes of recurrent state that a sequence has: float32, of all delta nets and their convolutions."""
    n_key, n_value, size = shape.delta_heads
    delta_net = n_value * size * size
    convolution = (_KERNEL - 1) * (2 * n_key + n_value) * size
    n_recurrent = shape.n_layer - shape.n_layer // shape.interval
    return 4 * n_recurrent * (delta_net + convolution)


def make(path: Path, architecture: str = "qwen35", size: str = "full") -> Path:
    """Write the model, matrices in Q8_0, and return its path; the folder must exist."""
    return make_hybrid(architecture, SHAPES[size]).write(path, kind=gguf.GGMLQuantizationType.Q8_0)


def main() -> int:
    """Write one model and say how large it and its state are."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m tests.models.make_shape_model", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="X.gguf", help="the file to write")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="qwen35", help="default qwen35")
    parser.add_argument("--size", choices=tuple(SHAPES), default="full", help="what is around the state (default full)")
    options = parser.parse_args()
    started = time.monotonic()
    path = make(options.out, options.architecture, options.size)
    print(
        f"{path}: {path.stat().st_size / 1e6:.1f} MB, {state_bytes(SHAPES[options.size]) / 1e6:.1f} MB of state a "
        f"sequence, made in {time.monotonic() - started:.1f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
