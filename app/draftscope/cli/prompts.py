"""Prompts of a run: read from a JSON Lines file, and dealt over the slots."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from draftscope.cli.failure import InputError
from draftscope.cli.format_options import format_in
from draftscope.engine.codec import ProtocolError, as_plain, build
from draftscope.engine.protocol import ChatMessage, Prompt, SamplingSettings

_CONTENT_KEYS = ("text", "prompt", "messages", "tokens")
_EXAMPLE = 'Write one a line, such as {"text": "Once"}.'


@dataclass(frozen=True, slots=True)
class RunPrompt:
    """A prompt, and how it is generated from; ``grammar`` and ``json_schema`` as in ``SlotTask``."""

    prompt: Prompt
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    max_tokens: int = 256
    grammar: str = ""
    json_schema: str = ""


def read_prompts(path: Path) -> list[RunPrompt]:
    """The prompts of a JSON Lines file, one a line; blank lines are skipped.

    A line is a string, or an object with exactly one of ``text`` (or ``prompt``), ``messages`` (a list of objects with
    ``role`` and ``content``) and ``tokens`` (a list of ids). It may have ``sampling`` (fields of ``SamplingSettings``),
    ``max_tokens``, and ``grammar`` or ``json_schema``; other keys (a title, a note) are left alone.

    Raises:
        InputError: the file cannot be read, or a line is none of these; names the line.
    """
    try:
        # Other line ends than these may stand inside a JSON string.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"The prompts file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"The prompts file {path} is not UTF-8 text.", _EXAMPLE) from error
    prompts = [_parse(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise InputError(f"The prompts file {path} holds no prompt.", _EXAMPLE)
    return prompts


def _parse(line: str, place: str) -> RunPrompt:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InputError(f"{place} is not JSON: {error}.", _EXAMPLE) from error
    except RecursionError as error:
        raise InputError(f"{place} is nested too deeply.", _EXAMPLE) from error
    if isinstance(value, str):
        value = {"text": value}
    keys = [key for key in _CONTENT_KEYS if isinstance(value, dict) and key in value]
    if len(keys) != 1:
        raise InputError(f"{place} needs exactly one of {', '.join(_CONTENT_KEYS)}.")
    prompt = _prompt(keys[0], value[keys[0]])
    if prompt is None:
        raise InputError(f"{place}: the value of {keys[0]!r} is of the wrong type or empty.")
    parsed = RunPrompt(prompt, _sampling(value.get("sampling", {}), place))
    n = value.get("max_tokens", parsed.max_tokens)
    if type(n) is not int or n < 1:
        raise InputError(f"{place}: 'max_tokens' needs a whole number from 1 on.")
    grammar, schema = format_in(value, place)
    return replace(parsed, max_tokens=n, grammar=grammar, json_schema=schema)


def _prompt(key: str, value: Any) -> Prompt | None:
    if key in ("text", "prompt"):
        return Prompt(text=value) if isinstance(value, str) and value else None
    if not isinstance(value, list) or not value:
        return None
    if key == "tokens":
        are_ids = all(type(token) is int and token >= 0 for token in value)
        return Prompt(tokens=tuple(value)) if are_ids else None
    return Prompt(messages=tuple(ChatMessage(m["role"], m["content"]) for m in value)) if _are_messages(value) else None


def _are_messages(value: list[Any]) -> bool:
    return all(
        isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str) for m in value
    )


def _sampling(fields: Any, place: str) -> SamplingSettings:
    try:
        settings: SamplingSettings = build(SamplingSettings, as_plain(SamplingSettings()) | fields)
    except (ProtocolError, TypeError) as error:
        raise InputError(
            f"{place}: 'sampling' is wrong: {error}",
            "Its fields: temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n, presence_penalty, seed.",
        ) from error
    return settings


def deal(n_prompts: int, n_slots: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Deal prompts over slots: the (slot, prompt index) pairs to start with, and the prompt indices that wait.

    Fewer prompts than slots are repeated round robin; of more, the rest waits until a slot is free.
    """
    first = [(slot, slot % n_prompts) for slot in range(n_slots)]
    return first, list(range(n_slots, n_prompts))
