"""Tasks that wait for slots: in which order they begin, and what a cancel touches."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from draftscope.engine.client import make_client
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.intake import Order
from draftscope.engine.protocol import (
    ANY_SLOT,
    Cancel,
    Closing,
    CommandId,
    Failed,
    Finished,
    ModelSettings,
    SlotTask,
    Submit,
)
from draftscope.engine.tasks import MAX_WAITING, TaskQueue
from tests.engine.scripted_backend import ScriptedBackend
from tests.engine.talk import Talk, long_task, task


class Desk:
    """A queue over a scripted backend, in one thread; ``n_steps`` of the backend are a task's length."""

    def __init__(self, n_slots: int = 2) -> None:
        self.backend = ScriptedBackend()
        self.n_slots = n_slots
        self.closings: list[Closing] = []
        self.n_cancels = 0
        self.queue = TaskQueue(self.closings.append, lambda _answer: None, lambda: self.n_cancels)
        self.orders: list[Order] = []

    def submit(self, *slots: int) -> Order:
        """A Submit with a task for each of these slots."""
        tasks = tuple(task(slot) for slot in slots)
        order = Order(Submit(CommandId(len(self.orders)), tasks))
        self.orders.append(order)
        self.queue.start(order, [(one, (1, 2)) for one in tasks], self.backend, self.n_slots)
        return order

    def cancel(self, slots: tuple[int, ...] = (), *commands: Order) -> None:
        """What the reader thread does with a Cancel."""
        cancel = Cancel(CommandId(-1), slots, tuple(order.command.id for order in commands))
        for order in self.orders:
            order.cancel(cancel, self.backend.cancel)
        self.n_cancels += 1

    def step(self, n: int = 1) -> None:
        for _ in range(n):
            assert self.queue.step(self.backend, self.n_slots)

    def finish(self) -> None:
        """Step until nothing is open; every Submit was closed once."""
        for _ in range(10_000):
            if not self.queue:
                break
            self.step()
        counts = Counter(closing.command for closing in self.closings)
        assert counts == Counter(order.command.id for order in self.orders)

    def finished(self, order: Order) -> Finished:
        """How a Submit ended; fails unless it did, well."""
        (closing,) = [closing for closing in self.closings if closing.command == order.command.id]
        assert isinstance(closing, Finished), closing
        return closing

    def stops(self, order: Order) -> list[str]:
        return [result.stop for result in self.finished(order).results]


def order_of_ends(desk: Desk) -> list[int]:
    return [closing.command for closing in desk.closings]


def test_tasks_of_a_slot_run_in_order_of_arrival() -> None:
    desk = Desk(n_slots=1)
    for slot in (0, ANY_SLOT, 0, ANY_SLOT, 0):
        desk.submit(slot)
    desk.finish()
    assert order_of_ends(desk) == [0, 1, 2, 3, 4]
    assert desk.backend.calls.count("submit 0") == 5


def test_a_task_for_a_busy_slot_does_not_block_one_behind_it_for_another() -> None:
    desk = Desk()
    for slot in (0, 0, 1):
        desk.submit(slot)
    assert desk.queue.busy_slots == {0, 1}
    desk.step(desk.backend.n_steps)
    assert set(order_of_ends(desk)) == {0, 2}
    assert desk.queue.busy_slots == {0}
    desk.finish()


def test_results_are_in_the_order_of_the_tasks_with_the_slots_that_served_them() -> None:
    desk = Desk()
    order = desk.submit(ANY_SLOT, 0, ANY_SLOT)
    desk.finish()
    # The first takes slot 0, so the one that named it waits; the third takes slot 1.
    assert [result.slot for result in desk.finished(order).results] == [0, 0, 1]


def test_a_cancel_by_command_takes_queued_and_running_tasks_of_it_and_nothing_else() -> None:
    desk = Desk()
    mine, other, behind = desk.submit(0, 0 + 1, ANY_SLOT), desk.submit(ANY_SLOT), desk.submit(0)
    desk.cancel((), mine)
    desk.finish()
    assert desk.stops(mine) == ["cancelled"] * 3
    assert desk.stops(other) == desk.stops(behind) == ["max_tokens"]
    assert desk.finished(mine).results[2].slot == ANY_SLOT  # which it never got


def test_a_cancel_by_slot_takes_what_waits_for_it_but_not_what_waits_for_any() -> None:
    desk = Desk()
    running, queued, anywhere, elsewhere = (desk.submit(slot) for slot in (0, 0, ANY_SLOT, 1))
    desk.cancel((0,))
    desk.finish()
    assert desk.stops(running) == desk.stops(queued) == ["cancelled"]
    assert desk.stops(anywhere) == desk.stops(elsewhere) == ["max_tokens"]


def test_a_cancel_by_command_and_slot_takes_only_what_is_both() -> None:
    desk = Desk()
    order = desk.submit(0, 1)
    desk.cancel((1,), order)
    desk.finish()
    assert desk.stops(order) == ["max_tokens", "cancelled"]


def test_a_cancel_that_meets_a_task_on_its_way_into_the_backend_is_not_lost() -> None:
    desk = Desk(n_slots=1)
    desk.submit(0)
    late = desk.submit(ANY_SLOT)
    desk.backend.on_call = lambda name: desk.cancel((), late) if name == "submit 0" else None
    desk.finish()
    assert desk.stops(late) == ["cancelled"]
    assert desk.backend.calls.count("submit 0") == 2


