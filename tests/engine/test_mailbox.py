"""The caller's side: no command stays open, no answer of a strange command gets through, no record is skipped."""

from __future__ import annotations

import threading
import time

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.events import Phase, empty_records
from draftscope.engine.mailbox import Mailbox, RingChain
from draftscope.engine.protocol import CommandId, Done, Failed, LogLine
from draftscope.engine.ring import Ring, RingWriter, ring_bytes

DIED = ErrorReport(ErrorCode.ENGINE_DIED, "The engine has ended.")


def ring_of(n_records: int, capacity: int = 8) -> tuple[Ring, RingWriter]:
    memory = bytearray(ring_bytes(capacity))
    ring, writer = Ring.create(memory, capacity), RingWriter(memory)
    for _ in range(n_records):
        writer.append(empty_records(1)[0])
    return ring, writer


def test_an_open_command_is_closed_once() -> None:
    mailbox = Mailbox()
    command = mailbox.next_id()
    mailbox.open(command)
    assert mailbox.busy_since_ns is not None
    mailbox.put(Done(command))
    mailbox.put(Done(command))
    mailbox.fail_open(DIED)
    assert mailbox.drain() == [Done(command)]
    assert mailbox.busy_since_ns is None


def test_two_commands_with_one_id_are_closed_twice() -> None:
    mailbox = Mailbox()
    mailbox.open(CommandId(5))
    mailbox.open(CommandId(5))
    mailbox.put(Done(CommandId(5)))
    mailbox.fail_open(DIED)
    assert mailbox.drain() == [Done(CommandId(5)), Failed(CommandId(5), DIED)]


def test_waiting_ends_with_an_answer_a_record_or_the_time() -> None:
    mailbox = Mailbox()
    assert not mailbox.wait(0.01, lambda: False)
    assert mailbox.wait(10, lambda: True)
    timer = threading.Timer(0.02, mailbox.put, [LogLine("info", "a", 0)])
    timer.start()
    started_s = time.monotonic()
    assert mailbox.wait(10, lambda: False)
    assert time.monotonic() - started_s < 5
    timer.join()


def test_rings_are_read_one_after_the_other() -> None:
    chain = RingChain()
    assert (len(chain.read()), chain.operation, chain.has_records) == (0, "", False)
    (old, _), (new, writer) = ring_of(10), ring_of(3)
    chain.add(old)
    chain.add(new)
    writer.set_operation(Phase.LOAD)
    assert chain.operation == "loading a model"
    assert chain.n_dropped == 2
    assert [len(chain.read()) for _ in range(3)] == [8, 3, 0]
    assert chain.n_dropped == 2


def test_a_ring_that_is_empty_when_its_engine_ends_holds_nothing_up() -> None:
    chain = RingChain()
    for n in (0, 0, 4):
        chain.add(ring_of(n)[0])
    assert chain.has_records
    assert len(chain.read()) == 4
