"""An engine for tests of ``bench``: contexts that are granted or refused by mode, and runs as fast as a test says."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from draftscope.cli.bench_plan import RUNNING_IN_TOKENS
from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.events import Kind, Origin, Records, empty_records
from draftscope.engine.protocol import (
    Answer,
    CheckpointMode,
    Command,
    CommandId,
    Configure,
    ContextSettings,
    DecodeCounts,
    Done,
    EngineDied,
    Failed,
    Finished,
    Load,
    Loaded,
    MemoryUse,
    ModelReport,
    RunReport,
    SlotResult,
    SlotTask,
    Speculation,
    Submit,
    WayBack,
)
from tests.cli.scripted_client import ScriptedClient

N_TOKENS = 11
"""Tokens that every task gives."""

Name = tuple[int, str]
"""Slots and mode of a setting; 'plain' is without MTP."""


def name_of(context: ContextSettings) -> Name:
    """Whose contexts these are."""
    return context.n_slots, context.checkpoint.value if context.use_mtp else "plain"


@dataclass
class ScriptedBench:
    """Answers commands.

    Attributes:
        speed: tokens a second of the n-th run (from 0: the warm-up) of a setting, all slots together.
        granted: what another mode than the asked one is granted instead, with why.
        refused: modes whose contexts are refused.
        other_tokens: settings of which slot 1 differs from token 4 on.
        dies_at: the Submit (from 0) at which the engine process ends.
        interrupt: called at every Submit with the number of Submits before it.
        order: the settings of the Submits so far, those that run contexts in left out; ``n_run_in`` counts these.
        tasks: of every Submit, in order.
    """

    speed: Callable[[Name, int], float] = lambda _name, _run: 100.0
    granted: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    other_tokens: tuple[Name, ...] = ()
    n_draft_granted: int = 16
    memory: Callable[[ContextSettings], tuple[MemoryUse, ...]] = lambda _context: ()
    interrupt: Callable[[int], None] = lambda _n: None
    fails: tuple[Name, ...] = ()
    dies_at: int = -1
    order: list[Name] = field(default_factory=list)
    n_run_in: int = 0
    tasks: list[SlotTask] = field(default_factory=list)
    contexts: list[ContextSettings] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._context = ContextSettings()
        self._runs: Counter[Name] = Counter()
        self._records: list[Records] = []

    def client(self) -> ScriptedClient:
        """A client of this engine."""
        bench = self

        class Client(ScriptedClient):
            def read_records(self) -> Records:
                return bench._records.pop(0) if bench._records else empty_records()

        return Client(self.respond)

    def respond(self, command: Command) -> list[Answer]:
        """See ``ScriptedClient``."""
        if isinstance(command, Submit):
            self.tasks += command.tasks
        match command:
            case Load():
                return [Loaded(command.id, self._report(command.context))]
            case Configure():
                self._context = command.context
                self.contexts.append(command.context)
                mode = name_of(command.context)[1]
                if mode in self.refused:
                    return [Failed(command.id, ErrorReport(ErrorCode.OUT_OF_MEMORY, self.refused[mode], ""))]
                return [Loaded(command.id, self._report(command.context))]
            case Submit() if command.tasks[0].max_tokens == RUNNING_IN_TOKENS:
                self.n_run_in += 1
                return [self._finish(command, name_of(self._context), 1.0)]
            case Submit():
                self.interrupt(len(self.order))
                if len(self.order) == self.dies_at:
                    return [EngineDied(signal.SIGKILL, 0, "verifying drafts", ())]
                name = name_of(self._context)
                self.order.append(name)
                self._runs[name] += 1
                return [self._finish(command, name, self.speed(name, self._runs[name] - 1))]
            case _:
                return [Done(command.id)]

    def _report(self, context: ContextSettings) -> ModelReport:
        n_draft = min(context.n_draft_max, self.n_draft_granted) if context.use_mtp else 0
        way, why = "none", "Nothing is drafted."
        if context.use_mtp:
            asked = "rollback" if context.checkpoint is CheckpointMode.AUTO else context.checkpoint.value
            way, why = self.granted.get(asked, (asked, "Asked for."))
        return ModelReport(
            path="m.gguf",
            description="tiny",
            architecture="qwen35",
            size_bytes=1,
            n_params=1,
            n_layer=1,
            n_embd=1,
            n_vocab=10,
            n_ctx_train=10,
            has_tokenizer=True,
            has_chat_template=False,
            is_recurrent=True,
            n_slots_asked=context.n_slots,
            n_slots=context.n_slots,
            n_ctx=context.n_ctx,
            n_threads=1,
            devices=("CPU",),
            speculation=Speculation(context.use_mtp, 1, n_draft),
            way_back=WayBack(context.checkpoint, way, 0, 0, why),
            engine="scripted",
            is_patched=True,
            load_ms=1.0,
        )

    def _finish(self, command: Submit, name: Name, speed: float) -> Finished:
        n_slots = len(command.tasks)
        generate_ms = n_slots * (N_TOKENS - 1) / speed * 1e3
        drafts = 6 if self._context.use_mtp else 0
        results = tuple(self._result(name, task.slot, generate_ms, drafts) for task in command.tasks)
        self._records.append(_records(n_slots, self._context.use_mtp))
        counts = DecodeCounts(rounds=4, target=5, draft=12, target_graph_runs=6, draft_graph_runs=12)
        report = RunReport(counts, 2, 1, 0, generate_ms, self.memory(self._context))
        return Finished(CommandId(command.id), results, report)

    def _result(self, name: Name, slot: int, generate_ms: float, draft_n: int) -> SlotResult:
        tokens = list(range(N_TOKENS))
        if name in self.other_tokens and slot == 1:
            tokens[4] = 99
        return SlotResult(
            slot=slot,
            text="",
            tokens=tuple(tokens),
            n_prompt=5,
            n_rounds=4,
            draft_n=draft_n,
            draft_n_accepted=draft_n // 2,
            accepted_at=(),
            drafted_at=(),
            ttft_ms=3.0,
            prompt_ms=3.0,
            generate_ms=generate_ms,
            stop="failed" if name in self.fails else "max_tokens",
            error="The decode failed." if name in self.fails else "",
        )


def _records(n_slots: int, use_mtp: bool) -> Records:
    """A save of 10 and one of 30 us, a restore of 5 us, and each slot's token 4 sampled with a probability of 0.25."""
    events = empty_records(3 if use_mtp else 0)
    for event, (kind, us) in zip(events, ((Kind.SAVE, 10), (Kind.SAVE, 30), (Kind.RESTORE, 5)), strict=False):
        event["kind"], event["duration_ns"] = kind, us * 1000
    tokens = empty_records(n_slots)
    tokens["kind"], tokens["code"], tokens["slot"] = Kind.TOKEN, Origin.SAMPLED, range(n_slots)
    tokens["position"], tokens["value"] = 5 + 4, 0.25
    both = empty_records(len(events) + n_slots)
    both[: len(events)], both[len(events) :] = events, tokens
    return both
