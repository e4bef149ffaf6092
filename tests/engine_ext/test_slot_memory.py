"""What slots keep between tasks: the shortest sequences that random ones (``slot_lives``) found going wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Kind, Operation
from draftscope.engine.protocol import Prompt, SlotResult, SlotTask
from tests.engine_ext.harness import GREEDY
from tests.engine_ext.random_slots import Tokens
from tests.engine_ext.slot_bytes import without_rows
from tests.engine_ext.slot_place import N_BATCH, N_CTX, Place, Room, base_text, check_all, memory_of, open_place

TEXT, OTHER = base_text(0), base_text(1)


def ask(place: Place, slot: int, prompt: Tokens, n: int = 16, *, continues: bool = False) -> SlotResult:
    """One task to its end; it has written what plain decoding writes."""
    held = tuple(place.engine.slot_tokens(slot)) if continues else ()
    place.bench.submit(SlotTask(slot, Prompt(is_continuation=continues), GREEDY, n, ignore_eos=True), prompt)
    (result,) = place.bench.finish()
    place.check_tokens(held + prompt, result.tokens)
    return result


@contextmanager
def opened(kind: str, room: Room) -> Iterator[Place]:
    """A place with contexts; every invariant holds at the end."""
    with open_place(kind) as place:
        place.configure(room)
        yield place
        check_all(place, room.n_slots)


# ---- hidden rows that were not saved


def test_that_a_slot_restored_without_hidden_rows_can_be_saved_forked_and_rewound() -> None:
    with opened("qwen35-rollback", Room(3)) as place:
        ask(place, 0, TEXT[:60])
        place.engine.restore_slot(0, without_rows(place.engine.save_slot(0)))
        place.engine.fork_slot(0, 1)
        place.engine.restore_slot(2, place.engine.save_slot(0))
        assert memory_of(place, 1) == memory_of(place, 0) == memory_of(place, 2)
        for slot in range(3):
            assert ask(place, slot, OTHER[:4], continues=True).n_reused >= 75
        place.engine.rewind_slot(1, 40)  # before the first position that the MTP context has
        assert ask(place, 1, OTHER[:4], continues=True).draft_n > 0


def test_that_a_slot_of_which_nothing_is_in_memory_any_more_is_forked_and_saved_with_its_tokens() -> None:
    with opened("qwen35-rollback", Room(3)) as place:
        ask(place, 0, TEXT[:60])
        place.engine.rewind_slot(0, 10)  # before the first prompt checkpoint
        assert place.engine.slot_facts(0)["n_decoded"] == 0
        place.engine.fork_slot(0, 1)
        place.engine.restore_slot(2, place.engine.save_slot(0))
        for slot in range(3):
            assert place.engine.slot_tokens(slot) == list(TEXT[:10])
            assert ask(place, slot, OTHER[:4], continues=True).n_reused == 0


def test_that_rows_an_earlier_task_left_and_a_full_prompt_chunk_are_more_than_one_decode_takes() -> None:
    with opened("glm4moe", Room(1)) as place:
        first = ask(place, 0, TEXT[:20], 9)
        assert place.engine.slot_facts(0)["n_waiting"] > 1
        result = ask(place, 0, OTHER[: 2 * N_BATCH], continues=True)
        assert result.n_reused == 20 + len(first.tokens) - 1


# ---- states that are refused


@pytest.mark.parametrize("kind", ["qwen35-host", "step35", "qwen35-cow"])
def test_that_a_state_that_llama_cpp_refuses_leaves_the_slot_as_it_was(kind: str) -> None:
    with opened(kind, Room(2)) as place:
        ask(place, 0, TEXT[:60])
        ask(place, 1, OTHER[:70])
        saved, before = place.engine.save_slot(0), [memory_of(place, slot) for slot in range(2)]
        for change in (lambda: place.engine.restore_slot(1, saved), lambda: place.engine.fork_slot(0, 1)):
            place.engine.inject_faults(restore=1)
            with pytest.raises(EngineError, match="refused the state for slot 1") as refused:
                change()
            assert refused.value.code is ErrorCode.BAD_STATE
            assert [memory_of(place, slot) for slot in range(2)] == before
        assert place.engine.counts()["n_refused_states"] == 2
        assert ask(place, 1, TEXT[:3], continues=True).n_reused == before[1][1]


def test_that_a_cached_prompt_that_llama_cpp_refuses_is_read_again() -> None:
    with opened("qwen35-host", Room(1)) as place:
        first = ask(place, 0, TEXT[:60])
        ask(place, 0, OTHER[:60])
        place.engine.inject_faults(restore=1)
        again = ask(place, 0, TEXT[:60] + first.tokens + OTHER[:3])
        assert (again.reuse, again.n_reused) == ("refused", 0)


def test_that_a_slot_whose_context_is_full_can_be_saved_and_restored() -> None:
    with opened("qwen35-rollback", Room(2)) as place:
        assert ask(place, 0, TEXT[: N_CTX - 4], 40).stop == "context_full"
        place.engine.restore_slot(1, place.engine.save_slot(0))
        assert memory_of(place, 1) == memory_of(place, 0)


# ---- windows


@pytest.mark.parametrize("kind", ["step35", "step35-plain", "gemma4-plain"])
def test_that_a_state_holds_no_more_than_its_window_so_an_edit_before_it_is_read_again(kind: str) -> None:
    with opened(kind, Room(2, n_checkpoints=0)) as place:
        ask(place, 0, TEXT[:140])
        place.engine.fork_slot(0, 1)
        assert ask(place, 1, TEXT[:110] + OTHER[:9]).n_reused == 0
        assert ask(place, 1, TEXT[:10] + OTHER[9:30]).n_reused >= 9  # all 128 positions were read in this slot


def test_that_the_memory_of_windows_in_use_goes_back_as_far_as_they_are_whole() -> None:
    with opened("step35", Room(1)) as place:
        ask(place, 0, TEXT[:140])
        assert ask(place, 0, TEXT[:110] + OTHER[:9]).reuse == "tail_dropped"
    with opened("step35-plain", Room(1, n_checkpoints=0)) as place:
        ask(place, 0, TEXT[:50], 8)
        assert ask(place, 0, TEXT[:30] + OTHER[:9]).n_reused == 30  # nothing was forgotten yet


# ---- prompt checkpoints without room


@pytest.mark.parametrize("n_checkpoints", [0.5, 1])
def test_that_a_prompt_whose_checkpoints_find_no_room_is_still_decoded_in_chunks(n_checkpoints: float) -> None:
    with opened("qwen35-plain", Room(4, n_checkpoints, spacing=16)) as place:
        for slot in range(4):
            place.bench.submit(SlotTask(slot, Prompt(), GREEDY, 1, ignore_eos=True), base_text(slot)[:180])
        place.bench.finish()
        assert place.engine.counts()["prompt"] <= 180 / 16 + 2  # one of them for each spacing of all slots, and the end


def test_that_an_evicted_checkpoint_is_recorded_with_its_own_bytes() -> None:
    with opened("gemma4-plain", Room(1, 1, spacing=16)) as place:
        place.bench.ring.read()
        ask(place, 0, TEXT[:40])
        records = place.bench.ring.read()
    of_kind = records[records["kind"] == Kind.OPERATION]
    saved = {int(row["position"]): int(row["size_bytes"]) for row in of_kind[of_kind["code"] == Operation.PROMPT_SAVE]}
    gone = of_kind[of_kind["code"] == Operation.PROMPT_EVICT]
    assert len(gone) > 0
    assert all(saved[int(row["position"])] == row["size_bytes"] for row in gone)


@pytest.mark.parametrize("rides", [True, False])
@pytest.mark.parametrize("kind", ["qwen35-host", "qwen35-device", "qwen35-cow", "qwen3next-host", "qwen35-rollback"])
def test_that_prompt_checkpoints_of_a_long_answer_lie_close_although_drafts_are_rejected(
    kind: str, rides: bool
) -> None:
    with opened(kind, room := Room(1, rides=rides)) as place:
        ask(place, 0, TEXT[:20], 200)
        records = place.bench.ring.read()
        rounds = records[records["kind"] == Kind.ROUND]
        assert (rounds["m"] < rounds["n"]).mean() > 0.3
        saves = records[(records["kind"] == Kind.OPERATION) & (records["code"] == Operation.PROMPT_SAVE)]
        gaps = np.diff([0, *saves["position"].tolist(), int(rounds["position"][-1])])
        assert gaps.max() <= room.spacing + 12  # a round or two beyond
