"""What went wrong in public with slots, the shared MTP context and its hidden rows. None of it may happen here.

Also with the library as it is published: the last test runs this file and those of the lives of slots on it.

==============================================================  ======================================================
A case, and where others met it                                 The test; here unless another file is named
==============================================================  ======================================================
every slot drafts with the rows of slot 0                       test_round: the_same_prompt_gives_the_same_tokens_...
a graph is used again for a batch of another shape              test_round: alternating_batch_shapes_give_the_logits_...
fewer slots than asked for, silently                            slots_that_cannot_be_had_are_refused
an MTP context for one slot, or smaller than the target         every_slot_drafts_to_the_end_of_its_context
a slot released between draft and verification leaves indices   test_cancel_storms: another_thread_may_cancel_...
the target is rewound and the MTP context is not                a_rewound_slot_is_in_step_and_drafts
the MTP context stays behind after a restore; its pending row   an_edited_prompt_is_drafted_for_like_a_fresh_one
is zero or stale then
a slot is stuck when its client has gone                        test_cancel_storms: no_slot_is_stuck_...
a context shift with speculation ends the process               a_shifted_slot_writes_what_it_writes_without_mtp;
                                                                full_slots_forget_their_oldest_tokens_and_...;
                                                                a_recurrent_slot_is_not_shifted_and_says_why
an offset is wrong after a partial acceptance                   every_number_of_accepted_tokens_leaves_the_right_state
the drafter never gets the rows of the prompt                   the_rows_of_the_whole_prompt_are_fed
the first draft of a prompt uses the row of the one before      a_task_drafts_as_if_none_had_been_before_it
no way back at the first partial rejection without rollback     test_field_cases: steps_back_that_are_not_granted_...
a state without hidden rows is refused instead of restored      test_slot_states: a_slot_goes_on_with_another_way_...
a view of rows is kept over the next decode                     rows_that_wait_are_not_those_of_the_decode_after
a row is that of a later position                               test_patches: patch_3_returns_the_hidden_rows_...
malformed hidden rows                                           test_slot_states: malformed_hidden_rows_change_nothing
a search for a prompt checkpoint that never finds one           an_edited_prompt_is_drafted_for_like_a_fresh_one
checkpoints that nobody counts and a cleared prompt keeps       a_cleared_slot_gives_back_the_bytes_that_were_shown
a restored slot that reuses nothing                             test_slot_states: a_slot_goes_on_in_another_slot_...
an empty slot that is saved ends the process                    an_empty_slot_is_not_saved_and_says_so
==============================================================  ======================================================
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Kind, Origin
from draftscope.engine.library import engine_facts
from draftscope.engine.protocol import Prompt, SlotResult, SlotTask
from tests.engine_ext.harness import GREEDY
from tests.engine_ext.random_slots import Tokens
from tests.engine_ext.slot_place import N_CTX, ROOT, Place, Room, base_text, check_all, memory_of, open_place

TEXT, OTHER = base_text(0), base_text(1)
IS_STOCK = not engine_facts().patches
WITH_MTP = ("qwen35-rollback", "qwen35-host", "qwen3next-cow", "glm4moe")
FILES = ("test_slot_cases.py", "test_slot_memory.py", "test_slot_states.py", "test_cancel_storms.py")


def submit(place: Place, slot: int, prompt: Tokens, n: int = 16, **more: bool) -> None:
    """A greedy task. ``more``: ``reuse``, ``is_continuation``."""
    continues = more.pop("is_continuation", False)
    task = SlotTask(slot, Prompt(is_continuation=continues), GREEDY, n, ignore_eos=True, **more)
    place.bench.submit(task, prompt)


def ask(place: Place, slot: int, prompt: Tokens, n: int = 16, **more: bool) -> SlotResult:
    """The same to its end, and right."""
    held = tuple(place.engine.slot_tokens(slot)) if more.get("is_continuation") else ()
    submit(place, slot, prompt, n, **more)
    (result,) = place.bench.finish()
    place.check_tokens(held + prompt, result.tokens)
    check_all(place, place.n_slots)
    return result


def drafts(place: Place) -> list[tuple[int, int, int, float]]:
    """(position, draft position, token, probability) of all that was drafted since the last look."""
    records = place.bench.ring.read()
    drafted = records[(records["kind"] == Kind.TOKEN) & (records["code"] != Origin.SAMPLED)]
    return [(int(row["position"]), int(row["n"]), int(row["token"]), float(row["value"])) for row in drafted]


# ---- slots and the shared MTP context


@pytest.mark.parametrize("n_slots", [0, -1, 65, 1 << 20])
def test_that_slots_that_cannot_be_had_are_refused(n_slots: int) -> None:
    with open_place("glm4moe") as place:
        assert place.configure(Room(5))["n_slots_asked"] == place.configure(Room(5))["n_slots"] == 5
        with pytest.raises(EngineError) as refused:
            place.configure(Room(n_slots))
        assert refused.value.code is ErrorCode.BAD_SETTINGS


@pytest.mark.parametrize("kind", WITH_MTP)
def test_that_every_slot_drafts_to_the_end_of_its_context(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(4))
        for slot in range(4):
            submit(place, slot, base_text(slot)[: N_CTX - 30], 60)
        results = place.bench.finish()
        assert {result.stop for result in results} == {"context_full"}
        for result in results:
            place.check_tokens(base_text(result.slot)[: N_CTX - 30], result.tokens)
            assert len(result.tokens) == 30
            assert result.draft_n > 0
        check_all(place, 4)


@pytest.mark.parametrize("kind", WITH_MTP)
def test_that_a_rewound_slot_is_in_step_and_drafts(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(2, spacing=16))
        ask(place, 1, TEXT[:70])
        for n in (80, 69, 40, 1):
            place.engine.rewind_slot(1, n)
            check_all(place, 2)
            facts = place.engine.slot_facts(1)
            assert facts["n_tokens"] == n
            assert facts["n_draft"] <= n
        assert ask(place, 1, OTHER[:9], is_continuation=True).draft_n > 0


@pytest.mark.parametrize("kind", ["qwen35-rollback", "qwen35-host", "qwen3next-cow", "qwen3next-device"])
@pytest.mark.parametrize("use_hooks", [True, False])
def test_that_an_edited_prompt_is_drafted_for_like_a_fresh_one(kind: str, use_hooks: bool) -> None:
    edited = TEXT[:70] + OTHER[:1]
    with open_place(kind) as place:
        place.configure(Room(1, n_cached=0, spacing=70))
        ask(place, 0, edited, 40)
        expected = drafts(place)
        place.configure(Room(1, n_cached=0, spacing=70, use_hooks=use_hooks))
        ask(place, 0, TEXT[:120], 40)
        drafts(place)
        result = ask(place, 0, edited, 40)
        assert (result.reuse, result.n_reused) == ("restored", 70)
        assert (drafts(place) == expected) == use_hooks  # the pending row of position 70 is that of the first draft


def test_that_a_shifted_slot_writes_what_it_writes_without_mtp() -> None:
    written = []
    for kind in ("glm4moe", "glm4moe-plain"):
        with open_place(kind) as place:
            assert place.configure(Room(1, n_cached=0))["why_not_shift"] == ""
            ask(place, 0, TEXT[:60], 1)
            place.engine.shift_slot(0, 4, 20)
            check_all(place, 1)
            assert tuple(place.engine.slot_tokens(0))[:40] == TEXT[:4] + TEXT[24:60]
            submit(place, 0, OTHER[:5], 40, is_continuation=True)
            (result,) = place.bench.finish()
            check_all(place, 1)
            written.append(result.tokens)
            assert result.n_reused == 40
    assert written[0] == written[1]


def test_that_full_slots_forget_their_oldest_tokens_and_write_what_they_write_without_mtp() -> None:
    written = []
    for kind in ("glm4moe", "glm4moe-plain"):
        with open_place(kind) as place:
            place.configure(Room(3, shift=True))
            for slot in range(3):
                submit(place, slot, base_text(slot)[:100], 300)
            while place.bench.backend.step():
                check_all(place, 3)
            results = sorted(place.bench.backend.take_results(), key=lambda result: result.slot)
            assert {(result.stop, len(result.tokens)) for result in results} == {("max_tokens", 300)}
            written.append([result.tokens for result in results])
    assert written[0] == written[1]


@pytest.mark.parametrize("kind", ["qwen35-rollback", "qwen3next-cow", "qwen35-plain"])
def test_that_a_recurrent_slot_is_not_shifted_and_says_why(kind: str) -> None:
    with open_place(kind) as place:
        why = place.configure(Room(1))["why_not_shift"]
        ask(place, 0, TEXT[:60])
        before = memory_of(place, 0)
        with pytest.raises(EngineError, match=why) as refused:
            place.engine.shift_slot(0, 4, 20)
        assert (refused.value.code, bool(why)) == (ErrorCode.UNSUPPORTED, True)
        assert memory_of(place, 0) == before
        assert ask(place, 0, OTHER[:3], is_continuation=True).n_reused == before[1]


@pytest.mark.parametrize("kind", WITH_MTP)
def test_that_every_number_of_accepted_tokens_leaves_the_right_state(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(4))
        accepted: set[int] = set()
        for slot in range(4):
            ask(place, slot, base_text(slot)[:30], 150)
            records = place.bench.ring.read()
            accepted |= set(records[(records["kind"] == Kind.ROUND)]["m"].tolist())
        assert accepted == {0, 1, 2, 3}


# ---- hidden rows


@pytest.mark.parametrize("kind", WITH_MTP)
def test_that_the_rows_of_the_whole_prompt_are_fed(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(1))
        ask(place, 0, TEXT[:150], 1)  # three chunks
        facts = place.engine.slot_facts(0)
        assert (facts["n_draft"], facts["n_waiting"]) == (150, 1)


@pytest.mark.parametrize("kind", WITH_MTP)
def test_that_a_task_drafts_as_if_none_had_been_before_it(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(1, n_cached=0))
        ask(place, 0, TEXT[:40], 30)
        expected = drafts(place)
        ask(place, 0, OTHER[:50], 30, reuse=False)
        drafts(place)
        ask(place, 0, TEXT[:40], 30)
        assert drafts(place) == expected


@pytest.mark.parametrize("kind", WITH_MTP)
def test_that_rows_that_wait_are_not_those_of_the_decode_after(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(2))
        ask(place, 0, TEXT[:40])
        state = place.engine.get_state(0)
        ask(place, 1, OTHER[:50])
        assert place.engine.get_state(0) == state
        assert place.engine.get_state(1) != state


# ---- memory


@pytest.mark.parametrize("kind", ["qwen35-rollback", "qwen3next-host", "gemma4-plain"])
def test_that_a_cleared_slot_gives_back_the_bytes_that_were_shown(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(2, n_checkpoints=6, spacing=16))
        for slot in range(2):
            ask(place, slot, base_text(slot)[:120])
        held = [place.engine.slot_facts(slot)["prompt_checkpoint_bytes"] for slot in range(2)]
        assert min(held) > 0
        place.engine.clear_slot(0)
        shown = {name: host for name, host, _ in place.engine.memory()}
        assert shown["prompt_checkpoints"] == place.engine.slot_facts(1)["prompt_checkpoint_bytes"] == held[1]
        place.engine.clear_slot(1)
        shown = {name: host for name, host, _ in place.engine.memory()}
        assert shown["prompt_checkpoints"] == 0


@pytest.mark.parametrize("kind", ["qwen35-rollback", "glm4moe", "gemma4-plain"])
def test_that_an_empty_slot_is_not_saved_and_says_so(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(2))
        for change in (lambda: place.engine.save_slot(0), lambda: place.engine.fork_slot(0, 1)):
            with pytest.raises(EngineError, match="empty") as refused:
                change()
            assert refused.value.code is ErrorCode.BAD_STATE
        assert ask(place, 0, TEXT[:20]).n_reused == 0


@pytest.mark.skipif(IS_STOCK, reason="this is the run on the stock package")
def test_that_all_of_this_holds_on_the_library_as_it_is_published() -> None:
    if not (site := os.environ.get("DRAFTSCOPE_STOCK_SITE")):
        pytest.fail("DRAFTSCOPE_STOCK_SITE is not set: run the tests through 'make test', which builds it.")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((site, str(ROOT)))}
    files = [str(Path(__file__).parent / name) for name in FILES]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", *files]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout[-8000:]
    assert "SKIPPED [1]" in done.stdout
