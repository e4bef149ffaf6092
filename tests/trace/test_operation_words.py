"""Operations in words: every code has some, and what is not known is told as such."""

import pytest

from draftscope.engine.events import Kind, Operation, Reuse
from draftscope.trace.operation_words import OPERATIONS, REUSES, operation_words, reuse_clause, reuse_words
from tests.trace.synthetic import record


def words_of(**columns):
    return operation_words(record(Kind.OPERATION, **({"round": -1, "slot": 2} | columns))[0])


def test_every_operation_and_every_reason_has_words():
    assert set(OPERATIONS) == set(Operation)
    assert set(REUSES) == set(Reuse)
    for words in (*OPERATIONS.values(), *REUSES.values()):
        assert words[0].islower()
        assert not words.endswith(".")


def test_a_prompt_says_how_much_of_it_was_there_and_why_no_more():
    assert words_of(code=Operation.SUBMIT, n=0, m=Reuse.NONE) == "slot 2 · prompt submitted"
    dropped = words_of(code=Operation.SUBMIT, n=12, position=1300, m=Reuse.TAIL_DROPPED)
    assert dropped.endswith("12 of 1,300 prompt tokens reused: what differed was dropped")
    assert "nothing of the prompt reused: reuse was turned off" in words_of(
        code=Operation.SUBMIT, n=0, m=Reuse.TURNED_OFF
    )


@pytest.mark.parametrize(
    ("name", "n", "clause"), [("", 0, ""), ("none", 0, ""), ("kept", 30, "30 of 31 prompt tokens reused: the")]
)
def test_a_result_says_what_it_reused(name, n, clause):
    assert reuse_clause(n, name, 31).startswith(clause)
    assert bool(reuse_clause(n, name, 31)) == bool(clause)


def test_other_operations_say_what_they_kept_and_in_which_round():
    assert words_of(code=Operation.REWIND, n=12, round=7) == "slot 2 · slot rewound · 12 tokens kept · round 7"
    assert words_of(code=Operation.SHIFT, n=1) == "slot 2 · context shifted · 1 token forgotten"
    assert words_of(code=Operation.PROMPT_SAVE, n=64) == "slot 2 · prompt checkpoint saved · after 64 tokens"
    assert words_of(code=Operation.CLEAR) == "slot 2 · slot cleared"


def test_what_is_not_known_is_told_as_such():
    assert words_of(code=99) == "slot 2 · unknown operation 99"
    assert words_of(code=Operation.SUBMIT, m=77) == "slot 2 · prompt submitted"
    assert reuse_words("sung") == "sung"
