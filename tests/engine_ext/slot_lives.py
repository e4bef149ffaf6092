"""Slots live: whatever is done to them at random, they write what a plain model writes.

    python -m tests.engine_ext.slot_lives --sequences 10000 --minutes 25

runs so many random sequences of operations over all kinds of memory and prints as JSON what happened, by kind: see
``Tally``. The tests run 500 of them (``test_slot_lives.py``).

A sequence is up to ``N_STEPS`` operations on one to four slots: prompts that are new, go on from what the slot holds,
are edited, repeated or taken over from another slot; steps, cancels, aborts inside a decode, clears, rewinds, forks,
saved states, and faults. After every operation the invariants of the engine hold, the other slots are untouched and the
bytes that are shown are those that are held. A finished task has written what a fresh context without MTP and without
reuse writes at temperature 0; where it parts from it the two tokens are proved to be a near-tie, and counted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.protocol import Prompt, SlotTask
from tests.engine_ext.harness import GREEDY
from tests.engine_ext.random_slots import FAULTS, Tokens
from tests.engine_ext.slot_bytes import without_rows
from tests.engine_ext.slot_place import (
    KINDS,
    N_CTX,
    Place,
    Room,
    base_text,
    check_all,
    memory_of,
    open_place,
    others_untouched,
)

N_STEPS = 24

slots = st.integers(0, 3)
fractions = st.integers(0, 20).map(lambda twentieths: twentieths / 20)


@dataclasses.dataclass(frozen=True)
class Saved:
    """The bytes of a slot, and what it was."""

    data: bytes
    memory: tuple[object, ...]


class SlotLives(RuleBasedStateMachine):
    """One sequence of operations on the slots of one engine."""

    place: ClassVar[Place]

    def __init__(self) -> None:
        super().__init__()
        self.engine = self.place.engine
        self.running: dict[int, tuple[Tokens, int]] = {}
        self.cancelled: set[int] = set()
        self.prompts: list[Tokens] = []
        self.saved: list[Saved] = []
        self.n_restore_faults = 0

    @initialize(
        room=st.builds(
            Room,
            n_slots=st.integers(1, 4),
            n_checkpoints=st.sampled_from((50, 3, 1, 0)),
            n_cached=st.sampled_from((10, 2, 1, 0)),
            spacing=st.sampled_from((16, 32, 64)),
            rides=st.booleans(),
            catch_up_alone=st.booleans(),
            use_hooks=st.booleans(),
        ),
        lengths=st.lists(st.sampled_from((1, 5, 31, 48, 63, 64, 90, 120)), min_size=4, max_size=4),
    )
    def open(self, room: Room, lengths: list[int]) -> None:
        """Fresh contexts, and a first task in every slot; hypothesis leaves rules out of many sequences."""
        self.n_slots = room.n_slots
        self.report = self.place.configure(room)
        self.place.tally.n_sequences += 1
        for slot in range(self.n_slots):
            self.submit_tokens(slot, base_text(slot % 2)[: lengths[slot]], 20)
        self.finish()

    def done(self, name: str) -> None:
        """Count an operation, and check all that holds after every one."""
        self.place.tally.operations[name] += 1
        check_all(self.place, self.n_slots)

    def at_rest(self, slot: int) -> bool:
        """Whether the slot may be changed; a busy one says so and stays as it is."""
        if slot not in self.running:
            return True
        with others_untouched(self.place, self.n_slots), pytest.raises(EngineError) as refused:
            self.engine.clear_slot(slot)
        assert refused.value.code is ErrorCode.BUSY
        return False

    # ---- tasks

    @rule(
        slot=slots,
        how=st.sampled_from(("extend", "continue", "edit", "edit", "repeat", "new")),
        text=st.integers(0, 2),
        cut=fractions,
        n=st.one_of(st.integers(1, 6), st.sampled_from((33, 50, 64, 65, 100, 120))),
        max_tokens=st.integers(1, 40),
        may_reuse=st.sampled_from((True, True, True, True, False)),
    )
    def submit(self, slot: int, how: str, text: int, cut: float, n: int, max_tokens: int, may_reuse: bool) -> None:
        """A prompt for a free slot."""
        slot %= self.n_slots
        if not self.at_rest(slot):
            return
        held = tuple(self.engine.slot_tokens(slot))
        if how == "continue" and held and len(held) < N_CTX:
            self.continue_slot(slot, base_text(text)[: n - 1], max_tokens, may_reuse)
        else:
            prompt = self.prompt(how, held, base_text(text)[:n], cut)
            self.submit_tokens(slot, prompt, max_tokens, may_reuse=may_reuse)
        self.done(f"submit-{how}")

    def continue_slot(self, slot: int, more: Tokens, max_tokens: int, may_reuse: bool = True) -> None:
        """A prompt that goes on from what the slot holds; it may be empty."""
        held = tuple(self.engine.slot_tokens(slot))
        more = more[: max(0, N_CTX - 1 - len(held))]
        self.submit_tokens(slot, held + more, max_tokens, may_reuse=may_reuse, n_held=len(held))

    def submit_tokens(self, slot: int, prompt: Tokens, n: int, *, may_reuse: bool = True, n_held: int = 0) -> None:
        """To be checked against plain decoding of the whole prompt."""
        task = SlotTask(slot, Prompt(is_continuation=n_held > 0), GREEDY, n, ignore_eos=True, reuse=may_reuse)
        with others_untouched(self.place, self.n_slots, slot):
            self.place.bench.submit(task, prompt[n_held:])
        self.running[slot] = (prompt, n)
        self.prompts.append(prompt)

    def prompt(self, how: str, held: Tokens, fresh: Tokens, cut: float) -> Tokens:
        """Tokens that have something in common with those that a slot holds, or nothing."""
        if how == "extend":
            prompt = held + fresh
        elif how == "edit":
            prompt = held[: int(cut * len(held))] + fresh
        elif how == "repeat" and self.prompts:
            prompt = self.prompts[int(cut * (len(self.prompts) - 1))]
        else:
            prompt = fresh
        return prompt[: N_CTX - 1]

    @rule(n=st.integers(1, 6))
    def step(self, n: int) -> None:
        """Some steps of all running tasks."""
        if not self.running:
            return
        for _ in range(n):
            self.place.bench.backend.step()
            self.collect()
            check_all(self.place, self.n_slots)
        self.done("step")

    @rule()
    def finish(self) -> None:
        """All running tasks to their end."""
        while self.place.bench.backend.step():
            check_all(self.place, self.n_slots)
        self.collect()
        assert not self.running
        self.done("finish")

    @rule(slot=slots)
    def cancel(self, slot: int) -> None:
        """One task, or none: a cancel of a slot at rest is forgotten."""
        slot %= self.n_slots
        self.place.bench.backend.cancel((slot,))
        self.cancelled |= {slot} & set(self.running)
        self.done("cancel")

    @rule(n=st.integers(1, 400))
    def abort(self, n: int) -> None:
        """All slots of a decode are cancelled while it computes."""
        if not self.running:
            return
        self.engine.inject_faults(cancel=n)
        self.cancelled |= set(self.running)
        self.place.bench.backend.step()
        self.collect()
        self.cancelled &= set(self.running)
        self.engine.inject_faults()
        self.done("abort")

    def collect(self) -> None:
        """Whatever has ended has written what it should, and its slot holds that."""
        for result in self.place.bench.backend.take_results():
            prompt, max_tokens = self.running.pop(result.slot)
            written = result.tokens
            assert result.error == ""
            assert tuple(self.engine.slot_tokens(result.slot)) == prompt + written
            if result.stop == "cancelled":
                assert result.slot in self.cancelled
            else:
                expected = {"max_tokens": max_tokens, "context_full": N_CTX - len(prompt)}
                assert len(written) == expected[result.stop]
            self.cancelled.discard(result.slot)
            self.place.check_tokens(prompt, written)
            self.prompts.append((prompt + written)[: N_CTX - 1])
            self.place.tally.reuse[result.reuse] += 1
            self.place.tally.stops[result.stop] += 1
            assert 0 <= result.n_reused <= len(prompt)  # all of it where a checkpoint has the logits behind it

    # ---- operations on slots at rest

    @rule(slot=slots)
    def clear(self, slot: int) -> None:
        """Nothing is left of it."""
        slot %= self.n_slots
        if self.at_rest(slot):
            with others_untouched(self.place, self.n_slots, slot):
                self.engine.clear_slot(slot)
            facts = self.engine.slot_facts(slot)
            assert (facts["n_tokens"], facts["n_decoded"], facts["n_draft"], facts["n_prompt_checkpoints"]) == (0,) * 4
            self.done("clear")

    @rule(slot=slots, cut=fractions)
    def rewind(self, slot: int, cut: float) -> None:
        """To a place within what it holds."""
        slot %= self.n_slots
        held = self.engine.slot_tokens(slot)
        if held and self.at_rest(slot):
            n = max(1, round(cut * len(held)))
            with others_untouched(self.place, self.n_slots, slot):
                self.engine.rewind_slot(slot, n)
            assert self.engine.slot_tokens(slot) == held[:n]
            self.done("rewind")

    @rule(slot=slots, to=slots)
    def fork(self, slot: int, to: int) -> None:
        """Two slots that are alike."""
        slot, to = slot % self.n_slots, to % self.n_slots
        if slot == to or not self.at_rest(slot) or not self.at_rest(to) or not self.has_memory(slot):
            return
        with self.unless_refused(to) as taken, others_untouched(self.place, self.n_slots, to):
            self.engine.fork_slot(slot, to)
        assert not taken or memory_of(self.place, to) == memory_of(self.place, slot)
        self.done("fork")

    @contextmanager
    def unless_refused(self, slot: int) -> Iterator[list[bool]]:
        """A state that a fault makes libllama refuse leaves the slot as it was, or, refused again, its tokens."""
        before, n_refused, taken = memory_of(self.place, slot), self.engine.counts()["n_refused_states"], [True]
        try:
            yield taken
        except EngineError as refused:
            assert refused.code is ErrorCode.BAD_STATE
            taken.clear()
            now, self.n_restore_faults = memory_of(self.place, slot), self.n_restore_faults - 1
            assert self.n_restore_faults >= 0
            assert self.engine.counts()["n_refused_states"] > n_refused
            assert now == before or (now[-1] == before[-1] and now[1] == 0)

    def has_memory(self, slot: int) -> bool:
        """Whether there is anything to save, tokens at least; an empty slot says that there is not."""
        if self.engine.slot_facts(slot)["n_tokens"] > 0:
            return True
        with pytest.raises(EngineError) as refused:
            self.engine.save_slot(slot)
        assert refused.value.code is ErrorCode.BAD_STATE
        return False

    @rule(slot=slots)
    def save(self, slot: int) -> None:
        """As bytes, to be restored later."""
        slot %= self.n_slots
        if self.at_rest(slot) and self.has_memory(slot):
            with others_untouched(self.place, self.n_slots):
                self.saved.append(Saved(self.engine.save_slot(slot), memory_of(self.place, slot)))
            self.done("save")

    @precondition(lambda self: self.saved)
    @rule(slot=slots, which=fractions, has_rows=st.booleans())
    def restore(self, slot: int, which: float, has_rows: bool) -> None:
        """A saved slot, into any; perhaps as one that was saved without MTP."""
        slot %= self.n_slots
        if not self.at_rest(slot):
            return
        saved = self.saved[int(which * (len(self.saved) - 1))]
        data = saved.data if has_rows else without_rows(saved.data)
        with self.unless_refused(slot) as taken, others_untouched(self.place, self.n_slots, slot):
            self.engine.restore_slot(slot, data)
        now, then = memory_of(self.place, slot), saved.memory
        assert not taken or now == then or (not has_rows and (now[0], now[1], now[-1]) == (then[0], then[1], then[-1]))
        self.done("restore" if has_rows else "restore-without-rows")

    @rule(slot=slots, is_empty=st.booleans())
    def set_state(self, slot: int, is_empty: bool) -> None:
        """The hidden rows as they are, or none: the next drafts are worse then, and the text is the same."""
        slot %= self.n_slots
        if self.report["speculation"]["is_active"] and self.at_rest(slot):
            state = self.engine.get_state(slot)
            with others_untouched(self.place, self.n_slots):
                self.engine.set_state(slot, b"" if is_empty else state)
            assert is_empty or self.engine.get_state(slot) == state
            self.done("set_state")

    # ---- faults

    @rule(fault=st.sampled_from(FAULTS), n=st.integers(1, 2))
    def fail(self, fault: str, n: int) -> None:
        """The next calls of a kind fail."""
        self.engine.inject_faults(**{fault: n})
        self.n_restore_faults = n if fault == "restore" else 0
        self.done(f"fail-{fault}")

    def teardown(self) -> None:
        """To the end without faults, and then once more in every slot."""
        if not hasattr(self, "report"):
            return
        self.engine.inject_faults()
        self.finish()
        for slot in range(self.n_slots):
            if 0 < len(self.engine.slot_tokens(slot)) < N_CTX:
                self.continue_slot(slot, base_text(3)[:5], 12)
        self.finish()
        for name, n in self.engine.counts().items():
            if name.startswith("n_"):
                self.place.tally.counts[name] += n


def live(place: Place, n_sequences: int, lives: type[SlotLives] = SlotLives, **options: Any) -> None:
    """So many sequences of a kind; raises with the first wrong one. ``options``: of hypothesis."""
    machine = type("Lives", (lives,), {"place": place})
    chosen = settings(
        phases=(Phase.generate,),  # the shortest sequence would take minutes to find
        max_examples=n_sequences,
        stateful_step_count=N_STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        **options,
    )
    run_state_machine_as_test(machine, settings=chosen)


# 502 in all. Ways back are timed for each sequence of ``auto``, and the demo model is 30 times the size of the others.
SHARES = {name: 8 if name.startswith("demo") else 14 if name.endswith("auto") else 31 for name in KINDS}


def main() -> None:
    """As the command line says; kinds take turns until the sequences or the minutes are over, or one goes wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sequences", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    asked = parser.parse_args()
    started, n_done = time.monotonic(), 0
    with ExitStack() as stack:
        places = {kind: stack.enter_context(open_place(kind)) for kind in asked.kinds}
        while n_done < asked.sequences and time.monotonic() - started < 60 * asked.minutes:
            for kind, place in places.items():
                live(place, SHARES[kind], derandomize=False)
                n_done += SHARES[kind]
        tallies = {kind: vars(place.tally) for kind, place in places.items()}
    print(json.dumps({"seconds": time.monotonic() - started, "kinds": tallies}))


if __name__ == "__main__":
    main()
