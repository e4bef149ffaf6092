"""A client whose answers a test writes down: what is sent is kept, and each command is answered by a function."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from draftscope.engine.events import Records, empty_records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import (
    Answer,
    Command,
    CommandId,
    DecodeCounts,
    Finished,
    RunReport,
    SlotResult,
    Submit,
)

Respond = Callable[[Command], list[Answer]]


class ScriptedClient:
    """Obeys ``engine.client.Client``; ``respond`` gives the answers to a command, in order."""

    def __init__(self, respond: Respond) -> None:
        self.sent: list[Command] = []
        self.n_dropped = 0
        self.silence_s = 0.0
        self.operation = ""
        self.is_alive = True
        self._respond = respond
        self._answers: deque[Answer] = deque()
        self._n_ids = 0

    def next_id(self) -> CommandId:
        self._n_ids += 1
        return CommandId(self._n_ids)

    def send(self, command: Command) -> None:
        self.sent.append(command)
        self._answers.extend(self._respond(command))

    def drain(self) -> list[Answer]:
        answers = list(self._answers)
        self._answers.clear()
        return answers

    def wait(self, timeout_s: float) -> bool:
        if not self._answers:
            raise AssertionError("The client is waited for, but no answer will come.")
        return True

    def read_records(self) -> Records:
        return empty_records()

    def read_arrays(self) -> list[SideArray]:
        return []

    def restart(self) -> None:
        raise AssertionError("Nothing here starts the engine again.")

    def close(self) -> None:
        self.is_alive = False


def result(slot: int, *, stop: str = "max_tokens", error: str = "") -> SlotResult:
    """A result of two rounds: three drafted and two accepted, then three drafted and none accepted."""
    return SlotResult(
        slot=slot,
        text="ab",
        tokens=(1, 2, 3, 4, 5),
        n_prompt=4,
        n_rounds=2,
        draft_n=6,
        draft_n_accepted=2,
        accepted_at=(1, 1, 0),
        drafted_at=(2, 2, 2),
        ttft_ms=5.0,
        prompt_ms=5.0,
        generate_ms=40.0,
        stop=stop,
        error=error,
    )


def finished(command: Submit) -> Finished:
    """The closing message of a Submit whose tasks all ended well."""
    report = RunReport(DecodeCounts(rounds=2, target=2, draft=6), n_saves=0, n_restores=0, n_fallbacks=0, wall_ms=50.0)
    return Finished(command.id, tuple(result(task.slot) for task in command.tasks), report)
