"""What probing restores costs: the same run at each level, in turn with one at level off.

Three figures a level, of the processor time of the engine's thread: against the run at level off of the same repeat,
since a machine's speed shifts slowly; of the best run against the best at level off, which other programs disturb
least; and of a run at that level, the share that its records say went into probes. The order of the levels begins one
further on in every repeat. The demo model is the hardest case for what a level costs a row: its decodes take a
millisecond.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from draftscope.base.paths import demo_model
from draftscope.engine.probes import LEVELS, ProbeLevel
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, Replay, SlotTask
from draftscope.trace.probe_cost import ProbeCost
from draftscope.trace.store import TraceStore
from tests.engine_ext.harness import GREEDY, Bench, PromptLike
from tests.models.make_shape_model import make
from tests.perf.figures import Figure

_MOST_HIDDEN = 1.0
"""Percent of the time that level hidden may cost."""

_N_SLOTS = 4
_N_RUNS = 4
"""Runs of the demo a repeat; those of the large model take as long as all of them."""

_N_TOKENS = {"demo": 150, "shape": 16}
_MODES = (CheckpointMode.ROLLBACK, CheckpointMode.HOST)
_TEXT = "class Stack:\n    def"


@dataclass(frozen=True)
class _Run:
    """``seconds``: of processor time; ``share``: of the time, by the records of probes."""

    seconds: float
    tokens_per_second: float
    share: float


class _Probed:
    """An engine with a model in one mode."""

    def __init__(self, path: Path, mode: CheckpointMode, n_tokens: int) -> None:
        self._bench, self._n_tokens = Bench(), n_tokens
        # Replays by measured cost would make another course of every run.
        settings = ContextSettings(n_slots=_N_SLOTS, n_ctx=1024, n_threads=1, checkpoint=mode, replay=Replay.ALONE)
        self._bench.load(path, settings)
        self._prompt: PromptLike = _TEXT if path == demo_model() else tuple(range(5, 25))

    def run(self, level: ProbeLevel) -> _Run:
        """All slots once, with nothing kept from before."""
        self._bench.backend.set_probe(level, ())
        for slot in range(_N_SLOTS):
            task = SlotTask(slot, Prompt(), GREEDY, self._n_tokens, ignore_eos=True, reuse=False)
            self._bench.submit(task, self._prompt)
        store, started, wall = TraceStore(), time.process_time(), time.monotonic()
        while self._bench.backend.step():
            pass
        seconds, wall_s = time.process_time() - started, time.monotonic() - wall
        self._bench.backend.take_results()
        store.append(self._bench.ring.read())
        store.append_arrays(self._bench.arrays.read())
        cost = ProbeCost()
        cost.update(store)
        return _Run(seconds, _N_SLOTS * self._n_tokens / wall_s, cost.share)

    def close(self) -> None:
        """Free the model."""
        self._bench.backend.unload()


def _compared(name: str, probed: _Probed, levels: tuple[ProbeLevel, ...], repeats: int) -> Iterator[Figure]:
    """The figures of each level, in percent."""
    runs: dict[ProbeLevel, list[_Run]] = defaultdict(list)
    for repeat in range(repeats + 1):
        at = repeat % len(levels)
        for level in (*levels[at:], *levels[:at]):
            run = probed.run(level)
            if repeat > 0:  # the first warms up
                runs[level].append(run)
    off = runs[ProbeLevel.OFF]
    for level in levels[1:]:
        limit, what = _MOST_HIDDEN if level is ProbeLevel.HIDDEN else None, f"probes {level.value}, {name}"
        own = runs[level]
        pairs = tuple((run.seconds / other.seconds - 1) * 100 for run, other in zip(own, off, strict=True))
        best = (min(run.seconds for run in own) / min(run.seconds for run in off) - 1) * 100
        lost = tuple((1 - r.tokens_per_second / o.tokens_per_second) * 100 for r, o in zip(own, off, strict=True))
        shares = tuple(run.share * 100 for run in own)
        definition = "processor time at this level / at level off, less one: of the same repeat"
        yield Figure(f"{what}: extra time of pairs", "%", pairs, False, definition)
        yield Figure(f"{what}: of the best runs", "%", (best,), False, f"{definition}; of the least of each", limit)
        yield Figure(f"{what}: lost tokens per second", "%", lost, False, "one less their ratio, of the same repeat")
        yield Figure(f"{what}: share by its records", "%", shares, False, "time in probes / time at work", limit)


def measure(repeats: int) -> list[Figure]:
    """The demo in two ways back at every level, then level hidden on a model with the shape of a real one."""
    figures: list[Figure] = []
    for mode in _MODES:
        probed = _Probed(demo_model(), mode, _N_TOKENS["demo"])
        figures += _compared(f"demo, {mode.value}", probed, LEVELS, _N_RUNS * repeats)
        probed.close()
    with tempfile.TemporaryDirectory() as folder:
        probed = _Probed(make(Path(folder) / "shape.gguf"), CheckpointMode.ROLLBACK, _N_TOKENS["shape"])
        figures += _compared("0.4 B, rollback", probed, (ProbeLevel.OFF, ProbeLevel.HIDDEN), repeats)
        probed.close()
    return figures
