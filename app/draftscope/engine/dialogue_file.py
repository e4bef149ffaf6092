"""Conversations in files: the list of messages that other programs read and write, as JSON.

``{"messages": [{"role": "user", "content": "..."}, ...]}``; a bare list of messages is read as well, and ``content``
may be a list of text parts. A conversation without a chat template has ``"is_plain": true`` beside the messages.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from draftscope.engine.dialogue import Dialogue, DialogueError
from draftscope.engine.protocol import ChatMessage

MAX_BYTES = 64 * 2**20
"""More than any context holds as text."""

_EXAMPLE = 'A conversation is {"messages": [{"role": "user", "content": "Hello"}]}.'


class NotSaved(DialogueError):
    """The conversation is fine, and the place is not."""


def save_dialogue(dialogue: Dialogue, path: Path) -> None:
    """Write the version in use; a file that is there is replaced only once the new one is whole.

    Raises:
        NotSaved: the file cannot be written.
    """
    content: dict[str, Any] = {"messages": [{"role": m.role, "content": m.content} for m in dialogue.messages()]}
    if dialogue.is_plain:
        content["is_plain"] = True
    begun = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        begun.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        begun.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing can be removed
            begun.unlink()
        what = f"The conversation could not be saved to {path}: {error.strerror}."
        raise NotSaved(what, "Choose another file.") from error


def load_dialogue(dialogue: Dialogue, path: Path) -> None:
    """Read a conversation in the place of the present one, which is kept as an earlier version.

    Raises:
        DialogueError: the file cannot be read, or is no conversation; then nothing has changed.
    """
    value = _json_of(path)
    is_plain = isinstance(value, dict) and value.get("is_plain") is True
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list) or not messages:
        raise DialogueError(f"The file {path} holds no list of messages.", _EXAMPLE)
    dialogue.replace([_message(entry, f"{path}, message {n}") for n, entry in enumerate(messages, 1)])
    dialogue.is_plain = is_plain


def _json_of(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DialogueError(f"The file {path} is too large for a conversation.", _EXAMPLE)
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DialogueError(f"The file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DialogueError(f"The file {path} is not UTF-8 text.", _EXAMPLE) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, DialogueError):
            raise
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DialogueError(f"The file {path} is not JSON: {why}.", _EXAMPLE) from error


def _message(entry: Any, place: str) -> ChatMessage:
    role, content = (entry.get("role"), entry.get("content")) if isinstance(entry, dict) else (None, None)
    if isinstance(content, list):
        content = _text_of(content, place)
    if not isinstance(role, str) or not role or not isinstance(content, str):
        raise DialogueError(f"{place} needs a role and a content, both texts.", _EXAMPLE)
    return ChatMessage(role, content)


def _text_of(parts: list[Any], place: str) -> str:
    """The text of a message in parts; what is no text (pictures, sound) is refused."""
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise DialogueError(f"{place} has a part that is no text.", "Only text can go into a conversation here.")
    return "".join(str(text) for text in texts)
