"""The engine in a thread: its end is told like that of a process."""

from __future__ import annotations

import logging

from draftscope.engine.client import InProcessClient, make_client
from draftscope.engine.protocol import CommandId, EngineDied, Failed, LogLine, Submit, Unload
from tests.engine.scripted_backend import ScriptedBackend
from tests.engine.talk import Talk, task


def test_an_engine_thread_that_ends_is_a_death_and_can_be_started_again() -> None:
    client = make_client("fake:0", in_process=True)
    talk = Talk(client)
    talk.load("m")
    closing = talk.ask(Submit(client.next_id(), (task(text="fake:die"),)))
    assert isinstance(closing, Failed)
    (death,) = talk.of(EngineDied)
    assert (death.signal, death.exit_code, death.last_operation) == (0, 1, "verifying drafts")
    assert not client.is_alive
    assert isinstance(talk.ask(Unload(CommandId(50))), Failed)
    client.restart()
    talk.load("m")
    talk.run(task())
    client.close()


def test_what_the_engine_logs_is_forwarded_only_while_it_runs() -> None:
    client = InProcessClient(lambda _memory: ScriptedBackend())
    talk = Talk(client)
    talk.load("m")
    log = logging.getLogger("draftscope.llama")
    log.info("load_tensors: %s", "some")
    log.debug("too much")
    logging.getLogger("draftscope.window").warning("not the engine's")
    talk.listen()
    assert [(line.level, line.text) for line in talk.of(LogLine)] == [("info", "load_tensors: some")]
    client.close()
    log.error("nobody hears this")
    talk.listen()
    assert len(talk.of(LogLine)) == 1
    assert log.handlers == []
    assert log.level == logging.NOTSET
