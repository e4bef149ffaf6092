"""JSON for files."""

import json
import math

import pytest

from draftscope.trace.json_text import to_json, without_text


def test_what_json_has_no_number_for_becomes_null():
    value = {"a": [1.5, math.nan, (math.inf, -math.inf)], "b": {"c": math.nan, 3: True}}
    assert json.loads(to_json(value)) == {"a": [1.5, None, [None, None]], "b": {"c": None, "3": True}}


def test_what_is_no_json_type_is_refused():
    with pytest.raises(TypeError):
        to_json({"path": object()})


def test_text_goes_and_figures_stay():
    value = {
        "results": [{"text": "secret", "tokens": (1, 2), "stop": "max_tokens", "prompt": 3, "draft_n": 7}],
        "settings": {"stop": ["secret"], "prompts": ["secret"], "messages": [{"role": "user", "content": "secret"}]},
        "prompt": {"text": "secret"},
        "grammar": 'root ::= "secret"',
        "json_schema": {"const": "secret"},
    }
    assert without_text(value) == {"results": [{"stop": "max_tokens", "prompt": 3, "draft_n": 7}], "settings": {}}
