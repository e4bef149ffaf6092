"""What went wrong in public for people who roll a recurrent state back. None of it may happen here.

Also with the library as it is published: the last test runs all others of this file on it.

==============================================================  ======================================================
A case, and where others met it                                 The test; here unless another file is named
==============================================================  ======================================================
a whole decode rolled back gives a wrong state                  a_native_rollback_never_drops_a_whole_decode;
(llama.cpp 26695)                                               test_patches: patch_4_grants_only_rollbacks_within_...
a second rollback before the next decode (llama.cpp 28007)      a_second_rollback_waits_for_a_decode
a rollback after the state was moved by another slot's decode   no_rollback_is_granted_once_other_slots_were_decoded;
                                                                slots_of_unequal_decodes_go_back_to_their_own_states
an older device state gives back the newest (llama.cpp 23520)   a_task_never_goes_back_to_a_state_of_the_one_before;
                                                                test_checkpoints: epochs_count_saves_...
device states that end the process: nothing saved, bad magic,   whatever_fails_at_random_...;
several ranges of cells (llama.cpp 28209), another size         test_patches: patch_2_...
a cut or foreign host state wipes the sequence                  a_wiped_slot_is_read_again_and_the_user_is_told;
                                                                test_faults: a_refusal_is_recorded_...
a restore after the keys are gone claims success                a_slot_that_has_lost_its_memory_is_not_restored_in_part
no memory for a save (llama.cpp 23210)                          test_faults: a_refusal_is_recorded_...,
                                                                device_memory_refused_in_the_middle_of_a_run_...
device memory grows with every save (llama.cpp 23446)           device_memory_is_allocated_once_a_slot
fewer steps back granted than asked for, silently               steps_back_that_are_not_granted_are_said_...;
                                                                test_library: the_stock_package_saves_states_...
a search for a checkpoint that cannot match, or matches the     a_task_never_goes_back_to_a_state_of_the_one_before
wrong one (llama.cpp 22384, 24055)
checkpoints that nobody counts and a cleared prompt keeps       host_checkpoints_are_one_a_slot_and_end_with_the_task;
(llama.cpp 25437)                                               test_checkpoints: memory_is_what_was_predicted
==============================================================  ======================================================

Device memory of a checkpoint is libllama's: it keeps one state a sequence until its context goes, and uses it again.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.events import FallbackReason, Kind, Phase, Records
from draftscope.engine.library import engine_facts
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, Replay, SlotTask
from draftscope.trace.fallback_words import fallback_of
from tests.engine_ext.harness import GREEDY, open_bench, run, token_prompts
from tests.engine_ext.random_slots import Outcome, run_randomly
from tests.models.families import HybridShape, make_hybrid

ROOT = Path(__file__).parents[2]
SAVING = (CheckpointMode.COW, CheckpointMode.DEVICE, CheckpointMode.HOST)
TOKENS = [(step * 37) % 190 + 5 for step in range(24)]
IS_STOCK = not engine_facts().patches


def settings(n_slots: int, mode: CheckpointMode, **more: object) -> ContextSettings:
    return ContextSettings(n_slots=n_slots, checkpoint=mode, n_threads=1, **more)  # type: ignore[arg-type]


def task(slot: int, n: int = 60, *, reuse: bool = True) -> SlotTask:
    return SlotTask(slot, Prompt(), GREEDY, n, ignore_eos=True, reuse=reuse)


# ---- native rollback

Step = tuple[list[tuple[int, int]], list[tuple[int, int]]]
"""One decode, (slot, tokens), and the drops after it, (slot, tokens that stay)."""

# Slot 1 lies between the slots 2 and 3, so their next common decode moves it.
BETWEEN: list[Step] = [([(2, 7)], []), ([(1, 20)], []), ([(3, 5)], [])]


def drop(model: Path, steps: list[Step]) -> list[bool]:
    """Which drops were granted; whatever was, slot 1 is right in the end."""
    with open_bench(model, settings(4, CheckpointMode.ROLLBACK)) as bench:
        granted, after = bench.backend._engine.logits_after_drops(1, TOKENS, steps)
        expected = bench.backend._engine.logits_of(1, TOKENS, [len(TOKENS)])
    assert np.array_equal(np.array(after), np.array(expected))
    return list(granted)


@pytest.mark.parametrize(
    ("n_decoded", "n_kept", "is_granted"), [(1, 0, False), (3, 0, False), (4, 0, False), (4, -1, False), (4, 1, True)]
)
def test_that_a_native_rollback_never_drops_a_whole_decode(
    n_decoded: int, n_kept: int, is_granted: bool, random_qwen35: Path
) -> None:
    steps: list[Step] = [([(1, 20)], []), ([(1, n_decoded)], [(1, 20 + n_kept)])]
    assert drop(random_qwen35, steps) == [is_granted]


def test_that_a_second_rollback_waits_for_a_decode(random_qwen35: Path) -> None:
    assert drop(random_qwen35, [([(1, 20)], []), ([(1, 4)], [(1, 22), (1, 21)])]) == [True, False]
    assert drop(random_qwen35, [([(1, 19)], []), ([(1, 4)], [(1, 22)]), ([(1, 2)], [(1, 23)])]) == [True, True]
    # The library takes the first one for done once another decode has moved the state, and grants a second.
    assert drop(random_qwen35, [*BETWEEN, ([(1, 4)], [(1, 22)]), ([(2, 1), (3, 1)], [(1, 21)])]) == [True, False]


def test_that_no_rollback_is_granted_once_other_slots_were_decoded(random_qwen35: Path) -> None:
    assert drop(random_qwen35, [*BETWEEN, ([(1, 4)], []), ([(2, 1), (3, 1)], [(1, 22)])]) == [False]
    assert drop(random_qwen35, [*BETWEEN, ([(1, 4)], [(1, 22)]), ([(2, 1), (3, 1)], [])]) == [True]


@pytest.mark.parametrize("first", range(4))
def test_that_slots_of_unequal_decodes_go_back_to_their_own_states(first: int, random_qwen35: Path) -> None:
    # Slot 1 was refused a rollback and cannot save either, so it brings one token to each decode and the others four:
    # libllama takes the slots 2 and 3 in a graph behind that of slot 0, whose state lies between theirs, and moves it.
    prompts = token_prompts(4 + first)[first:]
    expected = run(random_qwen35, prompts, ContextSettings(use_mtp=False, n_threads=1), max_tokens=60)
    with open_bench(random_qwen35, settings(4, CheckpointMode.ROLLBACK)) as bench:
        bench.submit(task(1), prompts[1])
        bench.backend._engine.inject_faults(drop_tail=1)
        while bench.backend.checkpoint_counts().n_fallbacks == 0:
            bench.backend.step()
        bench.backend._engine.inject_faults(save=1000)
        for slot in (2, 0, 3):
            bench.submit(task(slot), prompts[slot])
            bench.backend.step()
        results = bench.finish()
    assert [result.tokens for result in results] == expected.tokens


def test_that_steps_back_that_are_not_granted_are_said_and_another_way_is_taken(random_qwen3next: Path) -> None:
    done = run(random_qwen3next, token_prompts(2), settings(2, CheckpointMode.ROLLBACK), max_tokens=16)
    way = done.report.way_back
    assert way.n_rs_seq_asked == 3
    if IS_STOCK:
        assert (way.granted in ("cow", "device", "host"), way.n_rs_seq_granted) == (True, 0)
        assert "no native rollback (3 steps asked, 0 granted)" in way.why
        assert done.checkpoints.n_saves > 0
    else:
        assert (way.granted, way.n_rs_seq_granted) == ("rollback", 3)


# ---- saved states


def of_kinds(records: Records, slot: int, *kinds: Kind) -> Records:
    return records[(records["slot"] == slot) & np.isin(records["kind"], kinds)]


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("mode", SAVING)
def test_that_a_task_never_goes_back_to_a_state_of_the_one_before(
    mode: CheckpointMode, is_cancelled: bool, random_qwen35: Path
) -> None:
    prompt = token_prompts(1)[0]
    with open_bench(random_qwen35, settings(1, mode, replay=Replay.RIDE)) as bench:
        bench.submit(task(0), prompt)
        while bench.backend.checkpoint_counts().n_restores < 3:
            bench.backend.step()
        if is_cancelled:
            bench.backend.cancel((0,))
        before = bench.finish()[0]
        bench.ring.read()
        bench.submit(task(0), prompt)  # the same prompt: the states of the task before would even be right
        again = bench.finish()[0]
        events = of_kinds(bench.ring.read(), 0, Kind.SAVE, Kind.RESTORE)
    assert again.tokens[: len(before.tokens)] == before.tokens
    assert again.tokens == run(random_qwen35, [prompt], ContextSettings(use_mtp=False), max_tokens=60).tokens[0]
    saved = {(int(row["n"]), int(row["position"])) for row in events if row["kind"] == Kind.SAVE}
    restored = [(int(row["n"]), int(row["position"])) for row in events if row["kind"] == Kind.RESTORE]
    assert restored and set(restored) <= saved


def check_that_the_slot_was_read_again(records: Records, slot: int) -> None:
    """From its first position, by itself, and a sentence says so."""
    fallback = of_kinds(records, slot, Kind.FALLBACK)[0]
    after = records[records["sequence"] > fallback["sequence"]]
    prompt = after[(after["kind"] == Kind.SPAN) & (after["code"] == Phase.PROMPT) & (after["slot"] >= 0)]
    assert (prompt["slot"][0], prompt["position"][0], prompt["n"].sum()) == (slot, 0, fallback["position"] - 1)
    assert set(prompt["slot"].tolist()) == {slot}
    sentence = fallback_of(fallback).sentence
    assert "could not be put back" in sentence and "read again from its beginning" in sentence


@pytest.mark.parametrize("mode", SAVING)
@pytest.mark.parametrize("family", ["random_qwen35", "random_qwen3next", "demo_model"])
def test_that_a_slot_that_has_lost_its_memory_is_not_restored_in_part(
    family: str, mode: CheckpointMode, request: pytest.FixtureRequest
) -> None:
    check_a_failed_restore(request.getfixturevalue(family), mode, "lost")


@pytest.mark.parametrize("mode", SAVING)
def test_that_a_wiped_slot_is_read_again_and_the_user_is_told(mode: CheckpointMode, random_qwen35: Path) -> None:
    check_a_failed_restore(random_qwen35, mode, "restore")


def check_a_failed_restore(model: Path, mode: CheckpointMode, fault: str) -> None:
    expected = run(model, token_prompts(3), ContextSettings(use_mtp=False, n_threads=1), max_tokens=60)
    with open_bench(model, settings(3, mode)) as bench:
        for slot in range(3):
            bench.submit(task(slot), token_prompts(3)[slot])
        for _ in range(3):
            bench.backend.step()
        bench.backend._engine.inject_faults(**{fault: 1})
        results = bench.finish()
        records = bench.ring.read()
    assert [result.tokens for result in results] == expected.tokens
    fallbacks = records[records["kind"] == Kind.FALLBACK]
    assert fallbacks["code"].tolist() == [FallbackReason.RESTORE_FAILED]
    check_that_the_slot_was_read_again(records, int(fallbacks["slot"][0]))


# ---- memory


def test_that_device_memory_is_allocated_once_a_slot(random_qwen35: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG, "draftscope.llama"),
        open_bench(random_qwen35, settings(3, CheckpointMode.DEVICE)) as bench,
    ):
        caplog.clear()
        for _ in range(3):
            for slot in (2, 0, 1):  # states move between the cells, and so do the tensors that are saved
                bench.submit(task(slot), token_prompts(3)[slot])
                bench.backend.step()
            bench.finish()
        assert bench.backend.checkpoint_counts().n_saves > 60
    assert sum("allocated '" in line and "buffer" in line for line in caplog.messages) == 3


class _Mallinfo(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def bytes_in_use() -> int:
    """What the process has allocated and not given back."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    found = libc.mallinfo2()
    return int(found.uordblks + found.hblkhd)


