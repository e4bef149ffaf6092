"""A session with a run whose restores were probed, of the scripted engine or of the native one on the demo model."""

from __future__ import annotations

from draftscope.engine.client import make_client
from draftscope.engine.events import Records
from draftscope.engine.probes import Fault, ProbeLevel, SideArray
from draftscope.engine.protocol import InjectFault, ModelReport, Pieces, SetProbe
from tests.engine.talk import Talk, task
from tests.panels.made_session import MadeSession

PROMPTS = ("class Stack:", "And it came to pass", "This module provides")


class ProbedRun:
    """What the engine told of a run of three slots: to be given to a session at once, or part by part."""

    def __init__(
        self, level: ProbeLevel, fault: Fault = Fault.NONE, path: str = "fake:hybrid", max_tokens: int = 60
    ) -> None:
        client = make_client("fake:0" if path.startswith("fake:") else "native", in_process=True)
        talk = Talk(client)
        self.level, self.fault = level, fault
        self.model: ModelReport = talk.load(path, n_slots=3, n_ctx=1024)
        talk.ask(SetProbe(client.next_id(), level))
        talk.ask(InjectFault(client.next_id(), fault, layer=5))
        talk.listen()
        n_before = len(talk.records)
        talk.run(*(task(slot, text, max_tokens, ignore_eos=True) for slot, text in enumerate(PROMPTS)))
        client.close()
        self.records: Records = talk.records[n_before:]
        self.arrays: list[SideArray] = talk.arrays
        self.pieces = {token: piece for answer in talk.of(Pieces) for token, piece in answer.pieces.items()}

    def begin(self) -> MadeSession:
        """A session in which the run has begun and nothing has come yet."""
        session = MadeSession()
        session.take_model(self.model)
        session.probing.begin_contexts()
        session.probing.set_level(self.level)
        session.probing.inject(self.fault)
        session.begin_run(3)
        session.pieces.add(self.pieces)
        return session


def probed_session(level: ProbeLevel, fault: Fault = Fault.NONE, path: str = "fake:hybrid") -> MadeSession:
    """A session in which the run has ended."""
    run = ProbedRun(level, fault, path)
    session = run.begin()
    session.receive(run.records)
    session.receive_arrays(run.arrays)
    session.end_run()
    return session
