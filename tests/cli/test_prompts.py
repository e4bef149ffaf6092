"""Prompts: the JSON Lines file and the dealing over slots."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.cli.failure import InputError
from draftscope.cli.prompts import RunPrompt, deal, read_prompts
from draftscope.engine.protocol import ChatMessage, Prompt, SamplingSettings


def _file(folder: Path, text: str) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_form_of_a_line_is_read(tmp_path: Path) -> None:
    text = (
        '"plain"\n\n{"text": "a", "name": "ignored"}\n{"prompt": "b"}\n'
        '{"messages": [{"role": "user", "content": "c"}]}\n{"tokens": [1, 2]}\n'
    )
    assert [line.prompt for line in read_prompts(_file(tmp_path, text))] == [
        Prompt(text="plain"),
        Prompt(text="a"),
        Prompt(text="b"),
        Prompt(messages=(ChatMessage("user", "c"),)),
        Prompt(tokens=(1, 2)),
    ]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "exactly one"),
        ('{"name": "x"}', "exactly one"),
        ('{"text": "a", "tokens": [1]}', "exactly one"),
        ('{"text": 3}', "wrong type"),
        ('{"tokens": [true]}', "wrong type"),
        ('{"tokens": [-1]}', "wrong type"),
        ('{"messages": [{"role": "user"}]}', "wrong type"),
        ('""', "empty"),
        ('{"text": "a", "max_tokens": 0}', "max_tokens"),
        ('{"text": "a", "sampling": {"heat": 1}}', "sampling.*heat"),
        ('{"text": "a", "sampling": 1}', "sampling"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, line: str, word: str) -> None:
    with pytest.raises(InputError, match=rf"line 2.*{word}"):
        read_prompts(_file(tmp_path, f'"good"\n{line}\n'))


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes('\ufeff"a\u2028b\u0085c"\r\n\r\n"😀"'.encode())
    assert [line.prompt.text for line in read_prompts(path)] == ["a\u2028b\u0085c", "😀"]


def test_a_line_may_say_how_it_is_sampled(tmp_path: Path) -> None:
    text = '{"text": "a", "sampling": {"temperature": 0.5, "seed": 3}, "max_tokens": 7}\n"b"\n'
    with_settings, plain = read_prompts(_file(tmp_path, text))
    assert with_settings == RunPrompt(Prompt(text="a"), SamplingSettings(temperature=0.5, seed=3), 7)
    assert plain == RunPrompt(Prompt(text="b"))


def test_a_line_may_say_what_form_its_output_has(tmp_path: Path) -> None:
    text = '{"text": "a", "grammar": "root ::= [0-9]"}\n{"text": "b", "json_schema": {"const": 1}}\n"c"\n'
    forms = [(line.grammar, line.json_schema) for line in read_prompts(_file(tmp_path, text))]
    assert forms == [("root ::= [0-9]", ""), ("", '{"const": 1}'), ("", "")]


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ('"grammar": "root ::= x"', "line 2: 'grammar' cannot be used: Line 1, column 10"),
        ('"json_schema": [1]', "line 2: 'grammar' needs a text"),
        ('"json_schema": "3"', "line 2: 'json_schema' cannot be used"),
        ('"grammar": "root ::= []", "json_schema": {}', "line 2 has both"),
    ],
)
def test_a_form_of_no_use_is_refused_with_its_line(tmp_path: Path, form: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_prompts(_file(tmp_path, f'"first"\n{{"text": "a", {form}}}\n'))


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no prompt"):
        read_prompts(_file(tmp_path, "\n  \n"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_prompts(tmp_path / "none.jsonl")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_prompts(path)


def test_fewer_prompts_than_slots_are_repeated_in_turn() -> None:
    assert deal(2, 5) == ([(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)], [])


def test_more_prompts_than_slots_wait() -> None:
    assert deal(5, 2) == ([(0, 0), (1, 1)], [2, 3, 4])