def test_that_host_checkpoints_are_one_a_slot_and_end_with_the_task(tmp_path: Path) -> None:
    model = make_hybrid("qwen35", HybridShape(delta_heads=(1, 64, 128))).write(tmp_path / "large-states.gguf")
    context = settings(2, CheckpointMode.HOST, replay=Replay.RIDE, prompt_checkpoints_mib=0, prompt_cache_mib=0)
    with open_bench(model, context) as bench:
        state = bench.backend.configure(context).way_back.bytes_per_slot
        assert state > 8 << 20
        held = []
        for _ in range(4):
            free = bytes_in_use()
            for slot in range(2):
                bench.submit(task(slot, reuse=False), token_prompts(2)[slot])  # the same graphs each time
            for _ in range(6):
                bench.backend.step()
            full = bytes_in_use()
            bench.backend.cancel((0,))
            bench.finish()
            held.append((full - free, full - bytes_in_use()))
        assert bench.backend.checkpoint_counts().n_saves > 24
        # In the first turn libllama also makes room for its graphs.
        assert held[1:] == [(pytest.approx(2 * state, rel=0.05),) * 2] * 3
        counted = {use.kind: use.host_bytes for use in bench.backend.memory_use()}
    assert counted["checkpoints"] == pytest.approx(2 * state, rel=0.01)  # what they held at most


