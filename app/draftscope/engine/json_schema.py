"""Turns a JSON schema into a grammar with llama-cpp-python's own converter.

Runs in ``chat_process``: it is a program that follows what a user wrote, and may take any time and memory. The
converter of 0.3.36 writes strings that no JSON reader takes (raw control characters, constants without their
backslashes), and mixes up references of the same last name: that is overridden here, and the rest is its.
"""

from __future__ import annotations

import importlib
import json
import re
from typing import Any

from draftscope.engine.gbnf import grammar_problem

_CHAR = r'[^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])'
_DOT = r'[^"\\\x7F\x00-\x1F]'
_ESCAPES = {"\r": r"\r", "\n": r"\n", '"': r"\"", "\\": r"\\"}

MAX_SENTENCE = 300
"""Characters of a failure that are passed on: the converter puts whole schemas into its sentences."""


class SchemaError(ValueError):
    """Why a schema cannot be used, as a clause."""


def read_schema(text: str) -> dict[str, Any]:
    """The schema in a text.

    Raises:
        SchemaError: not JSON, or not an object.
    """
    try:
        schema = json.loads(text)
    except RecursionError as error:
        raise SchemaError("it is nested too deeply") from error
    except ValueError as error:
        raise SchemaError(f"it is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise SchemaError("a JSON schema is an object, such as {}")
    return schema


def to_gbnf(text: str) -> str:
    """The grammar of a schema. Nothing is fetched: references must be to the schema itself.

    Raises:
        SchemaError: the converter does not take it, or makes a grammar of it that cannot be used.
        MemoryError: more than there is.
    """
    schema = read_schema(text)
    try:
        converter = _make_converter(schema)
        converter.visit(schema, "")
        grammar = str(converter.format_grammar())
        grammar.encode()
    except RecursionError as error:
        raise SchemaError("it is nested too deeply") from error
    except (MemoryError, SchemaError):
        raise
    except Exception as error:  # whatever it raises on what it did not expect: it checks little
        raise SchemaError(f"llama-cpp-python's converter does not take it: {_clause(error)}") from error
    if problem := grammar_problem(grammar):
        raise SchemaError(f"the grammar made of it cannot be used: {problem.rstrip('.')}")
    return grammar


def _clause(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, AttributeError | TypeError | KeyError | IndexError) or not text:
        text = f"a part of it is of a kind that is not foreseen there ({type(error).__name__}: {text})"
    return text if len(text) <= MAX_SENTENCE else f"{text[:MAX_SENTENCE]}…"


class _References(dict[str, Any]):
    """What a schema's references lead to, looked up when they are asked for."""

    def __init__(self, schema: dict[str, Any]) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, reference: str) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise SchemaError(f"the reference {str(reference)[:80]!r} leads out of it; nothing is fetched")
        found: Any = self._schema
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise SchemaError(f"the reference {reference[:80]!r} leads nowhere") from error
        return found


def _make_converter(schema: dict[str, Any]) -> Any:
    theirs: Any = importlib.import_module("llama_cpp.llama_grammar")

    class Converter(theirs.SchemaConverter):  # type: ignore[misc]
        """Theirs, with strings that JSON has and a rule for each reference."""

        def __init__(self) -> None:
            super().__init__(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
            self._refs = _References(schema)
            self._names: dict[str, str] = {}

        def _format_literal(self, literal: str) -> str:
            text = json.dumps(json.loads(literal), ensure_ascii=False)  # it comes in JSON, with escapes
            return '"' + re.sub(r'[\r\n"\\]', lambda match: _ESCAPES[match.group()], text) + '"'

        def _add_rule(self, name: str, rule: str) -> str:
            return str(super()._add_rule(name, _DOT if name == "dot" else rule))

        def _add_primitive(self, name: str, rule: Any) -> str:
            return str(super()._add_primitive(name, theirs.BuiltinRule(_CHAR, []) if name == "char" else rule))

        def _resolve_ref(self, ref: str) -> str:
            if ref not in self._names:
                last = re.sub("[^a-zA-Z0-9-]+", "-", ref.split("/")[-1])
                name = self._names[ref] = f"ref{len(self._names)}-{last}"
                made = self.visit(self._refs[ref], name)
                if made != name:
                    self._rules[name] = made
            return self._names[ref]

    return Converter()
