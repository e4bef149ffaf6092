"""Runs the native backend in this process on real tiny models and returns what it did, records included."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from draftscope.engine.backend import CheckpointCounts
from draftscope.engine.events import Kind, Records
from draftscope.engine.native import NativeBackend
from draftscope.engine.protocol import (
    CheckpointMode,
    ContextSettings,
    DecodeCounts,
    ModelReport,
    ModelSettings,
    Prompt,
    SamplingSettings,
    SlotResult,
    SlotTask,
)
from draftscope.engine.trace_memory import TraceMemory, trace_memory_bytes

GREEDY = SamplingSettings(temperature=0.0)
TEXTS = (
    "def main():\n    ",
    "import os\n\nclass Reader:\n    def __init__(self, path):\n",
    "In the beginning God created",
    "for i in range(10):\n",
)

PromptLike = str | tuple[int, ...]


def token_prompts(n: int) -> list[PromptLike]:
    """Prompts of different lengths for models without a tokenizer, all within a vocabulary of 200 tokens."""
    return [tuple((step * 37 + slot * 11) % 190 + 5 for step in range(7 + 3 * slot)) for slot in range(n)]


@dataclasses.dataclass(frozen=True)
class Run:
    """Everything that one run produced, results in the order of the slots."""

    report: ModelReport
    results: list[SlotResult]
    counts: DecodeCounts
    checkpoints: CheckpointCounts
    records: Records

    @property
    def tokens(self) -> list[tuple[int, ...]]:
        """Generated tokens by slot."""
        return [result.tokens for result in self.results]

    def drafts(self, slot: int) -> list[tuple[int, int, int]]:
        """(position, draft position, token) of every drafted token of a slot, accepted or not, in order."""
        rows = self.records[
            (self.records["kind"] == Kind.TOKEN) & (self.records["slot"] == slot) & (self.records["n"] > 0)
        ]
        return [(int(row["position"]), int(row["n"]), int(row["token"])) for row in rows]

    def probabilities(self, slot: int) -> list[float]:
        """Probability of every token of a slot, drafted and rejected ones included, in order."""
        rows = self.records[(self.records["kind"] == Kind.TOKEN) & (self.records["slot"] == slot)]
        return [float(row["value"]) for row in rows]


class Bench:
    """A native backend with its ring."""

    def __init__(self, capacity: int = 1 << 16) -> None:
        self.memory = bytearray(trace_memory_bytes(capacity))
        rings = TraceMemory(memoryview(self.memory), capacity)
        self.ring, self.arrays = rings.ring, rings.arrays
        self.backend = NativeBackend(memoryview(self.memory))

    def load(self, path: Path, settings: ContextSettings, **model: object) -> ModelReport:
        """Load without watching progress; ``model`` are fields of ``ModelSettings``."""
        chosen = ModelSettings(str(path), **model)  # type: ignore[arg-type]
        return self.backend.load(chosen, settings, lambda _fraction, _stage: True)

    def submit(self, task: SlotTask, prompt: PromptLike) -> None:
        """Queue a task; text is tokenized as the worker does."""
        tokens = (
            self.backend.tokenize(prompt, parse_special=True, add_special=True) if isinstance(prompt, str) else prompt
        )
        self.backend.submit(task, tokens)

    def finish(self) -> list[SlotResult]:
        """Step until nothing is left to do."""
        while self.backend.step():
            pass
        return sorted(self.backend.take_results(), key=lambda result: result.slot)


@contextmanager
def open_bench(path: Path, settings: ContextSettings) -> Iterator[Bench]:
    """A bench with a loaded model, unloaded at the end."""
    bench = Bench()
    bench.load(path, settings)
    yield bench
    bench.backend.unload()


def run(
    path: Path,
    prompts: Sequence[PromptLike],
    settings: ContextSettings | None = None,
    *,
    sampling: SamplingSettings = GREEDY,
    max_tokens: int = 64,
    stop: tuple[str, ...] = (),
    ignore_eos: bool = True,
    grammar: str = "",
    **model: object,
) -> Run:
    """One prompt a slot, all at once, to the end; greedy and past the end of generation unless told otherwise.

    ``model``: fields of ``ModelSettings``.
    """
    bench = Bench()
    settings = settings or ContextSettings(checkpoint=CheckpointMode.ROLLBACK, n_threads=1)  # auto may differ by load
    settings = dataclasses.replace(settings, n_slots=len(prompts))
    report = bench.load(path, settings, **model)
    for slot, prompt in enumerate(prompts):
        bench.submit(SlotTask(slot, Prompt(), sampling, max_tokens, stop, ignore_eos, grammar=grammar), prompt)
    results = bench.finish()
    outcome = Run(report, results, bench.backend.decode_counts(), bench.backend.checkpoint_counts(), bench.ring.read())
    bench.backend.unload()
    return outcome
