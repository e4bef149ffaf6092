"""Our engine as the program runs it: a worker process, whose records this process reads while it works."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from draftscope.cli.generation import Generation
from draftscope.engine.client import make_client
from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import (
    ContextSettings,
    LogLine,
    ModelReport,
    ModelSettings,
    Prompt,
    RunReport,
    SamplingSettings,
    SlotResult,
    SlotTask,
)
from tests.peers.samples import Sample, SlotTimes


class _Onlooker:
    """Takes everything that comes beside the results and keeps nothing."""

    def on_progress(self, fraction: float, stage: str) -> None:
        """See ``Sink``."""

    def on_pieces(self, pieces: dict[int, bytes]) -> None:
        """See ``Sink``."""

    def on_records(self, records: Records) -> None:
        """See ``Sink``."""

    def on_arrays(self, arrays: list[SideArray]) -> None:
        """See ``Sink``."""

    def on_result(self, prompt: int, result: SlotResult) -> None:
        """See ``Sink``."""

    def on_log(self, line: LogLine) -> None:
        """See ``Sink``."""


class OwnEngine:
    """A worker process with a loaded model; ``report`` says what was granted."""

    def __init__(self, generation: Generation, report: ModelReport, sampling: SamplingSettings, n_tokens: int) -> None:
        self.report = report
        self._generation = generation
        self._sampling = sampling
        self._n_tokens = n_tokens

    def run(self, prompts: Sequence[Sequence[int]]) -> Sample:
        """One prompt a slot, all at once, to the end."""
        tasks = [
            (slot, SlotTask(slot, Prompt(tokens=tuple(prompt)), self._sampling, self._n_tokens, ignore_eos=True))
            for slot, prompt in enumerate(prompts)
        ]
        started = time.perf_counter()
        outcome = self._generation.run(tasks)
        wall_ms = (time.perf_counter() - started) * 1e3
        results = sorted((result for _, result in outcome.results), key=lambda result: result.slot)
        return sample_of(results, outcome.reports[0], wall_ms)


@contextlib.contextmanager
def engine(
    model: ModelSettings, context: ContextSettings, sampling: SamplingSettings, n_tokens: int
) -> Iterator[OwnEngine]:
    """Our engine with a model, ended at the end.

    Raises:
        EngineError: the load was refused.
    """
    with contextlib.closing(make_client("native")) as client:
        generation = Generation(client, _Onlooker())
        yield OwnEngine(generation, generation.load(model, context), sampling, n_tokens)


def sample_of(results: Sequence[SlotResult], report: RunReport, wall_ms: float) -> Sample:
    """A sample from the results and the report of one Submit."""
    slots = tuple(
        SlotTimes(result.tokens, result.ttft_ms, result.generate_ms, result.draft_n, result.draft_n_accepted)
        for result in results
    )
    decodes = report.decodes
    return Sample(
        slots, wall_ms, n_rounds=decodes.rounds, n_target=decodes.target, n_draft=decodes.draft + decodes.catch_up
    )
