"""What ran where, and what was asked for, from a trace's header: whatever of it is there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from draftscope.base import units
from draftscope.trace.compare_settings import tasks_of
from draftscope.trace.fallback_words import mechanism_words

_TOLD_ELSEWHERE = frozenset(
    {
        *("program", "engine", "model", "settings", "machine", "build", "clock", "model_file", "draft_file"),
        *("draftscope", "is_patched", "devices"),
    }
)
"""Keys of the header, of its build and of its machine that other facts repeat."""

_TIME_FORM = "%d %b %Y, %H:%M %Z"

Facts = Iterator[tuple[str, str]]

_OWN_TEXT = frozenset({"prompt", "grammar", "json_schema", "stop"})


def mapping(value: Any) -> Mapping[str, Any]:
    """The object that should be there; an empty one where something else is."""
    return value if isinstance(value, dict) else {}


def model_name(header: Mapping[str, Any]) -> str:
    """The name of the model's file, or what is known instead."""
    model = mapping(header.get("model"))
    return Path(str(model.get("path") or "")).name or str(model.get("description") or "an unknown model")


def model_facts(header: Mapping[str, Any]) -> Facts:
    """The model that was loaded."""
    model = mapping(header.get("model"))
    yield from _named(model, {"path": "File", "description": "Kind", "architecture": "Architecture"})
    if isinstance(size := model.get("size_bytes"), int):
        yield "Size", units.bytes_text(size)
    yield from _named(
        model, {"n_params": "Parameters", "n_layer": "Layers", "n_embd": "Width", "n_vocab": "Vocabulary"}
    )
    if fingerprint := mapping(header.get("model_file")).get("fingerprint"):
        yield "Fingerprint", str(fingerprint)
    if "is_recurrent" in model:
        yield "State", "recurrent, beside a KV cache" if model["is_recurrent"] else "KV cache only"


def granted_facts(header: Mapping[str, Any]) -> Facts:
    """What the engine granted, and why."""
    model = mapping(header.get("model"))
    yield from _named(model, {"n_slots": "Slots", "n_ctx": "Context of a slot", "n_threads": "Threads"})
    devices = model.get("devices")
    if isinstance(devices, list):
        yield "Devices", ", ".join(map(str, devices)) or "CPU"
    speculation = mapping(model.get("speculation"))
    if speculation.get("is_active"):
        yield "Drafts", f"up to {speculation.get('n_draft_max')} tokens a round ({_words(speculation.get('family'))})"
    elif speculation:
        yield "Drafts", f"off: {speculation.get('reason')}"
    way = mapping(model.get("way_back"))
    if way.get("granted"):
        yield "Way back", f"{mechanism_words(str(way['granted']))} (asked for: {way.get('asked')})"
        yield "Why", str(way.get("why") or "as asked for")


def place_facts(header: Mapping[str, Any]) -> Facts:
    """Programs and machine."""
    model = mapping(header.get("model"))
    if "program" in header:
        yield "Program", str(header["program"])
    if "engine" in header or "engine" in model:
        patched = ", with this program's patches" if model.get("is_patched") else ""
        yield "Engine", f"{header.get('engine') or model.get('engine')}{patched}"
    build, machine = mapping(header.get("build")), mapping(header.get("machine"))
    for found in (build, machine):
        for key, value in found.items():
            if key not in _TOLD_ELSEWHERE:
                yield from _flat(_capital(_words(key.removeprefix("n_"))), value)
    for key, value in header.items():
        if key not in _TOLD_ELSEWHERE:
            yield from _flat(_words(key), value)


def settings_facts(header: Mapping[str, Any]) -> Facts:
    """Everything that was asked for but the prompts."""
    for key, value in mapping(header.get("settings")).items():
        if key == "model":  # the file is told with the model
            value = {name: item for name, item in mapping(value).items() if name != "path"}
        if key not in ("prompts", "tasks"):
            yield from _flat(_words(key), value)
    sampled = [{key: value for key, value in task.items() if key not in _OWN_TEXT} for task in tasks_of(header)]
    if sampled and all(task == sampled[0] for task in sampled):
        yield from _flat("every prompt", sampled[0])
    else:
        for number, task in enumerate(sampled):
            yield from _flat(f"prompt {number}", task)


def prompts_of(header: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The prompts with what the output had to be, as text."""
    for number, task in enumerate(tasks_of(header)):
        prompt = mapping(task.get("prompt"))
        messages = prompt.get("messages") if isinstance(prompt.get("messages"), list) else []
        parts = [f"{mapping(message).get('role')}: {mapping(message).get('content')}" for message in messages or []]
        if prompt.get("text"):
            parts.append(str(prompt["text"]))
        if prompt.get("tokens"):
            parts.append(f"token ids {json.dumps(prompt['tokens'])}")
        if prompt.get("is_continuation"):
            parts.append("(continues what the slot held)")
        parts += [f"{_words(key)}: {task[key]}" for key in ("grammar", "json_schema") if task.get(key)]
        yield f"Prompt {number}", "\n".join(parts) or "(empty)"


def _named(found: Mapping[str, Any], names: Mapping[str, str]) -> Facts:
    for key, name in names.items():
        value = found.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            yield name, f"{value:,}"
        elif value not in (None, ""):
            yield name, str(value)


def recorded_at(header: Mapping[str, Any]) -> str:
    """When a run began, in the reader's time zone; '' where the file does not say."""
    value = mapping(header.get("clock")).get("utc")
    try:
        return datetime.fromisoformat(value).astimezone().strftime(_TIME_FORM) if isinstance(value, str) else ""
    except (ValueError, OverflowError):  # a file may hold anything
        return ""


def place_name(header: Mapping[str, Any]) -> str:
    """The machine in a few words; '' where the file does not say."""
    machine = mapping(header.get("machine"))
    return str(machine.get("processor") or machine.get("system") or "")


def _flat(name: str, value: Any) -> Facts:
    if isinstance(value, int) and name.endswith(" bytes"):
        yield name.removesuffix(" bytes"), units.bytes_text(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{name}: {_words(key)}", item)
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"
    elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        yield name, ", ".join(value)
    elif value not in (None, "", []):
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _words(name: Any) -> str:
    return str(name).replace("_", " ")
