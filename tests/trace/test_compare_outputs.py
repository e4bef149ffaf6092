"""Where outputs part."""

from __future__ import annotations

from typing import Any

from draftscope.trace.compare_outputs import Parting, compare_outputs
from draftscope.trace.compare_words import outputs_words
from draftscope.trace.pieces import PieceTable
from draftscope.trace.trace import Trace
from tests.trace.compared import run

PIECES = {1: b" the", 2: b" cat", 3: b" sat", 4: b" dog"}


def trace(*results: dict[str, Any], is_complete: bool = True) -> Trace:
    """A trace of results."""
    return Trace(results=list(results), pieces=PieceTable(PIECES), is_complete=is_complete)


def result(slot: int, *tokens: int, **more: Any) -> dict[str, Any]:
    """A result with its tokens."""
    return {"slot": slot, "tokens": list(tokens), "n_prompt": 10} | more


def test_the_first_token_that_differs_is_told_with_its_place_and_both_texts() -> None:
    outputs = compare_outputs(trace(result(0, 1, 2, 3)), trace(result(0, 1, 4, 3)))
    assert outputs.partings == (Parting(0, -1, 1, 11, 2, 4, " cat", " dog", " the"),)
    assert outputs_words(outputs) == [
        "Slot 0: the outputs part at token 2, position 11 after ' the': A has ' cat' (2), B has ' dog' (4)."
    ]


def test_an_output_that_ends_before_the_other_parts_there() -> None:
    (parting,) = compare_outputs(trace(result(0, 1, 2, 3)), trace(result(0, 1))).partings
    assert (parting.index, parting.token_a, parting.token_b) == (1, 2, None)
    assert "B has its end" in outputs_words(compare_outputs(trace(result(0, 1, 2)), trace(result(0, 1))))[0]


def test_a_recording_that_was_cut_off_does_not_part_where_it_ends() -> None:
    ours = run()
    theirs = run()
    theirs.store = make_shorter(ours)
    theirs.is_complete = False
    assert compare_outputs(ours, theirs).are_equal


def make_shorter(whole: Trace) -> Any:
    """The store of the first half of a run."""
    from tests.trace.synthetic import make_store

    records = whole.store.in_order()
    return make_store(records[: len(records) // 2])


def test_prompts_are_matched_by_their_number_whichever_slot_served_them() -> None:
    ours = trace(result(0, 1, 2, prompt=0), result(1, 3, 3, prompt=1))
    theirs = trace(result(1, 1, 2, prompt=0), result(0, 3, 4, prompt=1))
    (parting,) = compare_outputs(ours, theirs).partings
    assert (parting.prompt, parting.slot, parting.index) == (1, 1, 1)


def test_several_tasks_of_a_slot_are_compared_one_by_one() -> None:
    ours = trace(result(0, 1), result(0, 2))
    assert compare_outputs(ours, trace(result(0, 1), result(0, 2))).n_compared == 2
    outputs = compare_outputs(ours, trace(result(0, 1)))
    assert (outputs.n_compared, outputs.n_only_one, outputs.are_equal) == (1, 1, False)
    assert outputs_words(outputs)[-1] == "1 task is in one of the two only."


def test_files_without_text_say_that_their_tokens_cannot_be_compared() -> None:
    ours = run()
    records = ours.store.in_order()
    records["token"] = -1
    from tests.trace.synthetic import make_store

    outputs = compare_outputs(ours, Trace(store=make_store(records)))
    assert outputs.why_not.startswith("A file was written without text")
    assert not outputs.are_equal


def test_results_that_hold_no_tokens_are_replaced_by_the_records() -> None:
    ours, theirs = run(), run()
    ours.results = [{"slot": 0, "tokens": ["1", None]}]
    assert compare_outputs(ours, theirs).n_compared == 4
