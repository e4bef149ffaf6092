"""A backend that does what a test tells it to, and writes down what is asked of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from draftscope.engine.backend import ChatTemplate, CheckpointCounts, ModelIdentity, Progress
from draftscope.engine.fake_report import report_of
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


class ScriptedBackend:
    """Obeys ``backend.Backend``. A task takes ``n_steps`` steps; ``fail`` maps a method's name to what it raises.

    Attributes:
        calls: names of the methods called, in order.
        tasks: those that were submitted, in order.
        on_call: called with each name.
        on_load: called inside a load with its progress; its answer says whether to go on.
        held, state: what every slot holds, and what it is saved as.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.tasks: list[SlotTask] = []
        self.fail: dict[str, Exception] = {}
        self.n_steps = 3
        self.on_call: Callable[[str], None] = lambda name: None
        self.template: ChatTemplate | None = None
        self.on_load: Callable[[Progress], None] = lambda progress: None
        self.loses_results = False
        self.held: tuple[int, ...] = (1, 2, 3)
        self.state = b"state"
        self._left: dict[int, int] = {}
        self._cancelled: set[int] = set()
        self._results: list[SlotResult] = []
        self._lock = threading.Lock()

    def _note(self, name: str) -> None:
        self.calls.append(name)
        self.on_call(name)
        if name in self.fail:
            raise self.fail[name]

    def load(self, model: ModelSettings, context: ContextSettings, progress: Progress) -> ModelReport:
        self._note("load")
        self.on_load(progress)
        return report_of(model, context, 1.0)

    def configure(self, context: ContextSettings) -> ModelReport:
        self._note("configure")
        return report_of(ModelSettings("m"), context, 1.0)

    def unload(self) -> None:
        self._left.clear()
        self._note("unload")

    def chat_template(self) -> ChatTemplate | None:
        return self.template

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool) -> tuple[int, ...]:
        self.calls.append(f"tokenize {text!r} {parse_special} {add_special}")
        if "tokenize" in self.fail:
            raise self.fail["tokenize"]
        return tuple(range(len(text.split())))

    def submit(self, task: SlotTask, tokens: tuple[int, ...]) -> None:
        self._note(f"submit {task.slot}")
        self.tasks.append(task)
        self._cancelled.discard(task.slot)
        self._left[task.slot] = self.n_steps

    def step(self) -> bool:
        self._note("step")
        for slot in list(self._left):
            self._left[slot] -= 1
            if slot in self._cancelled or self._left[slot] == 0:
                self._end(slot, "cancelled" if slot in self._cancelled else "max_tokens")
        return bool(self._left)

    def _end(self, slot: int, stop: str) -> None:
        del self._left[slot]
        if not self.loses_results:
            self._results.append(SlotResult(slot, "", (), 1, 0, 0, 0, (), (), 0.0, 0.0, 0.0, stop))

    def cancel(self, slots: tuple[int, ...]) -> None:
        self._note("cancel")
        self._cancelled.update(slots or range(64))

    def take_results(self) -> list[SlotResult]:
        results, self._results = self._results, []
        return results

    def take_pieces(self) -> dict[int, bytes]:
        return {}

    def decode_counts(self) -> DecodeCounts:
        return DecodeCounts(rounds=self.calls.count("step"))

    def memory_use(self) -> tuple[MemoryUse, ...]:
        return ()

    def decode_cost(self) -> DecodeCost:
        return DecodeCost()

    def checkpoint_counts(self) -> CheckpointCounts:
        return CheckpointCounts()

    def clear_slot(self, slot: int) -> None:
        self._note(f"clear {slot}")

    def rewind_slot(self, slot: int, n_tokens: int) -> None:
        self._note(f"rewind {slot} {n_tokens}")

    def fork_slot(self, slot: int, to: int) -> None:
        self._note(f"fork {slot} {to}")

    def shift_slot(self, slot: int, n_keep: int, n_discard: int) -> None:
        self._note(f"shift {slot} {n_keep} {n_discard}")

    def save_slot(self, slot: int) -> bytes:
        self._note(f"save {slot}")
        return self.state

    def restore_slot(self, slot: int, state: bytes) -> None:
        self._note(f"restore {slot} {len(state)}")

    def slot_facts(self, slot: int) -> SlotFacts:
        return SlotFacts(slot, n_tokens=len(self.held))

    def slot_tokens(self, slot: int) -> tuple[int, ...]:
        return self.held

    def text_of(self, tokens: tuple[int, ...]) -> str:
        return " ".join(map(str, tokens))

    def identity(self) -> ModelIdentity:
        return ModelIdentity("scripted", "scripted")
