"""Rounds of a queue of prompts are numbered on."""

from __future__ import annotations

from draftscope.engine.events import Kind, Records, SlotState, empty_records
from draftscope.trace.round_numbers import RoundNumbers


def _records(*rows: tuple[SlotState, int] | int) -> Records:
    """Pairs are states of slots, numbers are spans in that round."""
    records = empty_records(len(rows))
    for record, row in zip(records, rows, strict=True):
        record["round"] = -1
        if isinstance(row, int):
            record["kind"], record["round"] = Kind.SPAN, row
        else:
            record["kind"], record["code"], record["slot"] = Kind.SLOT, row[0], row[1]
    return records


def _numbered(*batches: Records) -> list[int]:
    numbers = RoundNumbers()
    for batch in batches:
        numbers.continue_in(batch)
    return [int(number) for batch in batches for number in batch["round"] if number >= 0]


BEGIN, END = (SlotState.PROMPT, 0), (SlotState.DONE, 0)


def test_a_single_run_keeps_its_numbers() -> None:
    assert _numbered(_records(BEGIN, -1, 0, 0, 1, 2, END)) == [0, 0, 1, 2]


def test_a_run_that_counts_anew_is_numbered_on() -> None:
    assert _numbered(_records(BEGIN, 0, 1, END, BEGIN, 0, 0, 1, END)) == [0, 1, 2, 2, 3]


def test_runs_of_one_round_are_told_apart() -> None:
    assert _numbered(_records(BEGIN, 0, END, BEGIN, 0, END)) == [0, 1]


def test_a_task_that_joins_others_begins_no_run() -> None:
    join = (SlotState.PROMPT, 1)
    assert _numbered(_records(BEGIN, 0, join, 1, END, BEGIN, 2)) == [0, 1, 2]


def test_batches_may_end_anywhere() -> None:
    batches = (_records(BEGIN, 0), _records(1), _records(END, BEGIN), _records(-1, 0), _records(1, END))
    assert _numbered(*batches) == [0, 1, 2, 3]


def test_an_engine_that_counts_on_leaves_no_gap() -> None:
    assert _numbered(_records(BEGIN, 5, 6, END, BEGIN, 7, END)) == [0, 1, 2]
