"""JSON for files: finite numbers only, and without the user's text where that is asked for."""

from __future__ import annotations

import json
import math
from typing import Any

_TEXT_KEYS = frozenset({"text", "tokens", "prompt", "prompts", "prompt_content", "messages", "content"})


def to_json(value: Any) -> str:
    """One line of JSON, ASCII. Numbers that JSON does not have (NaN, infinities) become null.

    Raises:
        TypeError: something in it is no JSON type.
    """
    return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))


def without_text(value: Any) -> Any:
    """A copy without prompts, outputs, their token ids (which a vocabulary turns into text) and stop strings.

    Numbers stay, whatever their key: ``prompt`` may be the number of a prompt, ``stop`` the reason of an end.
    """
    if isinstance(value, dict):
        return {key: without_text(item) for key, item in value.items() if not _is_text(key, item)}
    if isinstance(value, list | tuple):
        return [without_text(item) for item in value]
    return value


def _is_text(key: str, value: Any) -> bool:
    if key == "stop":
        return isinstance(value, list | tuple)
    return key in _TEXT_KEYS and not isinstance(value, int | float)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
