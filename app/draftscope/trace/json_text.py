"""JSON for files: finite numbers only, and without the user's text where that is asked for."""

from __future__ import annotations

import json
import math
from typing import Any

_TEXT_KEYS = frozenset(
    {
        *("text", "tokens", "prompt", "prompts", "prompt_content", "messages", "content"),
        *("grammar", "json_schema"),  # which quote what an output has to say
    }
)


def to_json(value: Any) -> str:
    """One line of JSON, ASCII. Numbers that JSON does not have (NaN, infinities) become null.

    Raises:
        TypeError: something in it is no JSON type.
    """
    return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))


def without_text(value: Any) -> Any:
    """A copy without prompts, outputs, their token ids (which a vocabulary turns into text), grammars and stop strings.

    Numbers stay, whatever their key: ``prompt`` may be the number of a prompt, ``stop`` the reason of an end.
    """
    if isinstance(value, dict):
        return {key: without_text(item) for key, item in value.items() if not _is_text(key, item)}
    if isinstance(value, list | tuple):
        return [without_text(item) for item in value]
    return value


def take_text(value: Any, place: str = "") -> tuple[Any, dict[str, Any]]:
    """What ``without_text`` leaves, and what it takes, by place: a JSON pointer that begins with ``place``."""
    taken: dict[str, Any] = {}
    rest: Any = value
    if isinstance(value, dict):
        rest = {}
        for key, item in value.items():
            inner = f"{place}/{_escaped(str(key))}"
            if _is_text(key, item):
                taken[inner] = item
            else:
                rest[key], more = take_text(item, inner)
                taken |= more
    elif isinstance(value, list | tuple):
        parts = [take_text(item, f"{place}/{index}") for index, item in enumerate(value)]
        rest = [part for part, _ in parts]
        taken = {key: item for _, more in parts for key, item in more.items()}
    return rest, taken


def put_text(value: Any, place: str, text: Any) -> None:
    """Put a text back to where ``take_text`` took it, in place.

    Raises:
        ValueError: there is no such place.
    """
    *way, last = (_unescaped(step) for step in place.removeprefix("/").split("/"))
    for step in way:
        if isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            raise ValueError(f"a text belongs to {place[:200]}, which is not there")
    if not isinstance(value, dict):
        raise ValueError(f"a text belongs to {place[:200]}, which is not there")
    value[last] = text


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _is_text(key: str, value: Any) -> bool:
    if key == "stop":
        return isinstance(value, list | tuple)
    if key == "prompts" and isinstance(value, list | tuple) and all(isinstance(item, dict) for item in value):
        return False  # with settings of their own, which stay; the texts are further inside
    return key in _TEXT_KEYS and not isinstance(value, int | float)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
