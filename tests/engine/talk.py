"""Talks with a client and keeps all it hears, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from draftscope.engine.client import Client
from draftscope.engine.events import Records, empty_records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import (
    Answer,
    Cancelled,
    Closing,
    Command,
    CommandId,
    ContextSettings,
    Done,
    Failed,
    Finished,
    Load,
    Loaded,
    ModelReport,
    ModelSettings,
    Prompt,
    SamplingSettings,
    SlotChanged,
    SlotCommand,
    SlotFacts,
    SlotTask,
    Submit,
)

CLOSING = (Loaded, Finished, SlotChanged, Cancelled, Done, Failed)
GREEDY = SamplingSettings(temperature=0.0)
LIMIT_S = 60.0

AnswerType = TypeVar("AnswerType", bound=Answer)


class Talk:
    """One caller of a client; ``answers``, ``records`` and ``arrays`` hold everything so far, in order."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answers: list[Answer] = []
        self.records: Records = empty_records()
        self.arrays: list[SideArray] = []

    def listen(self, timeout_s: float = 0.0) -> None:
        """Take what is there, after waiting for something so long."""
        self.client.wait(timeout_s)
        self.answers += self.client.drain()
        self.records = np.concatenate([self.records, self.client.read_records()])
        self.arrays += self.client.read_arrays()

    def until(self, has_come: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Listen until a condition holds; fails after the limit."""
        deadline_s = time.monotonic() + limit_s
        self.listen()
        while not has_come():
            assert time.monotonic() < deadline_s, f"nothing more came; heard: {self.answers[-5:]}"
            self.listen(0.05)

    def of(self, kind: type[AnswerType]) -> list[AnswerType]:
        """The answers of a type so far."""
        return [answer for answer in self.answers if isinstance(answer, kind)]

    def closings(self, command: CommandId) -> list[Closing]:
        """The closing messages of a command so far."""
        return [answer for answer in self.answers if isinstance(answer, CLOSING) and answer.command == command]

    def ask(self, command: Command) -> Closing:
        """Send a command and wait for its closing message."""
        self.client.send(command)
        return self.closing_of(command.id)

    def closing_of(self, command: CommandId) -> Closing:
        """Wait for the closing message of a command that was sent."""
        self.until(lambda: bool(self.closings(command)))
        return self.closings(command)[-1]

    def load(self, path: str, *, rpc_servers: tuple[str, ...] = (), **context: object) -> ModelReport:
        """Load a model; fails if that fails."""
        settings = ContextSettings(**({"n_slots": 2, "n_ctx": 512} | context))  # type: ignore[arg-type]
        closing = self.ask(Load(self.client.next_id(), ModelSettings(path, rpc_servers=rpc_servers), settings))
        assert isinstance(closing, Loaded), closing
        return closing.report

    def start(self, *tasks: SlotTask) -> CommandId:
        """Submit tasks and wait for the first record of them."""
        command = Submit(self.client.next_id(), tasks)
        n_before = len(self.records)
        self.client.send(command)
        self.until(lambda: len(self.records) > n_before or bool(self.closings(command.id)))
        return command.id

    def run(self, *tasks: SlotTask) -> Finished:
        """Submit tasks and wait for their results; fails if that fails."""
        closing = self.ask(Submit(self.client.next_id(), tasks))
        assert isinstance(closing, Finished), closing
        return closing

    def change(self, command: SlotCommand) -> SlotFacts:
        """Carry out a command on a slot; fails if that fails."""
        closing = self.ask(command)
        assert isinstance(closing, SlotChanged), closing
        return closing.slot


def task(slot: int = 0, text: str = "In the beginning", max_tokens: int = 12, **rest: object) -> SlotTask:
    """A greedy task from a text."""
    return SlotTask(slot, Prompt(text=text), sampling=GREEDY, max_tokens=max_tokens, **rest)  # type: ignore[arg-type]


def long_task(slot: int = 0, text: str = "In the beginning") -> SlotTask:
    """A task that does not end before a test is done with it."""
    return task(slot, text, max_tokens=100_000, ignore_eos=True)
