"""The JSON form of messages, and of the dataclasses in them: written from the types, checked against them when read."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import types
import typing
from enum import Enum
from typing import Any, Literal

from draftscope.engine.protocol import Message

_TYPES: dict[str, type] = {cls.__name__: cls for cls in typing.get_args(Message)}


class ProtocolError(ValueError):
    """Bytes that are not a message: says which message and field."""


def encode(message: Message) -> bytes:
    """The JSON form of a message, UTF-8."""
    return json.dumps({"type": type(message).__name__} | _plain(message), allow_nan=True).encode()


def decode(data: bytes) -> Message:
    """The message that ``encode`` wrote.

    Raises:
        ProtocolError: not JSON, not a known message, or a field is missing or of the wrong type.
    """
    try:
        fields = json.loads(data)
        cls = _TYPES[fields.pop("type")]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ProtocolError(f"Not a message of this protocol: {data[:80]!r}.") from error
    return typing.cast(Message, _build(cls, fields))


def as_plain(value: Any) -> Any:
    """Dataclasses, enums, tuples and bytes as JSON types (bytes as base64), for ``--json`` and for files."""
    return _plain(value)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def build(cls: type, fields: Any) -> Any:
    """The dataclass ``cls`` from its plain form (see ``as_plain``).

    Raises:
        ProtocolError: a field is missing, unknown or of the wrong type.
    """
    return _build(cls, fields)


def _build(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and isinstance(value, list):
        return tuple(_build(arguments[0], item) for item in value)
    if origin is dict and isinstance(value, dict):
        of_key, of_item = arguments
        return {_build(of_key, _key(of_key, key)): _build(of_item, item) for key, item in value.items()}
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _build(next(a for a in arguments if a is not type(None)), value)
    if origin is Literal and value in arguments:
        return value
    return _build_scalar(getattr(kind, "__supertype__", kind), value)


def _key(kind: Any, key: str) -> Any:
    if getattr(kind, "__supertype__", kind) is not int:
        return key
    try:
        return int(key)
    except ValueError as error:
        raise ProtocolError(f"{key!r} is not an integer key.") from error


def _build_dataclass(cls: type, value: Any) -> Any:
    if not isinstance(value, dict):
        raise ProtocolError(f"{cls.__name__} needs an object, got {type(value).__name__}.")
    hints = _hints(cls)
    if unknown := set(value) - set(hints):
        raise ProtocolError(f"{cls.__name__} has no field {sorted(unknown)[0]!r}.")
    try:
        return cls(**{name: _build(hints[name], item) for name, item in value.items()})
    except TypeError as error:
        raise ProtocolError(f"{cls.__name__}: {error}.") from error


def _build_scalar(kind: Any, value: Any) -> Any:
    try:
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind(value)
        if kind is bytes and isinstance(value, str):
            return base64.b64decode(value, validate=True)
        if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(kind, type) and type(value) is kind:
            return value
    except ValueError as error:
        raise ProtocolError(f"{value!r} is not a {kind.__name__}.") from error
    raise ProtocolError(f"Expected {getattr(kind, '__name__', kind)}, got {value!r}.")
