"""What can be refused of tasks and settings before an engine sees them."""

from __future__ import annotations

import dataclasses
from typing import Any

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.output_format import check_format
from draftscope.engine.protocol import ANY_SLOT, ModelReport, Prompt, SamplingSettings, SlotTask
from draftscope.engine.task_words import whose

MOST_SLOTS = 64
"""Slots that an engine can have."""

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


def loaded_model(model: ModelReport | None) -> ModelReport:
    """The model, if there is one.

    Raises:
        EngineError: NOT_LOADED.
    """
    if model is None:
        raise EngineError(ErrorCode.NOT_LOADED, "No model is loaded.", "Open a GGUF file first.")
    return model


def check_tasks(tasks: tuple[SlotTask, ...], model: ModelReport) -> None:
    """Refuse what can be refused before any prompt is looked at.

    Raises:
        EngineError: BAD_SETTINGS, BAD_PROMPT or BAD_GRAMMAR.
    """
    if not tasks:
        raise EngineError(ErrorCode.BAD_SETTINGS, "There is nothing to run: no task was given.")
    slots = [task.slot for task in tasks]
    for task in tasks:
        _check_task(task, model)
        if task.slot != ANY_SLOT and slots.count(task.slot) > 1:
            raise EngineError(ErrorCode.BAD_SETTINGS, f"Slot {task.slot} was given more than one task.")


def check_slot(slot: int, model: ModelReport) -> None:
    """Refuse a slot that is not there.

    Raises:
        EngineError: BAD_SETTINGS.
    """
    if not 0 <= slot < model.n_slots:
        there = f"the engine has {model.n_slots}, counted from 0"
        raise EngineError(ErrorCode.BAD_SETTINGS, f"There is no slot {slot}; {there}.")


def check_slot_numbers(slots: tuple[int, ...]) -> None:
    """Refuse slots that no engine has, whatever is loaded.

    Raises:
        EngineError: BAD_SETTINGS.
    """
    for slot in slots:
        if not 0 <= slot < MOST_SLOTS:
            what = f"There is no slot {slot}; an engine has at most {MOST_SLOTS}, counted from 0."
            raise EngineError(ErrorCode.BAD_SETTINGS, what)


def _check_task(task: SlotTask, model: ModelReport) -> None:
    if task.slot != ANY_SLOT:
        check_slot(task.slot, model)
    check_numbers(task)
    where = whose(task.slot)
    _check_sampling(task.sampling, where)
    if task.max_tokens < 1:
        what = f"{where.capitalize()} is to generate {task.max_tokens} tokens; 1 is the least."
        raise EngineError(ErrorCode.BAD_SETTINGS, what)
    _check_prompt(task.prompt, where)
    if task.prompt.is_continuation:
        _check_continuation(task)
    _check_text(*task.stop, what=f"A stop string of {where}")
    check_format(task)


def _check_continuation(task: SlotTask) -> None:
    if task.slot == ANY_SLOT:
        what = "A continuation goes on from what a slot holds, and this one is for any slot."
        raise EngineError(ErrorCode.BAD_SETTINGS, what, "Name the slot.")
    if not task.reuse:
        what = f"Slot {task.slot} is to go on from what it holds, and to use nothing of it again."
        raise EngineError(ErrorCode.BAD_SETTINGS, what, "Ask for one of the two.")
    if task.prompt.messages:
        what = f"The continuation for slot {task.slot} is a conversation, which begins anew."
        raise EngineError(ErrorCode.BAD_PROMPT, what, "Give all messages as a prompt: what is common is reused.")


def _check_sampling(sampling: SamplingSettings, where: str) -> None:
    check_numbers(sampling)
    for name, (low, high) in _SAMPLING_LIMITS.items():
        value = getattr(sampling, name)
        if not low <= value <= high:  # NaN is not
            what = f"The setting {name} of {where} is {value}; it must be between {low} and {high}."
            raise EngineError(ErrorCode.BAD_SETTINGS, what)


def _check_prompt(prompt: Prompt, where: str) -> None:
    n_given = sum(map(bool, (prompt.text, prompt.messages, prompt.tokens)))
    if n_given == 0 and not prompt.is_continuation:
        raise EngineError(ErrorCode.BAD_PROMPT, f"The prompt of {where} is empty.", "Give it some text.")
    if n_given > 1:
        what = f"The prompt of {where} has more than one of text, messages and tokens."
        raise EngineError(ErrorCode.BAD_PROMPT, what, "Give it exactly one.")
    _check_text(prompt.text, what=f"The prompt of {where}")
    for message in prompt.messages:
        _check_text(message.role, message.content, what=f"A message of {where}")


def _check_text(*texts: str, what: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            why = f"{what} holds half a character (a lone surrogate at {error.start}), which no model can read."
            raise EngineError(ErrorCode.BAD_PROMPT, why, "Remove it.") from error


def check_tokens(tokens: tuple[int, ...], task: SlotTask, model: ModelReport) -> None:
    """Refuse the prompt of a task in tokens.

    Raises:
        EngineError: BAD_PROMPT.
    """
    where = whose(task.slot)
    if not tokens and not task.prompt.is_continuation:
        raise EngineError(ErrorCode.BAD_PROMPT, f"The prompt of {where} is empty.", "Give it some text.")
    if len(tokens) >= model.n_ctx:
        what = f"The prompt of {where} has {len(tokens)} tokens; a slot holds {model.n_ctx}."
        raise EngineError(ErrorCode.BAD_PROMPT, what, "Shorten it or load with a larger context.")
    for token in tokens:
        if not 0 <= token < model.n_vocab:
            what = f"Token {token} in the prompt of {where} is outside the vocabulary ({model.n_vocab})."
            raise EngineError(ErrorCode.BAD_PROMPT, what)


def check_goes_on(slot: int, n_held: int, n_more: int, n_ctx: int) -> None:
    """Refuse a continuation of nothing, or one that is too long for what the slot holds.

    Raises:
        EngineError: BAD_PROMPT.
    """
    if n_held == 0:
        what = f"Slot {slot} holds nothing, so there is nothing to go on from."
        raise EngineError(ErrorCode.BAD_PROMPT, what, "Give it a prompt.")
    if n_held + n_more >= n_ctx:
        what = f"Slot {slot} holds {n_held} tokens, and {n_more} more do not fit: it has room for {n_ctx}."
        raise EngineError(ErrorCode.BAD_PROMPT, what, "Shorten it, clear the slot, or load with a larger context.")
