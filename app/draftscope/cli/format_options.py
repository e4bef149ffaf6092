"""The form that an output must have: the options for it, and the keys of a prompts file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from draftscope.cli.failure import InputError, UsageError
from draftscope.engine.output_format import format_problem

_OPTIONS = ("--grammar", "--grammar-file", "--json-schema", "--json-schema-file")


def add_format_options(group: Any) -> None:
    """What the output must be, for all prompts; see ``format_of``. The names are llama.cpp's."""
    group.add_argument(
        "--grammar", metavar="GBNF", help="let the output be what this grammar allows, from rule 'root' on"
    )
    group.add_argument("--grammar-file", metavar="F.gbnf", type=Path, help="the same, read from a file")
    group.add_argument(
        "--json-schema", metavar="SCHEMA", help="let the output be JSON of this schema; '{}': any object"
    )
    group.add_argument("--json-schema-file", metavar="F.json", type=Path, help="the same, read from a file")


def format_of(options: argparse.Namespace) -> tuple[str, str] | None:
    """Grammar and JSON schema that the options give, one of them empty; None where they give neither.

    Raises:
        UsageError: more than one is given, or what is given cannot be used.
        InputError: a file cannot be read, or what it holds cannot be used.
    """
    values = (options.grammar, options.grammar_file, options.json_schema, options.json_schema_file)
    given = [(name, value) for name, value in zip(_OPTIONS, values, strict=True) if value is not None]
    if not given:
        return None
    if len(given) > 1:
        raise UsageError(f"{given[0][0]} and {given[1][0]} exclude each other.", "Give the output one form.")
    name, value = given[0]
    text = _read(value) if isinstance(value, Path) else value
    chosen = (text, "") if "grammar" in name else ("", text)
    problem = f"{name} is empty." if not text.strip() else format_problem(*chosen)
    if problem and isinstance(value, Path):
        raise InputError(f"{value} cannot be used: {problem}")
    if problem:
        raise UsageError(f"{name} cannot be used: {problem}", "")
    return chosen


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text.") from error


def format_in(line: dict[str, Any], place: str) -> tuple[str, str]:
    """Grammar and JSON schema of a line of a prompts file: ``grammar`` is text, ``json_schema`` an object or its text.

    Raises:
        InputError: both, of another type, or of no use; names the line.
    """
    grammar, schema = line.get("grammar", ""), line.get("json_schema", "")
    if isinstance(schema, dict):
        schema = json.dumps(schema)
    if not isinstance(grammar, str) or not isinstance(schema, str):
        raise InputError(f"{place}: 'grammar' needs a text, and 'json_schema' an object.")
    if grammar and schema:
        raise InputError(f"{place} has both 'grammar' and 'json_schema'.", "Leave one out.")
    if problem := format_problem(grammar, schema):
        raise InputError(f"{place}: {'grammar' if grammar else 'json_schema'!r} cannot be used: {problem}")
    return grammar, schema
