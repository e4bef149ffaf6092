"""A thousand cancels at random moments in four slots: none is stuck; the next request of each drafts and is right."""

from __future__ import annotations

import random
import threading
import time

import pytest

from draftscope.engine.protocol import Prompt, SlotTask
from tests.engine_ext.harness import GREEDY
from tests.engine_ext.random_slots import Tokens
from tests.engine_ext.slot_place import N_CTX, Place, Room, base_text, check_all, open_place

N_SLOTS = 4
N_CANCELS = 200
KINDS = ("qwen35-rollback", "qwen35-host", "qwen3next-cow", "glm4moe", "qwen35-device")


class Storm:
    """Tasks in all slots of a place, cancelled again and again."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place, self.die = place, random.Random(seed)
        self.running: dict[int, Tokens] = {}
        self.n_cancelled = 0

    def submit(self, slot: int, n: int) -> None:
        """A prompt that is new, goes on, or is edited."""
        held, fresh = tuple(self.place.engine.slot_tokens(slot)), base_text(self.die.randrange(3))
        kept = held[: self.die.choice((0, len(held) // 2, len(held)))]
        prompt = (kept + fresh[: self.die.choice((1, 20, 90))])[: N_CTX - 60]
        self.place.bench.submit(SlotTask(slot, Prompt(), GREEDY, n, ignore_eos=True), prompt)
        self.running[slot] = prompt

    def fill(self) -> None:
        """A long task for every free slot."""
        for slot in range(N_SLOTS):
            if slot not in self.running:
                self.submit(slot, 50)

    def collect(self) -> None:
        """What has ended is right as far as it goes."""
        for result in self.place.bench.backend.take_results():
            self.place.check_tokens(self.running.pop(result.slot), result.tokens)
            assert result.error == ""
            self.n_cancelled += result.stop == "cancelled"
        check_all(self.place, N_SLOTS)

    def step(self) -> bool:
        """One step of all tasks."""
        has_work = self.place.bench.backend.step()
        self.collect()
        return has_work

    def strike(self) -> None:
        """Some slots between two steps, or all in flight inside a decode; now and then with a fault."""
        if self.die.random() < 0.3:
            fault = self.die.choice(("save", "restore", "drop_tail", "lost"))
            self.place.engine.inject_faults(**{fault: 1})
        if self.die.random() < 0.5:
            chosen = self.die.sample(range(N_SLOTS), self.die.randrange(1, N_SLOTS + 1))
            self.place.bench.backend.cancel(tuple(chosen))
        else:
            self.place.engine.inject_faults(cancel=self.die.randrange(1, 1500))
        self.step()
        self.place.engine.inject_faults()

    def check_next(self) -> None:
        """Each slot takes another request, drafts for it, and is right."""
        while self.running:
            self.step()
        for slot in range(N_SLOTS):
            self.submit(slot, 12)
        while self.place.bench.backend.step():
            pass
        results = self.place.bench.backend.take_results()
        assert sorted(result.slot for result in results) == list(range(N_SLOTS))
        for result in results:
            assert (result.stop, result.draft_n > 0) == ("max_tokens", True)
            self.place.check_tokens(self.running.pop(result.slot), result.tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_that_no_slot_is_stuck_whenever_its_tasks_are_cancelled(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(N_SLOTS, spacing=16))
        storm = Storm(place, 5)
        n_checked = 0
        while storm.n_cancelled < N_CANCELS:
            storm.fill()
            for _ in range(storm.die.randrange(6)):
                storm.step()
            storm.strike()
            if storm.n_cancelled // 20 > n_checked:
                n_checked += 1
                storm.check_next()
        storm.check_next()


@pytest.mark.parametrize("kind", ["qwen35-rollback", "glm4moe"])
def test_that_another_thread_may_cancel_while_a_step_computes(kind: str) -> None:
    with open_place(kind) as place:
        place.configure(Room(N_SLOTS, spacing=16))
        storm, is_over, die = Storm(place, 6), threading.Event(), random.Random(7)

        def cancel() -> None:
            while not is_over.is_set():
                time.sleep(die.random() * 0.004)
                place.bench.backend.cancel(tuple(die.sample(range(N_SLOTS), die.choice((1, 2, N_SLOTS)))))

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            while storm.n_cancelled < N_CANCELS:
                storm.fill()
                storm.step()
        finally:
            is_over.set()
            thread.join()
        storm.check_next()


@pytest.mark.parametrize("kind", ["qwen35-rollback", "qwen35-host", "qwen35-cow", "qwen35-plain", "qwen3next-device"])
def test_that_an_aborted_decode_costs_no_slot_at_rest_its_state(kind: str) -> None:
    with open_place(kind) as place:
        for n_questions in (1, 40, 80, 200):
            place.configure(Room(N_SLOTS, n_checkpoints=0, n_cached=0))
            for slot in (2, 1, 3):  # the states lie in this order, so a decode of 2 and 3 moves that of 1
                place.bench.submit(SlotTask(slot, Prompt(), GREEDY, 4, ignore_eos=True), base_text(slot)[:20])
                place.bench.finish()
            place.engine.inject_faults(cancel=n_questions)
            for slot in (2, 3):
                task = SlotTask(slot, Prompt(is_continuation=True), GREEDY, 4, ignore_eos=True)
                place.bench.submit(task, base_text(4)[:5])
            assert "cancelled" in {result.stop for result in place.bench.finish()}
            for slot in (1, 2, 3):
                held = tuple(place.engine.slot_tokens(slot))
                task = SlotTask(slot, Prompt(is_continuation=True), GREEDY, 10, ignore_eos=True)
                place.bench.submit(task, base_text(0)[:3])
                place.check_tokens(held + base_text(0)[:3], place.bench.finish()[0].tokens)
                check_all(place, N_SLOTS)
