"""What form the output of a task must have: free text, what a grammar allows, or what a JSON schema does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.gbnf import MAX_BYTES, check_grammar, grammar_problem
from draftscope.engine.json_schema import SchemaError, read_schema
from draftscope.engine.protocol import SlotTask
from draftscope.engine.task_words import whose

_EITHER = "Give one of the two, or neither."


def check_format(task: SlotTask) -> None:
    """Refuse a grammar that no engine can follow, and a schema that is none.

    Raises:
        EngineError: BAD_GRAMMAR.
    """
    name = whose(task.slot)
    if task.grammar and task.json_schema:
        raise EngineError(ErrorCode.BAD_GRAMMAR, f"{name.capitalize()} has a grammar and a JSON schema.", _EITHER)
    if task.grammar:
        check_grammar(task.grammar, name)
    if problem := schema_problem(task.json_schema):
        raise bad_schema(name, problem)


def schema_problem(text: str) -> str:
    """Why a text is no JSON schema, as a clause; empty for no text, and for a schema that the converter may refuse."""
    if not text:
        return ""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES >> 10} KiB"
    try:
        read_schema(text)
    except SchemaError as error:
        return str(error)
    return ""


def format_problem(grammar: str, json_schema: str) -> str:
    """What is wrong with the one that is given, as a sentence; empty when nothing is, as far as can be seen at once."""
    if grammar:
        return grammar_problem(grammar)
    problem = schema_problem(json_schema)
    return f"{problem[0].upper()}{problem[1:]}." if problem else ""


def bad_schema(name: str, why: str) -> EngineError:
    """The error of a schema that cannot be used; ``name``: whose it is, ``why``: a clause."""
    what = f"The JSON schema of {name} cannot be used: {why.rstrip('.')}."
    return EngineError(ErrorCode.BAD_GRAMMAR, what, "Simplify the schema, or give a grammar.")


def schemas_of(tasks: tuple[SlotTask, ...]) -> dict[int, str]:
    """The schemas that must be converted, by the task's index."""
    return {index: task.json_schema for index, task in enumerate(tasks) if task.json_schema}


def with_grammars(tasks: tuple[SlotTask, ...], grammars: Mapping[int, str]) -> tuple[SlotTask, ...]:
    """The tasks with the grammars that were made of their schemas, by the task's index."""
    return tuple(
        dataclasses.replace(task, grammar=grammars[index], json_schema="") if index in grammars else task
        for index, task in enumerate(tasks)
    )
