"""Conditions of a build server."""

from __future__ import annotations

import pytest

from draftscope.trace.compare import compare
from draftscope.trace.compare_thresholds import ThresholdError, check, parse
from tests.trace.compared import run

SLOWER = compare([run()], [run(factor=4.0)])
EQUAL = compare([run()], [run()])
NOISY = compare([run()], [run(factor=1.2, seed=3)])


@pytest.mark.parametrize(
    ("condition", "has_failed"),
    [
        ("tokens_per_second<0.95", True),
        ("tokens_per_second < 0.2", False),
        ("restore_us>1.5", True),
        ("restore_us.host>=2.5", True),
        ("acceptance_at_1<0.99", False),
        ("a.n_rounds!=80", False),
        ("b.n_rounds==80", True),
        ("outputs_apart>0", False),
        ("changes>0", True),
        ("differences>0", False),
    ],
)
def test_a_condition_is_about_the_ratio_a_side_or_a_count(condition: str, has_failed: bool) -> None:
    assert check(parse(condition), SLOWER).has_failed is has_failed


def test_equal_runs_fail_no_condition_on_ratios() -> None:
    for name in (row.figure.name for row in EQUAL.figures):
        for relation in ("<0.999", ">1.001"):
            outcome = check(parse(f"{name}{relation}"), EQUAL)
            assert outcome.has_failed is (outcome.value != outcome.value), name  # what is 0 on both sides has no ratio


def test_noise_fails_nothing_unless_that_is_asked_for() -> None:
    threshold = parse("tokens_per_second<0.95")
    outcome = check(threshold, NOISY)
    assert not outcome.has_failed
    assert outcome.sentence.endswith("which is within noise.")
    assert check(threshold, NOISY, ignores_noise=True).has_failed


def test_a_figure_that_a_side_lacks_fails() -> None:
    comparison = compare([run()], [run(n_draft=2)])
    outcome = check(parse("acceptance_at_3<0.5"), comparison)
    assert outcome.has_failed
    assert "does not exist (only in A)" in outcome.sentence


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ThresholdError) as raised:
        check(parse("speed<1"), EQUAL)
    assert "'speed'" in raised.value.message
    assert "tokens_per_second" in raised.value.hint and "outputs_apart" in raised.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tokens_per_second",
        "tokens_per_second<",
        "<1",
        "a<b",
        "__import__('os').system('x')<1",
        "x<1;y",
        "x<1e",
        "x<1.2.3",
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ThresholdError):
        parse(text)
