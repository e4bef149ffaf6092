"""Probed runs: the harness with a level and a fault, and what its probes measured in a store."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from draftscope.engine.events import Kind, Records
from draftscope.engine.probes import Fault, ProbeLevel, Probes, RestoreKind
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, Replay, SlotResult, SlotTask
from draftscope.trace.restore_verdict import Verdict, verdicts_of
from draftscope.trace.store import TraceStore
from tests.engine_ext.harness import GREEDY, Bench, PromptLike

PARTS_OF_A_TOKEN = ("slot", "code", "position", "token", "n", "value")


def settings_for(mode: CheckpointMode = CheckpointMode.ROLLBACK, **changes: object) -> ContextSettings:
    """Contexts whose course depends on no time: replays ride."""
    common = ContextSettings(n_slots=2, n_ctx=512, checkpoint=mode, n_threads=1, replay=Replay.RIDE)
    return dataclasses.replace(common, **changes)  # type: ignore[arg-type]


class ProbedBench(Bench):
    """A bench that keeps records and what probes measured in a store."""

    def __init__(self) -> None:
        super().__init__()
        self.store = TraceStore()

    def collect(self) -> None:
        """What came since the last call."""
        self.store.append(self.ring.read())
        self.store.append_arrays(self.arrays.read())
        assert self.arrays.n_dropped == 0

    def finish(self) -> list[SlotResult]:
        """See ``Bench``; rings are emptied all the time, so that nothing is lost."""
        while self.backend.step():
            self.collect()
        self.collect()
        assert self.backend._engine.find_broken() == ""
        return sorted(self.backend.take_results(), key=lambda result: result.slot)

    def generate(self, prompts: Sequence[PromptLike], max_tokens: int, *, reuse: bool = True) -> list[SlotResult]:
        """One prompt a slot, all at once, to the end."""
        for slot, prompt in enumerate(prompts):
            self.submit(SlotTask(slot, Prompt(), GREEDY, max_tokens, ignore_eos=True, reuse=reuse), prompt)
        return self.finish()

    def of_kind(self, kind: RestoreKind) -> Probes:
        """What was measured of restores of a kind."""
        return self.store.probes[self.store.probes["kind"] == kind]


@dataclasses.dataclass(frozen=True)
class Probed:
    """What a probed run gave."""

    granted: str
    results: list[SlotResult]
    store: TraceStore

    @property
    def tokens(self) -> list[tuple[int, ...]]:
        """Generated tokens by slot."""
        return [result.tokens for result in self.results]

    @property
    def drafts(self) -> list[tuple[float, ...]]:
        """Every token record: drafted, accepted or rejected ones and their probabilities."""
        return [tuple(row[name].item() for name in PARTS_OF_A_TOKEN) for row in self.store.kind(Kind.TOKEN)]

    @property
    def rows(self) -> Records:
        """From which row each draft went on."""
        return self.store.kind(Kind.ROW)


def run_probed(
    path: Path,
    prompts: Sequence[PromptLike],
    settings: ContextSettings,
    level: ProbeLevel,
    fault: Fault = Fault.NONE,
    max_tokens: int = 60,
    **model: object,
) -> Probed:
    """One prompt a slot, all at once, to the end."""
    bench = ProbedBench()
    report = bench.load(path, dataclasses.replace(settings, n_slots=len(prompts)), **model)
    bench.backend.set_probe(level, ())
    bench.backend.inject_fault(fault, (), -1)
    results = bench.generate(prompts, max_tokens)
    bench.backend.unload()
    return Probed(report.way_back.granted, results, bench.store)


def differing(probes: Probes) -> list[Verdict]:
    """The verdicts on those that differ."""
    return [Verdict(verdict) for verdict in verdicts_of(probes) if verdict >= Verdict.ROW_ZERO]


def assert_equal(probes: Probes) -> None:
    """All were compared, and nothing differs; after a native rollback within what decoding anew rounds."""
    assert len(probes) > 0
    assert set(np.unique(verdicts_of(probes)).tolist()) <= {Verdict.EQUAL, Verdict.ROUNDING}