# ---- everything at once

RANDOM = [(2, 11), (4, 12), (5, 13), (16, 14)]


@pytest.mark.parametrize(("n_slots", "seed"), RANDOM)
@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, *SAVING])
def test_that_whatever_fails_at_random_the_text_is_that_of_plain_decoding(
    mode: CheckpointMode, n_slots: int, seed: int, random_qwen35: Path
) -> None:
    outcome = run_randomly(random_qwen35, mode, n_slots, 100, seed)
    assert outcome.granted == mode.value
    check_outcome(outcome)


@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, *SAVING])
@pytest.mark.parametrize("family", ["random_qwen3next", "demo_model"])
def test_that_it_is_so_in_other_families_too(family: str, mode: CheckpointMode, request: pytest.FixtureRequest) -> None:
    check_outcome(run_randomly(request.getfixturevalue(family), mode, 4, 60, 21))


def check_outcome(outcome: Outcome) -> None:
    assert outcome.wrong == []
    assert (outcome.n_tasks > 15, outcome.n_cancelled > 0, outcome.n_restores > 40) == (True, True, True)
    assert "RESTORE_FAILED" in outcome.fallbacks or "REFUSED" in outcome.fallbacks


@pytest.mark.skipif(IS_STOCK, reason="this is the run on the stock package")
def test_that_all_of_this_holds_on_the_library_as_it_is_published() -> None:
    if not (site := os.environ.get("DRAFTSCOPE_STOCK_SITE")):
        pytest.fail("DRAFTSCOPE_STOCK_SITE is not set: run the tests through 'make test', which builds it.")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((site, str(ROOT)))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", __file__]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout[-8000:]
    assert "1 skipped" in done.stdout.splitlines()[-1]
