"""Levels and faults: the engine is told when it is there, again when it is another, and no more than is needed."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.engine.protocol import CommandId, Done, Failed, InjectFault, SetProbe
from draftscope.session.session import Session
from tests.session.scripted_client import DEATH, ScriptedClient, request


def told(client: ScriptedClient) -> list[tuple[object, ...]]:
    """What the engine was told of probes, in order, since the last call."""
    commands = [command for command in client.sent if isinstance(command, SetProbe | InjectFault)]
    client.sent = [command for command in client.sent if command not in commands]
    return [(command.level if isinstance(command, SetProbe) else command.fault, command.slots) for command in commands]


def test_a_level_is_told_once_a_model_is_there(session: Session, client: ScriptedClient) -> None:
    session.probing.set_level(ProbeLevel.LOGITS)
    assert told(client) == []
    session.open_model("m.gguf", request().context)
    client.answer_load()
    session.poll()
    assert told(client) == [(ProbeLevel.LOGITS, ())]
    session.run(request())
    client.answer_run()
    session.poll()
    assert told(client) == []


def test_levels_change_at_any_time_and_a_slot_may_have_its_own(ready: Session, client: ScriptedClient) -> None:
    probing = ready.probing
    ready.run(request())
    probing.set_level(ProbeLevel.HIDDEN)
    probing.set_slot_level(1, ProbeLevel.STATE)
    probing.set_slot_level(1, ProbeLevel.STATE)
    assert told(client) == [(ProbeLevel.HIDDEN, ()), (ProbeLevel.STATE, (1,))]
    assert (probing.level_of(0), probing.level_of(1)) == (ProbeLevel.HIDDEN, ProbeLevel.STATE)
    probing.set_level(ProbeLevel.HIDDEN)
    assert told(client) == [(ProbeLevel.HIDDEN, ())]
    assert not probing.slot_levels


def test_another_engine_is_told_again_and_knows_no_fault(ready: Session, client: ScriptedClient) -> None:
    ready.probing.set_level(ProbeLevel.HIDDEN)
    ready.probing.set_slot_level(1, ProbeLevel.OFF)
    ready.probing.inject(Fault.ZERO_ROW)
    told(client)
    client.answers.append(DEATH)
    ready.poll()
    assert ready.probing.fault is Fault.NONE
    client.answer_load()
    ready.poll()
    assert told(client) == [(ProbeLevel.HIDDEN, ()), (ProbeLevel.OFF, (1,))]


def test_new_contexts_end_a_fault_and_keep_the_level(ready: Session, client: ScriptedClient, qtbot: QtBot) -> None:
    ready.probing.set_level(ProbeLevel.HIDDEN)
    ready.probing.inject(Fault.STALE_ROW)
    told(client)
    ready.run(request(n_slots=3))
    with qtbot.waitSignal(ready.probing.changed):
        client.answer_load()
        ready.poll()
    assert ready.probing.fault is Fault.NONE
    assert told(client) == []


def test_a_fault_moves_from_all_slots_to_one_and_ends(ready: Session, client: ScriptedClient) -> None:
    probing = ready.probing
    probing.inject(Fault.OMIT_HOOK)
    probing.inject(Fault.OMIT_HOOK, 1)
    assert (probing.fault_of(0), probing.fault_of(1)) == (Fault.NONE, Fault.OMIT_HOOK)
    probing.inject(Fault.NONE, 1)
    assert told(client) == [(Fault.OMIT_HOOK, ()), (Fault.NONE, ()), (Fault.OMIT_HOOK, (1,)), (Fault.NONE, ())]
    assert probing.fault_slot is None


def test_what_the_engine_refuses_is_told_and_not_claimed(ready: Session, client: ScriptedClient) -> None:
    errors: list[ErrorReport] = []
    ready.failed.connect(errors.append)
    ready.probing.set_level(ProbeLevel.STATE)
    ready.probing.inject(Fault.SKIP_LAYER)
    level, fault = (command.id for command in client.sent[-2:])
    report = ErrorReport(ErrorCode.BAD_SETTINGS, "There is no such layer.", "Take another.")
    client.answers += [Failed(CommandId(level), report), Failed(CommandId(fault), report)]
    ready.poll()
    assert (ready.probing.level, ready.probing.fault) == (ProbeLevel.OFF, Fault.NONE)
    assert errors == [report, report]


def test_an_answer_that_is_awaited_changes_nothing_else(ready: Session, client: ScriptedClient) -> None:
    ready.probing.set_level(ProbeLevel.HIDDEN)
    client.answers.append(Done(client.last.id))
    ready.poll()
    assert ready.probing.level is ProbeLevel.HIDDEN
    assert ready.model is not None
