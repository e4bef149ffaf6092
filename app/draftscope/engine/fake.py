"""A scripted engine: no model, no llama.cpp, but the behaviour, the records and the words of one.

It obeys the same contract suite as the native backend and drives the tests of the window. What it does follows from
what it is asked, and is the same every time (only times differ): texts from the prompt, acceptance from text and slot.

Model paths choose what it plays: ``fake:hybrid`` (no native rollback, so states are saved: ``auto`` copies on write),
``fake:plain`` (MTP on a KV cache alone, which drops its newest tokens by itself), ``fake:dense`` (no MTP layers),
``fake:no-template`` (no chat template), ``fake:unknown-layout`` (its recurrent state cannot be compared),
``fake:slow-load`` (some seconds), ``fake:fail-load``, ``fake:raise-in-load``, ``fake:die-in-load``; any other path is a
model with native rollback. Prompts that are just ``fake:die``, ``fake:fail``, ``fake:raise`` or ``fake:hang`` end the
process, fail the task, break the engine's step, or stay silent until they are cancelled. A slot that was given
``fake:fail-save`` cannot be saved, and what one that was given ``fake:refuse-state`` saved is refused. Grammars are
refused as by the native engine where the host refuses them, and have no effect on the texts.

Restores are probed, and do wrong, as ``fake_probes`` has it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from draftscope.engine import fake_text
from draftscope.engine.backend import ChatTemplate, CheckpointCounts, ModelIdentity, Progress
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import FallbackReason, Mechanism, Operation, Phase, Reuse, SlotState, StopReason
from draftscope.engine.fake_costs import STATE_BYTES
from draftscope.engine.fake_held import FakeHeld
from draftscope.engine.fake_probes import FakeProbes
from draftscope.engine.fake_record import FakeRecorder
from draftscope.engine.fake_report import WITHOUT_TEMPLATE, report_of
from draftscope.engine.fake_round import FakeRound
from draftscope.engine.fake_slot import FakeSlot
from draftscope.engine.probes import ZERO_ROW, Fault, ProbeLevel, RestoreKind
from draftscope.engine.protocol import (
    ContextSettings,
    DecodeCost,
    DecodeCounts,
    MemoryUse,
    ModelReport,
    ModelSettings,
    SlotFacts,
    SlotResult,
    SlotTask,
)
from draftscope.engine.task_checks import check_goes_on

ROUNDS_PER_SECOND = 60.0
_LOAD_S = 0.6
_SLOW_LOAD_S = 5.0
_LOAD_STEPS = 50


class FakeDeath(BaseException):
    """What ends the engine's thread where a process must not be ended."""


def end_thread() -> None:
    """Die, in a thread of a process that lives on."""
    raise FakeDeath("The scripted engine was told to die.")


def kill_process() -> None:
    """Die as if the system had run out of memory."""
    print("The scripted engine was told to die.", file=sys.stderr, flush=True)
    if sys.platform == "win32":
        os._exit(9)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


