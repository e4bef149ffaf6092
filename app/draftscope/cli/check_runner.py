"""Drives a check: the workload without MTP, then in every way back probed, and timed with and without a fault."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from draftscope.cli.bench_sample import Outcomes, Sample, sample_of
from draftscope.cli.check_plan import CheckPlan
from draftscope.cli.check_workload import Form, Talk, form_of
from draftscope.cli.edit_workload import bundled_conversations
from draftscope.cli.generation import Generation, Outcome
from draftscope.engine.client import Client
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Records, empty_records
from draftscope.engine.probes import ArrayKind, Fault, ProbeLevel, SideArray
from draftscope.engine.protocol import (
    CheckpointMode,
    InjectFault,
    LogLine,
    ModelReport,
    SamplingSettings,
    SetProbe,
    SlotResult,
    SlotTask,
)
from draftscope.trace.round_numbers import RoundNumbers
from draftscope.trace.store import TraceStore

_REFUSALS = (ErrorCode.BAD_SETTINGS, ErrorCode.OUT_OF_MEMORY, ErrorCode.UNSUPPORTED_MODEL)
_GREEDY = SamplingSettings(temperature=0.0)

Tell = Callable[[str], None]
"""Told what begins now, in a few words."""


class Gathering:
    """A sink of ``Generation`` that keeps records until they are taken, and puts what probes measure into a store."""

    def __init__(self) -> None:
        self.store = TraceStore()
        self._round_numbers = RoundNumbers()
        self._records: list[Records] = []

    def begin(self) -> TraceStore:
        """Another store for what comes from now on."""
        self._records.clear()
        self.store, self._round_numbers = TraceStore(), RoundNumbers()
        return self.store

    def take(self) -> Records:
        """The records since the last call, at least an empty array."""
        kept, self._records = self._records, []
        return np.concatenate(kept) if kept else empty_records()

    def on_progress(self, fraction: float, stage: str) -> None:
        """See ``Sink``."""

    def on_pieces(self, pieces: dict[int, bytes]) -> None:
        """See ``Sink``."""

    def on_records(self, records: Records) -> None:
        """See ``Sink``."""
        self._round_numbers.continue_in(records)
        self._records.append(records)
        self.store.append(records)

    def on_arrays(self, arrays: list[SideArray]) -> None:
        """See ``Sink``. Of side arrays only those of layers are looked at later."""
        for array in arrays:
            if array.kind is ArrayKind.RESULT:
                self._round_numbers.continue_in_probes(array.values)
        self.store.append_arrays([a for a in arrays if a.kind in (ArrayKind.RESULT, ArrayKind.LAYERS)])

    def on_result(self, prompt: int, result: SlotResult) -> None:
        """See ``Sink``."""

    def on_log(self, line: LogLine) -> None:
        """See ``Sink``."""


@dataclass(slots=True)
class CheckedWay:
    """A way back: how it was granted, or why not; the probed run; pairs of timed runs without and with the fault."""

    mode: CheckpointMode
    report: ModelReport | None = None
    why_not: str = ""
    store: TraceStore = field(default_factory=TraceStore)
    outcomes: Outcomes = ()
    n_dropped: int = 0
    timed: list[tuple[Sample, Sample]] = field(default_factory=list)
    error: str = ""

    @property
    def label(self) -> str:
        """The way back in use, for a person."""
        way = self.mode.value if self.report is None else self.report.way_back.granted.replace("_", " ")
        return "without drafts" if self.report and not self.report.speculation.is_active else way

    @property
    def is_checked(self) -> bool:
        """Whether there was a probed run."""
        return bool(self.outcomes)


@dataclass(slots=True)
class CheckResult:
    """Everything that was measured. ``reference``: what was written without MTP."""

    plan: CheckPlan
    model: ModelReport
    form: Form
    talks: list[Talk]
    reference: Outcomes = ()
    ways: list[CheckedWay] = field(default_factory=list)
    is_interrupted: bool = False
    failure: EngineError | None = None
    elapsed_s: float = 0.0


class Check:
    """One check on a client."""

    def __init__(self, plan: CheckPlan, client: Client, tell: Tell) -> None:
        self._plan, self._client, self._tell = plan, client, tell
        self._gathering = Gathering()
        self._generation = Generation(client, self._gathering)
        self._talks: list[Talk] = []

    def run(self) -> CheckResult:
        """Load and check. After a Ctrl-C, or when the engine fails: what there is until then.

        Raises:
            EngineError: it failed before any way back was checked.
        """
        started = time.monotonic()
        with self._generation.interruptible():
            model = self._generation.load(self._plan.model, replace(self._plan.common, use_mtp=False))
            form = form_of(model)
            self._talks = [Talk(conversation, form, model.n_vocab) for conversation in bundled_conversations()]
            result = CheckResult(self._plan, model, form, self._talks)
            try:
                self._check(result)
            except EngineError as error:
                if not any(way.is_checked for way in result.ways):
                    raise
                result.failure = error
        result.is_interrupted = self._generation.is_interrupted
        result.elapsed_s = time.monotonic() - started
        return result

    def _check(self, result: CheckResult) -> None:
        self._tell("without MTP")
        result.reference = self._workload(result.model.n_slots, is_first=True)
        for mode in self._plan.modes:
            if self._generation.is_interrupted:
                return
            way = CheckedWay(mode)
            result.ways.append(way)
            self._configure(way, result.ways[:-1])
            if not way.why_not:
                self._probed_run(way)
                self._timed_runs(way)

    def _configure(self, way: CheckedWay, before: list[CheckedWay]) -> None:
        try:
            report = self._generation.configure(replace(self._plan.common, checkpoint=way.mode))
        except EngineError as error:
            if error.code not in _REFUSALS:
                raise
            way.why_not = f"{error.message} {error.hint}".strip()
            return
        granted, is_active = report.way_back.granted, report.speculation.is_active
        same = [other for other in before if other.report and other.report.way_back.granted == granted]
        if same:
            reason = report.way_back.why if is_active else report.speculation.reason
            way.why_not = f"{reason} That is checked already."
        elif is_active and report.is_recurrent and granted != way.mode.value:
            way.why_not = f"{report.way_back.why} (in use instead: {granted.replace('_', ' ')})"
        else:
            way.report = report

    def _probed_run(self, way: CheckedWay) -> None:
        assert way.report is not None  # it was configured
        self._tell(f"{way.label}, probed")
        n_dropped = self._n_dropped()
        self._generation.set_probes(SetProbe(self._generation.next_id(), ProbeLevel.STATE))
        self._inject(self._plan.fault)
        way.store = self._gathering.begin()
        way.outcomes = self._workload(way.report.n_slots)
        self._generation.set_probes(SetProbe(self._generation.next_id(), ProbeLevel.OFF))
        way.n_dropped = self._n_dropped() - n_dropped

    def _n_dropped(self) -> int:
        return self._client.n_dropped + self._client.n_arrays_dropped

    def _timed_runs(self, way: CheckedWay) -> None:
        """Pairs, each in another order than the one before, with all probes off."""
        assert way.report is not None  # it was configured
        if not way.report.speculation.is_active:
            return
        for repeat in range(1, self._plan.n_repeats + 1):
            samples: dict[Fault, Sample] = {}
            faults = (Fault.NONE, self._plan.other)
            self._tell(f"{way.label}, timed pair {repeat} of {self._plan.n_repeats}")
            for fault in faults if repeat % 2 else reversed(faults):
                if self._generation.is_interrupted:
                    return
                sample = self._timed(way.report, fault, repeat)
                if sample is not None:
                    samples[fault] = sample
            if len(samples) == len(faults):
                way.timed.append((samples[Fault.NONE], samples[self._plan.other]))

    def _timed(self, report: ModelReport, fault: Fault, repeat: int) -> Sample | None:
        started = time.monotonic()
        self._inject(fault)
        self._gathering.begin()
        outcomes = self._workload(report.n_slots)
        if self._generation.is_interrupted:
            return None
        return sample_of(outcomes, repeat=repeat, granted=report.way_back.granted, wall_s=time.monotonic() - started)

    def _inject(self, fault: Fault) -> None:
        self._generation.set_probes(InjectFault(self._generation.next_id(), fault))

    def _workload(self, n_slots: int, *, is_first: bool = False) -> Outcomes:
        """All conversations, so many at a time as there are slots; cut off by a Ctrl-C."""
        done: list[tuple[Outcome, Records]] = []
        n_steps = self._talks[0].n_steps
        for first in range(0, len(self._talks), n_slots):
            numbers = [(first + slot) % len(self._talks) for slot in range(n_slots)]
            for step in range(n_steps):
                if self._generation.is_interrupted:
                    return done
                group = [(n * n_steps + step, self._task(slot, n, step)) for slot, n in enumerate(numbers)]
                outcome = self._generation.run(group)
                done.append((outcome, self._gathering.take()))
                if is_first:
                    self._keep_replies(outcome, n_steps)
        return done

    def _task(self, slot: int, number: int, step: int) -> SlotTask:
        prompt = self._talks[number].prompt(step)
        return SlotTask(slot, prompt, _GREEDY, self._plan.max_tokens, reuse=step > 0)

    def _keep_replies(self, outcome: Outcome, n_steps: int) -> None:
        for prompt, result in outcome.results:
            talk, step = self._talks[prompt // n_steps], prompt % n_steps
            if step < talk.n_turns and len(talk.replies) == step:
                talk.replies.append(result)