def test_a_cancel_of_a_task_that_has_ended_does_not_touch_the_next_in_its_slot() -> None:
    desk = Desk(n_slots=1)
    ended, following = desk.submit(0), desk.submit(0)
    desk.backend.on_call = lambda name: desk.cancel((), ended) if name in ("submit 0", "step") else None
    desk.step(desk.backend.n_steps)
    desk.backend.calls.clear()
    desk.finish()
    assert desk.stops(following) == ["max_tokens"]
    assert "cancel" not in desk.backend.calls


def test_what_waits_ends_without_having_begun_when_the_engine_is_needed_for_something_else() -> None:
    desk = Desk(n_slots=1)
    running, waiting = desk.submit(0), desk.submit(0, ANY_SLOT)
    desk.queue.drop_waiting(desk.backend)
    assert desk.stops(waiting) == ["cancelled", "cancelled"]
    assert desk.queue.busy_slots == {0}
    desk.finish()
    assert desk.stops(running) == ["max_tokens"]


def test_a_queued_task_that_the_backend_refuses_fails_its_submit_and_no_other() -> None:
    desk = Desk(n_slots=1)
    first, refused = desk.submit(0), desk.submit(0, ANY_SLOT)
    desk.backend.fail["submit 0"] = EngineError(ErrorCode.OUT_OF_MEMORY, "No memory for slot 0.")
    desk.step(desk.backend.n_steps)  # the first ends, and the next in line is refused
    desk.backend.fail.clear()
    (failed,) = [closing for closing in desk.closings if isinstance(closing, Failed)]
    assert failed.command == refused.command.id
    assert failed.error.code is ErrorCode.OUT_OF_MEMORY
    last = desk.submit(0)
    desk.finish()
    assert desk.stops(first) == desk.stops(last) == ["max_tokens"]


def test_a_failing_step_closes_what_runs_and_what_waits() -> None:
    desk = Desk(n_slots=1)
    desk.submit(0)
    desk.submit(0)
    desk.backend.fail["step"] = EngineError(ErrorCode.DECODE_FAILED, "It did not work.")
    assert not desk.queue.step(desk.backend, 1)  # nor could the backend be emptied
    assert [type(closing) for closing in desk.closings] == [Failed, Failed]
    assert not desk.queue


def test_a_queue_that_is_full_says_how_many_wait() -> None:
    desk = Desk(n_slots=1)
    desk.submit(*[ANY_SLOT] * (MAX_WAITING + 1))
    with pytest.raises(EngineError, match=rf"1 more tasks cannot wait: {MAX_WAITING} do") as caught:
        desk.queue.check_room(1)
    assert caught.value.code is ErrorCode.BUSY
    desk.step(desk.backend.n_steps)
    desk.queue.check_room(1)


@pytest.mark.parametrize("seed", range(8))
def test_in_a_storm_of_cancels_every_submit_ends_once_and_only_what_was_cancelled_is(seed: int) -> None:
    chance, desk = random.Random(seed), Desk(n_slots=4)
    asked: set[int] = set()
    for _ in range(400):
        match chance.randrange(4):
            case 0 | 1:
                free = list(range(4))
                chance.shuffle(free)
                desk.submit(*(chance.choice((ANY_SLOT, free.pop())) for _ in range(chance.randint(1, 3))))
            case 2 if desk.orders:
                order = chance.choice(desk.orders)
                asked.add(order.command.id)
                desk.cancel((), order)
            case _:
                desk.step() if desk.queue else None
    desk.finish()
    for order in desk.orders:
        if order.command.id not in asked:
            assert set(desk.stops(order)) == {"max_tokens"}
    assert any("cancelled" in desk.stops(order) for order in desk.orders)


def storm_task(number: int) -> SlotTask:
    return task(ANY_SLOT if number % 3 else number % 4, max_tokens=5 + number % 7)


def test_a_storm_of_cancels_from_another_thread_leaves_the_tasks_that_were_not_cancelled_alone() -> None:
    client = make_client("fake:0", in_process=True)
    talk = Talk(client)
    talk.load("m", n_slots=4)
    expected = talk.run(task(max_tokens=40)).results[0].tokens
    submits = [Submit(client.next_id(), (storm_task(number),)) for number in range(300)]
    cancelled: set[int] = set()
    for number, command in enumerate(submits):
        client.send(command)
        if number % 2:
            victim = submits[max(0, number - number % 5)].id
            cancelled.add(victim)
            client.send(Cancel(client.next_id(), commands=(victim,)))
    for number, command in enumerate(submits):
        closing = talk.closing_of(command.id)
        assert isinstance(closing, Finished)
        assert len(talk.closings(command.id)) == 1
        if command.id not in cancelled:
            assert closing.results[0].tokens == expected[: 5 + number % 7]
    again = talk.run(*(task(slot) for slot in range(4))).results
    assert {result.tokens for result in again} == {expected[:12]}
    client.close()


def test_a_load_ends_what_waits_with_one_message_each() -> None:
    client = make_client("fake:0", in_process=True)
    talk = Talk(client)
    talk.load("m", n_slots=1, n_ctx=8192)
    running = talk.start(long_task(0))
    waiting = [Submit(client.next_id(), (task(0),)) for _ in range(5)]
    for command in waiting:
        client.send(command)
    talk.load(ModelSettings("other").path)
    for command in (running, *(command.id for command in waiting)):
        (closing,) = talk.closings(command)
        assert isinstance(closing, Finished)
        assert closing.results[0].stop == "cancelled"
    client.close()
