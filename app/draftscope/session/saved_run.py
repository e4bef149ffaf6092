"""What a trace's header and results say, in the types that the live run has; what cannot be read is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from draftscope.engine.codec import ProtocolError, build
from draftscope.engine.dialogue import Dialogue, DialogueError
from draftscope.engine.events import Kind, Origin, Records, SlotState
from draftscope.engine.protocol import ContextSettings, MemoryUse, ModelReport, Prompt, SlotResult, SlotTask
from draftscope.session.slot_chat import SlotChat
from draftscope.trace.compare_settings import tasks_of
from draftscope.trace.trace import Trace

Built = TypeVar("Built")


def model_of(trace: Trace) -> ModelReport | None:
    """The model that the trace is of; None where the file does not say, or says it in another version's words."""
    return _built(ModelReport, trace.header.get("model"))


def context_of(trace: Trace) -> ContextSettings | None:
    """The contexts as they were asked for."""
    settings = trace.header.get("settings")
    return _built(ContextSettings, settings.get("context")) if isinstance(settings, dict) else None


def results_of(trace: Trace) -> list[SlotResult]:
    """The results of the tasks in the file's order; those of a file without text have none."""
    built = (_built(SlotResult, _with_text(result)) for result in trace.results)
    return [result for result in built if result is not None]


def memory_of(trace: Trace, model: ModelReport | None) -> tuple[MemoryUse, ...]:
    """Bytes by kind as the engine told last: of the samples where there are any."""
    predicted = {use.kind: use.predicted_bytes for use in model.memory} if model is not None else {}
    last = {kind: (host, device) for _, kind, host, device in trace.memory}
    if not last:
        return model.memory if model is not None else ()
    return tuple(MemoryUse(kind, host, device, predicted.get(kind, -1)) for kind, (host, device) in last.items())


def run_tasks(trace: Trace) -> tuple[SlotTask, ...]:
    """The tasks, as far as the file says which slot served which prompt."""
    settings = trace.header.get("settings")
    listed = settings.get("tasks") if isinstance(settings, dict) else None
    if isinstance(listed, list):
        built = [_built(SlotTask, task) for task in listed]
        return tuple(task for task in built if task is not None)
    return tuple(_tasks_of_results(trace)) or tuple(_tasks_in_order(trace))


def _tasks_of_results(trace: Trace) -> Iterator[SlotTask]:
    for result in trace.results:
        slot, prompt = result.get("slot"), _built(Prompt, result.get("prompt_content", {}))
        if isinstance(slot, int) and slot >= 0 and prompt is not None:
            yield SlotTask(slot, prompt)


def _tasks_in_order(trace: Trace) -> Iterator[SlotTask]:
    """Of a recording that was cut off: prompts are dealt to the slots in their order."""
    slots = set(trace.store.slots())
    for slot, task in enumerate(tasks_of(trace.header)):
        prompt = _built(Prompt, task.get("prompt", {}))
        if slot in slots and prompt is not None:
            yield SlotTask(slot, prompt)


def chats_of(
    trace: Trace, tasks: tuple[SlotTask, ...], results: list[SlotResult], *, goes_on: bool
) -> dict[int, SlotChat]:
    """The conversation of each slot with the places of its answers; ``goes_on``: the last one may be unfinished."""
    tasks_by_slot: dict[int, list[SlotTask]] = defaultdict(list)
    results_by_slot: dict[int, list[SlotResult]] = defaultdict(list)
    for task in tasks:
        tasks_by_slot[task.slot].append(task)
    for result in results:
        results_by_slot[result.slot].append(result)
    slots = sorted(set(trace.store.slots()) | set(tasks_by_slot))
    return {slot: _chat(trace, slot, tasks_by_slot[slot], results_by_slot[slot], goes_on=goes_on) for slot in slots}


def _chat(trace: Trace, slot: int, tasks: list[SlotTask], results: list[SlotResult], *, goes_on: bool) -> SlotChat:
    tokens = trace.store.kind(Kind.TOKEN)
    own = tokens[tokens["slot"] == slot]
    places = _places(trace, slot, own)
    chat = SlotChat(Dialogue(is_plain=True))
    for number, (first, end) in enumerate(places):
        result = results[number] if number < len(results) else None
        prompt = tasks[number].prompt if number < len(tasks) else Prompt()
        _begin(chat, prompt)
        if goes_on and result is None and number == len(places) - 1:
            chat.first_token = first
            break
        if result is not None and result.text:
            turn = chat.dialogue.take_answer(result)
        else:  # cut off, or without text, whose tokens are shown as such
            turn = chat.dialogue.take_cut_off(_kept_text(trace, own[first:end]))
        if turn is not None:
            chat.places[turn.number] = (first, end)
        chat.error = result.error if result is not None else ""
    if not places and tasks:
        _begin(chat, tasks[0].prompt)
    return chat


def _kept_text(trace: Trace, tokens: Records) -> str:
    return trace.pieces.text(tokens["token"][tokens["code"] != Origin.REJECTED].tolist())


def _begin(chat: SlotChat, prompt: Prompt) -> None:
    """A task begins: it goes on with what was said, or says something new behind it."""
    said = chat.dialogue.turns
    if prompt.messages and [turn.text for turn in said] == [message.content for message in prompt.messages[:-1]]:
        places = [chat.places.get(turn.number) for turn in said]
        chat.dialogue = chat.dialogue.started_anew(prompt)
        told = zip(chat.dialogue.turns, places, strict=False)
        chat.places = {turn.number: place for turn, place in told if place is not None}
    elif not said and not prompt.is_continuation:
        chat.dialogue = chat.dialogue.started_anew(prompt)
    else:
        text = prompt.text or "\n".join(message.content for message in prompt.messages)
        with suppress(DialogueError):  # a file may hold halves of characters
            chat.dialogue.say(text)


def _places(trace: Trace, slot: int, tokens: Records) -> list[tuple[int, int]]:
    """From where to where the tokens of each task of a slot stand among all that the slot has."""
    states = trace.store.kind(Kind.SLOT)
    begun = states["t_start_ns"][(states["slot"] == slot) & (states["code"] == SlotState.PROMPT)]
    edges = np.searchsorted(tokens["t_start_ns"], begun).tolist() if len(tokens) else []
    if len(tokens) and not edges:
        edges = [0]
    ends = [*edges[1:], len(tokens)]
    return list(zip(edges, ends, strict=True)) if edges else []


def _with_text(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result of any file as the protocol has it: without the recorder's own keys, and with what a text-free lacks."""
    names = {field.name for field in fields(SlotResult)}
    return {"text": "", "tokens": []} | {key: value for key, value in result.items() if key in names}


def _built(kind: type[Built], plain: Any) -> Built | None:
    """A dataclass from a file; None where it does not fit."""
    if not isinstance(plain, dict):
        return None
    try:
        found: Built = build(kind, plain)
        return found
    except ProtocolError:
        return None