class FakeBackend:
    """``backend.Backend`` by script.

    Args:
        ring_memory: writable buffer with an initialised ring.
        rounds_per_second: how fast it generates; 0: as fast as it can, with records as if at the usual speed.
        die: how it ends when told to.
    """

    def __init__(
        self,
        ring_memory: memoryview,
        rounds_per_second: float = ROUNDS_PER_SECOND,
        die: Callable[[], None] = kill_process,
    ) -> None:
        self._recorder = FakeRecorder(ring_memory)
        self._is_paced = rounds_per_second > 0
        self._unit_ns = int(1e9 / (rounds_per_second or ROUNDS_PER_SECOND))
        self._probes = FakeProbes(self._recorder, self._unit_ns)
        self._die = die
        self._model: ModelSettings | None = None
        self._load_ms = 0.0
        self._slots: list[FakeSlot] = []
        self._memory: tuple[MemoryUse, ...] = ()
        self._cancelled: set[int] = set()
        self._interrupted = threading.Event()
        self._new_round(ContextSettings(), Mechanism.NONE)

    def set_probe(self, level: ProbeLevel, slots: tuple[int, ...]) -> None:
        """See ``Backend.set_probe``."""
        self._probes.set_level(level, slots)

    def inject_fault(self, fault: Fault, slots: tuple[int, ...], layer: int) -> None:
        """See ``Backend.inject_fault``."""
        self._probes.set_fault(fault, slots, layer)

    def load(self, model: ModelSettings, context: ContextSettings, progress: Progress) -> ModelReport:
        """See ``Backend.load``."""
        self.unload()
        started_s = time.monotonic()
        self._recorder.operation(Phase.LOAD)
        self._interrupted.clear()
        for step in range(_LOAD_STEPS + 1):
            fraction = step / _LOAD_STEPS
            if not progress(fraction, "weights" if fraction < 0.8 else "contexts" if fraction < 0.95 else "ways back"):
                self._recorder.operation(Phase.IDLE)
                raise EngineError(ErrorCode.CANCELLED, "Loading was cancelled.")
            if step == _LOAD_STEPS // 2:
                self._play_load(model.path)
            self._sleep((_SLOW_LOAD_S if model.path == "fake:slow-load" else _LOAD_S * self._is_paced) / _LOAD_STEPS)
        self._recorder.forget_pieces()
        self._model = model
        self._load_ms = (time.monotonic() - started_s) * 1e3
        try:
            return self.configure(context)
        except EngineError:
            self.unload()
            raise

    def configure(self, context: ContextSettings) -> ModelReport:
        """See ``Backend.configure``."""
        if self._model is None:
            raise EngineError(ErrorCode.NOT_LOADED, "No model is loaded.", "Open a GGUF file first.")
        report = report_of(self._model, context, self._load_ms)
        self._slots = [self._new_slot(slot, report, context) for slot in range(report.n_slots)]
        self._memory = report.memory
        self._probes.begin(report)
        self._cancelled.clear()
        mechanism = Mechanism[report.way_back.granted.upper()]
        self._new_round(context if report.speculation.is_active else _without_draft(context), mechanism)
        self._recorder.catch_up_with_clock()
        self._recorder.operation(Phase.IDLE)
        if report.way_back.n_rs_seq_asked > report.way_back.n_rs_seq_granted:
            for slot in self._slots:
                self._round.counts["n_fallbacks"] += 1
                self._recorder.fallback(slot.id, FallbackReason.NOT_GRANTED, 0, Mechanism.ROLLBACK, mechanism)
        return report

    def unload(self) -> None:
        """See ``Backend.unload``."""
        self._model = None
        self._slots = []
        self._memory = ()

    def chat_template(self) -> ChatTemplate | None:
        """See ``Backend.chat_template``."""
        if self._model is None or self._model.path == WITHOUT_TEMPLATE:
            return None
        names = (fake_text.piece(token).decode() for token in (fake_text.BOS, fake_text.EOS))
        return ChatTemplate(fake_text.CHAT_TEMPLATE, *names)

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool) -> tuple[int, ...]:
        """See ``Backend.tokenize``."""
        return fake_text.tokenize(text, parse_special=parse_special, add_special=add_special)

    def submit(self, task: SlotTask, tokens: tuple[int, ...]) -> None:
        """See ``Backend.submit``."""
        if not 0 <= task.slot < len(self._slots):
            raise EngineError(ErrorCode.BAD_SETTINGS, f"There is no slot {task.slot}.")
        slot = self._idle(task.slot)
        if task.prompt.is_continuation:
            check_goes_on(slot.id, len(slot.tokens), len(tokens), self._context.n_ctx)
        self._recorder.catch_up_with_clock()
        self._cancelled.discard(task.slot)
        slot.start(task, tokens, self._context.n_draft_max)
        if slot.reuse is Reuse.RESTORED:
            self._put_back(slot, RestoreKind.PROMPT)

    def step(self) -> bool:
        """See ``Backend.step``."""
        self._interrupted.clear()
        for slot in self._active():
            if slot.id in self._cancelled:
                slot.end(StopReason.CANCELLED)
            else:
                self._play(slot)
        if prompts := [slot for slot in self._active() if slot.state is SlotState.PROMPT]:
            self._round.prefill(prompts)
        if generating := [slot for slot in self._active() if slot.state is SlotState.GENERATING]:
            self._round.run(generating)
        has_work = bool(self._active())
        if not has_work:  # else the last operation stands until the next step
            self._recorder.operation(Phase.IDLE)
        return has_work

    def cancel(self, slots: tuple[int, ...]) -> None:
        """See ``Backend.cancel``."""
        self._cancelled.update(slots or range(len(self._slots)))
        self._interrupted.set()

    def take_results(self) -> list[SlotResult]:
        """See ``Backend.take_results``."""
        return [result for slot in self._slots if (result := slot.take_result()) is not None]

    def take_pieces(self) -> dict[int, bytes]:
        """See ``Backend.take_pieces``."""
        return self._recorder.take_pieces()

    def decode_counts(self) -> DecodeCounts:
        """See ``Backend.decode_counts``."""
        return DecodeCounts(**{name: self._round.counts[name] for name in DecodeCounts.__dataclass_fields__})

    def memory_use(self) -> tuple[MemoryUse, ...]:
        """See ``Backend.memory_use``."""
        held_bytes = sum(slot.held.checkpoint_bytes for slot in self._slots)
        return (*self._memory, MemoryUse("prompt_checkpoints", held_bytes, 0)) if held_bytes else self._memory

    def decode_cost(self) -> DecodeCost:
        """See ``Backend.decode_cost``."""
        return self._round.decode_cost()

    def checkpoint_counts(self) -> CheckpointCounts:
        """See ``Backend.checkpoint_counts``."""
        return CheckpointCounts(**{name: self._round.counts[name] for name in CheckpointCounts.__dataclass_fields__})

    def clear_slot(self, slot: int) -> None:
        """See ``Backend.clear_slot``."""
        self._idle(slot).held.clear()
        self._slots[slot].record(Operation.CLEAR)

    def rewind_slot(self, slot: int, n_tokens: int) -> None:
        """See ``Backend.rewind_slot``."""
        held = self._idle(slot).held
        is_kept = n_tokens >= held.n_decoded
        n_kept = held.rewind(n_tokens)
        dropped = Reuse.TAIL_DROPPED if held.can_drop_tail else Reuse.RESTORED if n_kept else Reuse.NO_CHECKPOINT
        self._slots[slot].record(Operation.REWIND, n_kept, Reuse.KEPT if is_kept else dropped)
        if dropped is Reuse.RESTORED and not is_kept:
            self._put_back(self._slots[slot], RestoreKind.REWIND)

    def fork_slot(self, slot: int, to: int) -> None:
        """See ``Backend.fork_slot``."""
        self._idle(to).held.take(self._idle(slot).held)
        self._slots[to].record(Operation.FORK, self._slots[to].n_decoded, Reuse.KEPT, STATE_BYTES)
        self._put_back(self._slots[to], RestoreKind.FORK)

    def shift_slot(self, slot: int, n_keep: int, n_discard: int) -> None:
        """See ``Backend.shift_slot``."""
        self._idle(slot).held.shift(n_keep, n_discard)
        self._slots[slot].record(Operation.SHIFT, len(self._slots[slot].tokens))

    def save_slot(self, slot: int) -> bytes:
        """See ``Backend.save_slot``."""
        if "fake:fail-save" in self.text_of(self.slot_tokens(slot)):
            what = f"There is no memory for a copy of what slot {slot} holds."
            raise EngineError(ErrorCode.OUT_OF_MEMORY, what, "Use fewer slots.")
        state = self._idle(slot).held.dump()
        self._slots[slot].record(Operation.SLOT_SAVE, self._slots[slot].n_decoded, size_bytes=len(state))
        return state

    def restore_slot(self, slot: int, state: bytes) -> None:
        """See ``Backend.restore_slot``."""
        try:
            self._idle(slot).held.load(state)
        except EngineError:
            self._slots[slot].record(Operation.STATE_REFUSED, size_bytes=len(state))
            raise
        self._slots[slot].record(Operation.SLOT_RESTORE, self._slots[slot].n_decoded, Reuse.KEPT, len(state))
        self._put_back(self._slots[slot], RestoreKind.SLOT)

    def slot_facts(self, slot: int) -> SlotFacts:
        """See ``Backend.slot_facts``."""
        held = self._slots[slot].held
        n_draft = held.n_decoded if self._context.n_draft_max else 0
        n_checkpoints = len(held.checkpoints)
        return SlotFacts(slot, len(held.tokens), held.n_decoded, n_draft, 0, n_checkpoints, held.checkpoint_bytes)

    def slot_tokens(self, slot: int) -> tuple[int, ...]:
        """See ``Backend.slot_tokens``."""
        return tuple(self._slots[slot].tokens)

    def text_of(self, tokens: tuple[int, ...]) -> str:
        """See ``Backend.text_of``."""
        return b"".join(map(fake_text.piece, tokens)).decode("utf-8", "replace")

    def identity(self) -> ModelIdentity:
        """See ``Backend.identity``: a scripted model is what its path says."""
        assert self._model is not None  # asked for a loaded model only
        return ModelIdentity(f"scripted {self._model.path}", "scripted")

    # ---- the script

    def _new_slot(self, slot: int, report: ModelReport, context: ContextSettings) -> FakeSlot:
        n_checkpoints = context.prompt_checkpoints_mib * (1 << 20) // STATE_BYTES // report.n_slots
        spacing = max(1, context.prompt_checkpoint_spacing)
        held = FakeHeld(not report.is_recurrent, STATE_BYTES, spacing, n_checkpoints)
        return FakeSlot(slot, self._recorder, held)

    def _put_back(self, slot: FakeSlot, kind: RestoreKind) -> None:
        """A whole state is there again; without the hook its pending row would be zeros."""
        way = Mechanism.HOST if kind is RestoreKind.PROMPT else Mechanism.NONE
        if slot.n_decoded:
            self._probes.restored(slot, kind, way, 0, row=slot.n_decoded - 1, without=ZERO_ROW)

    def _idle(self, slot: int) -> FakeSlot:
        if self._slots[slot].is_active:
            raise EngineError(ErrorCode.BUSY, f"Slot {slot} is still generating.", "Wait for it or cancel it.")
        return self._slots[slot]

    def _new_round(self, context: ContextSettings, mechanism: Mechanism) -> None:
        self._context = context
        self._round = FakeRound(
            self._recorder,
            self._probes,
            context,
            mechanism,
            self._unit_ns,
            self._pace,
            lambda slot: slot in self._cancelled,
        )

    def _active(self) -> list[FakeSlot]:
        return [slot for slot in self._slots if slot.is_active]

    def _pace(self) -> None:
        if self._is_paced:
            self._sleep((self._recorder.now_ns - time.monotonic_ns()) / 1e9)

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._interrupted.wait(seconds)

    def _play_load(self, path: str) -> None:
        if path == "fake:die-in-load":
            self._die()
        if path == "fake:raise-in-load":
            raise RuntimeError("The scripted engine was told to break.")
        if path == "fake:fail-load":
            self._recorder.operation(Phase.IDLE)
            what = f"The file {path} ends in the middle of its tensors."
            raise EngineError(ErrorCode.BAD_FILE, what, "Download it again.")

    def _play(self, slot: FakeSlot) -> None:
        match slot.task.prompt.text:
            case "fake:die":
                self._recorder.operation(Phase.VERIFY)
                self._die()
            case "fake:lose-server":
                self._recorder.operation(Phase.VERIFY)
                print("/ggml-rpc.cpp:512: Remote RPC server crashed", file=sys.stderr, flush=True)  # libggml's words
                self._die()
            case "fake:fail":
                slot.end(StopReason.FAILED, f"llama.cpp could not decode the prompt of slot {slot.id}.")
            case "fake:raise":
                raise RuntimeError("The scripted engine was told to break.")
            case "fake:hang":
                while slot.id not in self._cancelled:
                    self._sleep(0.02)


def _without_draft(context: ContextSettings) -> ContextSettings:
    return ContextSettings(n_slots=context.n_slots, n_ctx=context.n_ctx, n_draft_max=0, n_batch=context.n_batch)
