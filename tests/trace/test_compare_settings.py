"""What was not the same in two runs, from their headers."""

from __future__ import annotations

from typing import Any

from draftscope.trace.compare_settings import Difference, differences_of
from draftscope.trace.trace import Trace


def trace(**header: Any) -> Trace:
    """A trace with a header."""
    return Trace(header=header)


def task(text: str, seed: int = 0) -> dict[str, Any]:
    """A prompt as ``run`` writes it down."""
    return {"prompt": {"text": text, "messages": [], "tokens": []}, "sampling": {"seed": seed}, "max_tokens": 64}


def test_equal_headers_have_no_difference_whatever_was_measured_on_the_way() -> None:
    ours = trace(model={"path": "/a/m.gguf", "n_params": 7, "load_ms": 3.0, "memory": [1]}, clock={"utc": "2026-01-01"})
    theirs = trace(
        model={"path": "/b/m.gguf", "n_params": 7, "load_ms": 9.0, "memory": [2]}, clock={"utc": "2026-01-02"}
    )
    assert differences_of(ours, theirs) == []


def test_differences_come_in_groups_the_prompt_first() -> None:
    ours = trace(
        program="draftscope 1",
        machine={"cores": 2},
        model={"n_params": 7, "n_threads": 1, "way_back": {"granted": "cow", "why": "x"}},
        settings={"context": {"n_draft_max": 3}, "prompts": [task("one")]},
    )
    theirs = trace(
        program="draftscope 2",
        machine={"cores": 4},
        model={"n_params": 8, "n_threads": 2, "way_back": {"granted": "host", "why": "y"}},
        settings={"context": {"n_draft_max": 5}, "prompts": [task("two")]},
    )
    assert differences_of(ours, theirs) == [
        Difference("prompt", "prompt 0: prompt.text", "one", "two"),
        Difference("settings", "context.n_draft_max", "3", "5"),
        Difference("model", "n_params", "7", "8"),
        Difference("granted", "n_threads", "1", "2"),
        Difference("granted", "way_back.granted", "cow", "host"),
        Difference("build", "program", "draftscope 1", "draftscope 2"),
        Difference("machine", "machine.cores", "2", "4"),
    ]


def test_what_differs_for_every_prompt_is_told_once() -> None:
    ours, theirs = (trace(settings={"prompts": [task("a", seed), task("b", seed)]}) for seed in (1, 2))
    assert differences_of(ours, theirs) == [Difference("settings", "every prompt: sampling.seed", "1", "2")]


def test_the_window_and_the_command_line_write_the_same_tasks() -> None:
    ours = trace(settings={"prompts": [task("a")]})
    theirs = trace(settings={"tasks": [{"slot": 0} | task("a")]})
    assert differences_of(ours, theirs) == []


def test_long_texts_are_shown_from_where_they_part_and_control_characters_are_written_out() -> None:
    ours, theirs = (trace(settings={"prompts": [task("x" * 500 + end + "\n\x1b[31m" + "y" * 500)]}) for end in "AB")
    (difference,) = differences_of(ours, theirs)
    assert "A\\n\\x1b[31m" in difference.a and "B\\n\\x1b[31m" in difference.b
    assert len(difference.a) < 90
    assert difference.a.startswith("…") and difference.a.endswith("…")


def test_headers_that_are_not_what_they_should_be_are_compared_as_they_are() -> None:
    ours, theirs = trace(model=[1], settings="none"), trace(settings={"prompts": {"a": 1}}, other={"x": None})
    assert [difference.group for difference in differences_of(ours, theirs)] == ["other"]


def test_unequal_numbers_of_prompts_are_one_difference_and_those_of_both_are_compared() -> None:
    ours = trace(settings={"prompts": [task("a", 1)]})
    theirs = trace(settings={"prompts": [task("b", 1), *(task(text, 2) for text in "cde")]})
    assert differences_of(ours, theirs) == [
        Difference("prompt", "prompt 0: prompt.text", "a", "b"),
        Difference("prompt", "prompts", "1", "4"),
    ]
    several = trace(settings={"prompts": [task("a", 1), task("a", 1), task("a", 2)]})
    fewer = trace(settings={"prompts": [task("a", 3), task("a", 3)]})
    assert differences_of(several, fewer) == [
        Difference("prompt", "prompts", "3", "2"),
        Difference("settings", "every prompt: sampling.seed", "1", "3"),
    ]


def test_no_side_of_a_difference_is_blank() -> None:
    ours, theirs = trace(settings={"draft_path": "", "note": ""}), trace(settings={"note": "a"})
    assert differences_of(ours, theirs) == [Difference("settings", "note", "empty", "a")]
    assert differences_of(trace(), trace(settings={"prompts": [task("a")]})) == [
        Difference("prompt", "prompts", "not in the file", "1")
    ]
