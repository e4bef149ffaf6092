"""A Submit on its way into the backend, its prompts in tokens and all checked, and then until its tasks have ended."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from draftscope.engine.backend import Backend, CheckpointCounts
from draftscope.engine.errors import ErrorReport
from draftscope.engine.intake import Order
from draftscope.engine.protocol import (
    ChatMessage,
    DecodeCost,
    DecodeCounts,
    Failed,
    Finished,
    MemoryUse,
    ModelReport,
    RunReport,
    SlotResult,
    SlotTask,
    Submit,
)
from draftscope.engine.task_checks import check_goes_on, check_tokens

ResolvedTask = tuple[SlotTask, tuple[int, ...]]
"""A task with its prompt in tokens, checked."""


def conversations_of(tasks: tuple[SlotTask, ...]) -> dict[int, tuple[ChatMessage, ...]]:
    """The messages that must be rendered, by the task's index."""
    return {index: task.prompt.messages for index, task in enumerate(tasks) if task.prompt.messages}


def resolve(
    tasks: tuple[SlotTask, ...], rendered: Mapping[int, str], bos: str, backend: Backend, model: ModelReport
) -> list[ResolvedTask]:
    """The tasks with their prompts in tokens, all checked against the model.

    Args:
        tasks: already through ``check_tasks``.
        rendered: text of the conversations by the task's index.
        bos: the text of the begin token; a template that writes it gets no second one.
        backend: tokenizes.
        model: says how many tokens there are and how many a slot holds.

    Raises:
        EngineError: BAD_PROMPT, or what the tokenizer says.
    """
    resolved = []
    for index, task in enumerate(tasks):
        tokens, is_continuation = task.prompt.tokens, task.prompt.is_continuation
        text = rendered.get(index, task.prompt.text)
        if not tokens and (text or not is_continuation):
            starts_itself = is_continuation or (index in rendered and bool(bos) and text.startswith(bos))
            tokens = backend.tokenize(text, parse_special=True, add_special=not starts_itself)
        check_tokens(tokens, task, model)
        resolved.append((task, tokens))
    return resolved


def check_continuations(
    resolved: list[ResolvedTask], busy: Collection[int], backend: Backend, model: ModelReport
) -> None:
    """Refuse continuations that a free slot cannot take, before any task begins; for busy ones the backend does later.

    Raises:
        EngineError: BAD_PROMPT.
    """
    for task, tokens in resolved:
        if task.prompt.is_continuation and task.slot not in busy:
            n_held = backend.slot_facts(task.slot).n_tokens
            check_goes_on(task.slot, n_held, len(tokens), model.n_ctx)


@dataclass(eq=False)
class Submission:
    """A Submit whose tasks wait, are at work in the backend, or have ended.

    Attributes:
        waiting: tasks that have not begun, by index, in their order.
        at_work: index of the task by the slot that serves it.
        results: of the tasks that have ended, by index.
        failure: set when the backend refused one of them; the Submit closes with that when the begun ones have ended.
    """

    order: Order
    waiting: dict[int, ResolvedTask]
    at_work: dict[int, int] = field(default_factory=dict)
    results: dict[int, SlotResult] = field(default_factory=dict)
    failure: ErrorReport | None = None
    _arrived_ns: int = field(default_factory=time.monotonic_ns)
    _before: tuple[DecodeCounts, CheckpointCounts] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it can be closed."""
        return not self.waiting and not self.at_work

    def begin(self, index: int, slot: int, backend: Backend) -> None:
        """Give a waiting task to the backend.

        Raises:
            EngineError: the backend refuses it; it waits no more.
        """
        task, tokens = self.waiting.pop(index)
        if self._before is None:
            self._before = backend.decode_counts(), backend.checkpoint_counts()
        backend.submit(dataclasses.replace(task, slot=slot), tokens)
        self.at_work[slot] = index

    def take(self, result: SlotResult) -> None:
        """Keep the result of a task that the backend had."""
        index = self.at_work.pop(result.slot)
        self.order.end(index)
        self.results[index] = result

    def drop(self, indices: Collection[int]) -> None:
        """End those of these tasks that still wait, as cancelled."""
        for index in [index for index in self.waiting if index in indices]:
            task, _ = self.waiting.pop(index)
            self.results[index] = _never_began(task)

    def fail(self, report: ErrorReport) -> None:
        """Let it end in a failure; nothing of it begins any more."""
        self.waiting.clear()
        self.failure = report

    def closing(
        self,
        decodes: DecodeCounts,
        checkpoints: CheckpointCounts,
        memory: tuple[MemoryUse, ...],
        cost: DecodeCost,
    ) -> Finished | Failed:
        """The closing message, given what the backend has counted, held and learned by now."""
        command = self.order.command
        assert isinstance(command, Submit)
        if self.failure is not None:
            return Failed(command.id, self.failure)
        decodes_before, checkpoints_before = self._before or (decodes, checkpoints)
        before, now = dataclasses.asdict(decodes_before), dataclasses.asdict(decodes)
        report = RunReport(
            DecodeCounts(**{name: now[name] - before[name] for name in now}),
            n_saves=checkpoints.n_saves - checkpoints_before.n_saves,
            n_restores=checkpoints.n_restores - checkpoints_before.n_restores,
            n_fallbacks=checkpoints.n_fallbacks - checkpoints_before.n_fallbacks,
            wall_ms=(time.monotonic_ns() - self._arrived_ns) / 1e6,
            memory=memory,
            decode_cost=cost,
        )
        return Finished(command.id, tuple(self.results[index] for index in range(len(command.tasks))), report)


def never_started(command: Submit) -> Finished:
    """The closing message of a Submit that was cancelled before the backend had any of it."""
    return Finished(command.id, tuple(map(_never_began, command.tasks)), RunReport(DecodeCounts(), 0, 0, 0, 0.0))


def _never_began(task: SlotTask) -> SlotResult:
    return SlotResult(task.slot, "", (), 0, 0, 0, 0, (), (), 0.0, 0.0, 0.0, stop="cancelled")
