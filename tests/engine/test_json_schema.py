"""JSON schemas become grammars whose texts JSON readers take; what cannot become one is refused in time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftscope.engine.chat import ChatRenderer
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.gbnf import grammar_problem
from draftscope.engine.json_schema import SchemaError, to_gbnf
from draftscope.engine.output_format import format_problem

TREE = {
    "$defs": {
        "tree_node": {
            "type": "object",
            "properties": {"value": {"type": "number"}, "left": {"$ref": "#/$defs/tree_node"}},
            "required": ["value"],
        }
    },
    "$ref": "#/$defs/tree_node",
}
SAME_LAST_NAME = {
    "a": {"item": {"const": 1}},
    "b": {"item": {"const": 2}},
    "type": "array",
    "items": [{"$ref": "#/a/item"}, {"$ref": "#/b/item"}],
}

GOOD: list[dict[str, Any]] = [
    {},
    {"type": "string"},
    {"type": ["integer", "null"]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 30},
    {"type": "object", "properties": {f"p{i}": {"type": "number"} for i in range(40)}},
    {"enum": ["a", 1, None, {"x": [True]}]},
    {"type": "string", "pattern": "^(a|b)[0-9]{2,3}.*$"},
    {"type": "string", "format": "date-time"},
    {"oneOf": [{"type": "string", "maxLength": 100}, {"type": "object", "additionalProperties": {"type": "integer"}}]},
    {"allOf": [{"properties": {"a": {"type": "null"}}}, {"properties": {"b": {"const": "ü"}}}]},
    TREE,
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "null"}}, "$ref": "#/$defs/a"},
    {"type": "object", "properties": {"next": {"$ref": "#"}, "x/y": {"enum": [1]}, "z": {"$ref": "#/properties/x~1y"}}},
    SAME_LAST_NAME,
]


@pytest.mark.parametrize("schema", GOOD, ids=range(len(GOOD)))
def test_a_schema_becomes_a_grammar_that_can_be_used(schema: dict[str, Any]) -> None:
    assert grammar_problem(to_gbnf(json.dumps(schema))) == ""


def test_constants_are_written_as_json_has_them() -> None:
    for value in ("a\\b", 'say "x"', "tab\there", "line\nend", "é😀", "\x01"):
        grammar = to_gbnf(json.dumps({"const": value}))
        literal = next(line for line in grammar.splitlines() if line.startswith("root ::= ")).removeprefix("root ::= ")
        assert json.loads(json.loads(literal)) == value  # GBNF escapes these characters as JSON does


def test_strings_hold_no_raw_control_characters() -> None:
    rules = dict(line.split(" ::= ", 1) for line in to_gbnf('{"type": "string"}').splitlines())
    assert rules["char"].startswith(r'[^"\\\x7F\x00-\x1F]')
    rules = dict(line.split(" ::= ", 1) for line in to_gbnf('{"type": "string", "pattern": "^.$"}').splitlines())
    assert rules["dot"] == r'[^"\\\x7F\x00-\x1F]'


def test_references_of_the_same_last_name_are_told_apart() -> None:
    rules = dict(line.split(" ::= ", 1) for line in to_gbnf(json.dumps(SAME_LAST_NAME)).splitlines())
    assert sorted(rules[name] for name in rules if name.startswith("ref")) == ['"1"', '"2"']


BAD = [
    ("[]", "a JSON schema is an object"),
    ("true", "a JSON schema is an object"),
    ('{"type": ', "it is not JSON"),
    ("[" * 100_000, "nested too deeply"),
    ('{"$ref": "https://localhost:1/schema.json"}', "nothing is fetched"),
    ('{"$ref": "http://localhost:1/schema.json"}', "leads out of it"),
    ('{"$ref": "file:///etc/passwd"}', "leads out of it"),
    ('{"$ref": "#/nowhere"}', "leads nowhere"),
    ('{"type": "colour"}', "Unrecognized schema"),
    ('{"type": "array", "items": true}', "a kind that is not foreseen"),
    ('{"properties": 3}', "a kind that is not foreseen"),
    ('{"type": "string", "pattern": "a+"}', "Pattern must start with"),
    ('{"type": "array", "items": {"type": "string"}, "maxItems": 3000}', ""),
    ('{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}', "itself"),
]


@pytest.mark.parametrize(("text", "says"), BAD, ids=range(len(BAD)))
def test_what_is_no_schema_or_cannot_be_one_is_refused_with_a_reason(text: str, says: str) -> None:
    with pytest.raises(SchemaError) as caught:
        to_gbnf(text)
    assert says in str(caught.value)
    assert not str(caught.value).endswith(".")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("grammar", "schema", "says"),
    [
        ('root ::= "a"', "", ""),
        ("", "{}", ""),
        ("", "", ""),
        ("root ::= x", "", "Line 1, column 10: the rule 'x' is used and not defined."),
        ("", "[1]", "A JSON schema is an object, such as {}."),
        ("", '{"a": "' + "x" * 300_000 + '"}', "It is longer than 256 KiB."),
    ],
)
def test_what_can_be_seen_at_once_is_told_at_once(grammar: str, schema: str, says: str) -> None:
    assert format_problem(grammar, schema) == says


class Room:
    """A renderer, and how a test waits for it."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self.renderer = ChatRenderer(self._ready.set, render_limit_s=1.5)

    def convert(self, schemas: dict[int, str]) -> dict[int, str]:
        self._ready.clear()
        rendering = self.renderer.render(None, {}, schemas)
        assert self._ready.wait(60)
        assert rendering.result() == {}
        return rendering.grammars


@pytest.fixture
def room() -> Iterator[Room]:
    room = Room()
    yield room
    room.renderer.close()


def test_schemas_are_converted_by_slot_in_the_process_of_templates(room: Room) -> None:
    made = room.convert({2: '{"const": 1}', 0: json.dumps(TREE)})
    assert made == {2: to_gbnf('{"const": 1}'), 0: to_gbnf(json.dumps(TREE))}


def test_it_is_told_when_there_is_no_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp" / "__init__.py").write_text("raise ImportError('it is not here')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))  # which the process takes over
    room = Room()
    try:
        with pytest.raises(
            EngineError, match=r"JSON schemas need llama-cpp-python, which .*: it is not here"
        ) as caught:
            room.convert({0: "{}"})
    finally:
        room.renderer.close()
    assert caught.value.code is ErrorCode.ENGINE_MISSING
    assert "a grammar in the place of a JSON schema" in caught.value.hint


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "string", "minLength": 2000000000}',
        '{"type": "array", "items": {"type": "string"}, "minItems": 900000000}',
        '{"type": "array", "items": {"type": "string"}, "maxItems": 900000}',
        json.dumps({"properties": {f"p{i}": {} for i in range(2500)}}),
    ],
    ids=["long string", "many items", "deep", "many optional properties"],
)
def test_a_schema_that_takes_too_long_or_too_much_is_given_up(room: Room, schema: str) -> None:
    room.convert({0: "{}"})  # the process is there
    started = time.monotonic()
    with pytest.raises(EngineError, match="The JSON schema of slot 1 cannot be used") as caught:
        room.convert({1: schema})
    assert caught.value.code is ErrorCode.BAD_GRAMMAR
    assert time.monotonic() - started < 10
    assert room.convert({0: '{"const": 1}'}) == {0: to_gbnf('{"const": 1}')}
