"""A Submit on its way into the backend, its prompts in tokens and all checked, and then until its tasks have ended."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from draftscope.engine.backend import Backend, CheckpointCounts
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.intake import Order
from draftscope.engine.output_format import check_format
from draftscope.engine.protocol import (
    ChatMessage,
    DecodeCost,
    DecodeCounts,
    Failed,
    Finished,
    MemoryUse,
    ModelReport,
    Prompt,
    RunReport,
    SamplingSettings,
    SlotResult,
    SlotTask,
    Submit,
)

_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)

_SAMPLING_LIMITS = {
    "temperature": (0, 100),
    "top_k": (0, 1 << 30),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (0, 100),
    "repeat_last_n": (0, 1 << 24),
    "presence_penalty": (-100, 100),
}


def check_numbers(settings: Any) -> None:
    """Refuse whole numbers that no engine can hold.

    Raises:
        EngineError: BAD_SETTINGS, naming the setting.
    """
    for entry in dataclasses.fields(settings):
        value = getattr(settings, entry.name)
        if type(value) is int and value not in (_INT64 if entry.name == "seed" else _INT32):
            what = f"The setting {entry.name} is {value}, which is out of any range."
            raise EngineError(ErrorCode.BAD_SETTINGS, what)


def check_tasks(tasks: tuple[SlotTask, ...], model: ModelReport | None, busy: Collection[int]) -> None:
    """Refuse what can be refused before any prompt is looked at.

    Raises:
        EngineError: NOT_LOADED, BAD_SETTINGS, BUSY or BAD_PROMPT.
    """
    if model is None:
        raise EngineError(ErrorCode.NOT_LOADED, "No model is loaded.", "Open a GGUF file first.")
    if not tasks:
        raise EngineError(ErrorCode.BAD_SETTINGS, "There is nothing to run: no task was given.")
    slots = [task.slot for task in tasks]
    for task in tasks:
        _check_task(task, model, busy)
        if slots.count(task.slot) > 1:
            raise EngineError(ErrorCode.BAD_SETTINGS, f"Slot {task.slot} was given more than one task.")


def _check_task(task: SlotTask, model: ModelReport, busy: Collection[int]) -> None:
    if not 0 <= task.slot < model.n_slots:
        there = f"the engine has {model.n_slots}, counted from 0"
        raise EngineError(ErrorCode.BAD_SETTINGS, f"There is no slot {task.slot}; {there}.")
    if task.slot in busy:
        raise EngineError(ErrorCode.BUSY, f"Slot {task.slot} is still generating.", "Wait for it or cancel it.")
    check_numbers(task)
    _check_sampling(task.sampling, task.slot)
    if task.max_tokens < 1:
        what = f"Slot {task.slot} is to generate {task.max_tokens} tokens; 1 is the least."
        raise EngineError(ErrorCode.BAD_SETTINGS, what)
    _check_prompt(task.prompt, task.slot)
    _check_text(*task.stop, what=f"A stop string of slot {task.slot}")
    check_format(task)


def _check_sampling(sampling: SamplingSettings, slot: int) -> None:
    check_numbers(sampling)
    for name, (low, high) in _SAMPLING_LIMITS.items():
        value = getattr(sampling, name)
        if not low <= value <= high:  # NaN is not
            what = f"The setting {name} of slot {slot} is {value}; it must be between {low} and {high}."
            raise EngineError(ErrorCode.BAD_SETTINGS, what)


def _check_prompt(prompt: Prompt, slot: int) -> None:
    n_given = sum(map(bool, (prompt.text, prompt.messages, prompt.tokens)))
    if n_given == 0:
        raise EngineError(ErrorCode.BAD_PROMPT, f"The prompt of slot {slot} is empty.", "Give it some text.")
    if n_given > 1:
        what = f"The prompt of slot {slot} has more than one of text, messages and tokens."
        raise EngineError(ErrorCode.BAD_PROMPT, what, "Give it exactly one.")
    _check_text(prompt.text, what=f"The prompt of slot {slot}")
    for message in prompt.messages:
        _check_text(message.role, message.content, what=f"A message of slot {slot}")


def _check_text(*texts: str, what: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            why = f"{what} holds half a character (a lone surrogate at {error.start}), which no model can read."
            raise EngineError(ErrorCode.BAD_PROMPT, why, "Remove it.") from error


def conversations_of(tasks: tuple[SlotTask, ...]) -> dict[int, tuple[ChatMessage, ...]]:
    """The messages that must be rendered, by slot."""
    return {task.slot: task.prompt.messages for task in tasks if task.prompt.messages}


def resolve(
    tasks: tuple[SlotTask, ...], rendered: Mapping[int, str], bos: str, backend: Backend, model: ModelReport
) -> list[tuple[SlotTask, tuple[int, ...]]]:
    """The tasks with their prompts in tokens, all checked against the model.

    Args:
        tasks: already through ``check_tasks``.
        rendered: text of the conversations by slot.
        bos: the text of the begin token; a template that writes it gets no second one.
        backend: tokenizes.
        model: says how many tokens there are and how many a slot holds.

    Raises:
        EngineError: BAD_PROMPT, or what the tokenizer says.
    """
    resolved = []
    for task in tasks:
        tokens = task.prompt.tokens
        if not tokens:
            text = rendered.get(task.slot, task.prompt.text)
            starts_itself = task.slot in rendered and bool(bos) and text.startswith(bos)
            tokens = backend.tokenize(text, parse_special=True, add_special=not starts_itself)
        _check_tokens(tokens, task.slot, model)
        resolved.append((task, tokens))
    return resolved


def _check_tokens(tokens: tuple[int, ...], slot: int, model: ModelReport) -> None:
    if not tokens:
        raise EngineError(ErrorCode.BAD_PROMPT, f"The prompt of slot {slot} is empty.", "Give it some text.")
    if len(tokens) >= model.n_ctx:
        what = f"The prompt of slot {slot} has {len(tokens)} tokens; a slot holds {model.n_ctx}."
        raise EngineError(ErrorCode.BAD_PROMPT, what, "Shorten it or load with a larger context.")
    for token in tokens:
        if not 0 <= token < model.n_vocab:
            what = f"Token {token} in the prompt of slot {slot} is outside the vocabulary ({model.n_vocab})."
            raise EngineError(ErrorCode.BAD_PROMPT, what)


@dataclass(eq=False)
class Submission:
    """A Submit whose tasks the backend has, and what it had counted before them.

    ``failure``: set when it could not be started as a whole; it closes with that when the started ones have ended.
    """

    order: Order
    decodes: DecodeCounts
    checkpoints: CheckpointCounts
    started_ns: int = field(default_factory=time.monotonic_ns)
    waits_for: set[int] = field(default_factory=set)
    results: dict[int, SlotResult] = field(default_factory=dict)
    failure: ErrorReport | None = None

    def take(self, result: SlotResult) -> bool:
        """Keep the result if its slot is this Submit's."""
        if result.slot not in self.waits_for:
            return False
        self.waits_for.discard(result.slot)
        self.results[result.slot] = result
        return True

    def closing(
        self,
        decodes: DecodeCounts,
        checkpoints: CheckpointCounts,
        memory: tuple[MemoryUse, ...] = (),
        cost: DecodeCost | None = None,
    ) -> Finished | Failed:
        """The closing message, given what the backend has counted, held and learned by now."""
        command = self.order.command
        assert isinstance(command, Submit)
        if self.failure is not None:
            return Failed(command.id, self.failure)
        before, now = dataclasses.asdict(self.decodes), dataclasses.asdict(decodes)
        report = RunReport(
            DecodeCounts(**{name: now[name] - before[name] for name in now}),
            n_saves=checkpoints.n_saves - self.checkpoints.n_saves,
            n_restores=checkpoints.n_restores - self.checkpoints.n_restores,
            n_fallbacks=checkpoints.n_fallbacks - self.checkpoints.n_fallbacks,
            wall_ms=(time.monotonic_ns() - self.started_ns) / 1e6,
            memory=memory,
            decode_cost=cost or DecodeCost(),
        )
        return Finished(command.id, tuple(self.results[task.slot] for task in command.tasks), report)


def never_started(command: Submit) -> Finished:
    """The closing message of a Submit that was cancelled before the backend had any of it."""
    results = tuple(
        SlotResult(task.slot, "", (), 0, 0, 0, 0, (), (), 0.0, 0.0, 0.0, stop="cancelled") for task in command.tasks
    )
    return Finished(command.id, results, RunReport(DecodeCounts(), 0, 0, 0, 0.0))
