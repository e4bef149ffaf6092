"""What two runs were asked for and ran on, side by side: prompts, settings, model, what was granted, build, machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from draftscope.trace.trace import Trace

GROUPS = ("prompt", "settings", "model", "granted", "build", "machine", "other")
"""In this order differences are told: what explains most comes first."""

_MODEL_FACTS = ("n_", "description", "architecture", "size_bytes", "has_", "is_recurrent", "fingerprint", "metadata")
_GRANTED = frozenset({"n_slots", "n_slots_asked", "n_ctx", "n_threads", "devices", "shifts", "why_not_shift"})
_MEASURED = frozenset({"load_ms", "memory", "calibration", "calibration_ms", "path", "draft_path", "why"})
"""Keys that differ between any two runs, or follow from the rest."""

_HEADER_GROUPS = {
    "program": "build",
    "engine": "build",
    "build": "build",
    "machine": "machine",
    "model_file": "model",
    "draft_file": "model",
}
_TEXT_KEYS = ("prompt", "grammar", "json_schema", "stop")
_MOST_CHARACTERS = 72
_ABSENT = "not in the file"
_EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not the same: where, and how it stands in each, as short text."""

    group: str
    name: str
    a: str
    b: str


def differences_of(a: Trace, b: Trace) -> list[Difference]:
    """Every difference of two traces' headers, in the order of ``GROUPS``; empty: the same was run on the same.

    Prompts that one of the two does not have are a difference of their number, not of each of their settings.
    """
    n_tasks = [len(tasks_of(trace.header)) for trace in (a, b)]
    ours, theirs = (dict(_facts(trace.header, min(n_tasks))) for trace in (a, b))
    found = [
        Difference(group, name, *_sides(ours.get((group, name), _ABSENT), theirs.get((group, name), _ABSENT)))
        for group, name in dict.fromkeys((*ours, *theirs))
        if ours.get((group, name), _ABSENT) != theirs.get((group, name), _ABSENT)
    ]
    joined = _joined(found, min(n_tasks))
    if n_tasks[0] != n_tasks[1]:
        joined.append(Difference("prompt", "prompts", *(str(n) if n else _ABSENT for n in n_tasks)))
    return sorted(joined, key=lambda difference: GROUPS.index(difference.group))


def _joined(found: list[Difference], n_tasks: int) -> list[Difference]:
    """What differs in the same way for every prompt is told once."""
    places: dict[tuple[str, str, str, str], list[Difference]] = {}
    for difference in found:
        name = difference.name.partition(": ")[2] or difference.name
        places.setdefault((difference.group, name, difference.a, difference.b), []).append(difference)
    joined = []
    for (group, name, one, other), members in places.items():
        if len(members) == n_tasks > 1:
            joined.append(Difference(group, f"every prompt: {name}", one, other))
        else:
            joined += members
    return joined


def _facts(header: Mapping[str, Any], n_tasks: int) -> Iterator[tuple[tuple[str, str], Any]]:
    settings, model = _mapping(header.get("settings")), _mapping(header.get("model"))
    for number, task in enumerate(tasks_of(header)[:n_tasks]):
        for name, value in task.items():
            group = "prompt" if name in _TEXT_KEYS else "settings"
            yield from _flat(group, f"prompt {number}: {name}", value)
    for name, value in settings.items():
        if name not in ("prompts", "tasks"):
            yield from _flat("settings", name, value)
    for name, value in model.items():
        if name not in header and name not in _mapping(header.get("build")):
            yield from _flat(_group_of(name), name, value)
    for name, value in header.items():
        if name not in ("settings", "model", "clock"):
            yield from _flat(_HEADER_GROUPS.get(name, "other"), name, value)


def tasks_of(header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What each prompt was and how it was sampled, whichever program wrote the trace: the slot is left out."""
    settings = _mapping(header.get("settings"))
    listed = settings.get("prompts") or settings.get("tasks") or []
    tasks = [dict(task) for task in listed if isinstance(task, dict)] if isinstance(listed, list) else []
    for task in tasks:
        task.pop("slot", None)
    return tasks


def _group_of(name: str) -> str:
    if name in _GRANTED or name in ("speculation", "way_back"):
        return "granted"
    return "model" if name.startswith(_MODEL_FACTS) else "build"


def _flat(group: str, name: str, value: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """One entry a leaf; lists of plain values are one."""
    if name.rpartition(".")[2] in _MEASURED:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if item not in ("", [], False) or name.rpartition(": ")[2] != "prompt":
                yield from _flat(group, f"{name}.{key}", item)
    else:
        yield (group, name), value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _in_one_line(text: str) -> str:
    """With what ends a line, or controls a terminal, written out."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _sides(a: Any, b: Any) -> tuple[str, str]:
    """Short, and of long texts the part where they begin to differ."""
    texts = [
        _in_one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) for value in (a, b)
    ]
    if max(map(len, texts)) <= _MOST_CHARACTERS:
        return texts[0] or _EMPTY, texts[1] or _EMPTY
    pairs = zip(texts[0], texts[1], strict=False)
    same = next((i for i, (one, other) in enumerate(pairs) if one != other), min(map(len, texts)))
    start = max(0, same - _MOST_CHARACTERS // 3)
    shown = [text[start : start + _MOST_CHARACTERS] for text in texts]
    ends = [("…" if start else "", "…" if start + _MOST_CHARACTERS < len(text) else "") for text in texts]
    first, second = (f"{before}{text}{after}" for text, (before, after) in zip(shown, ends, strict=True))
    return first, second
