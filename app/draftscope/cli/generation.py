"""A run on an engine: load, submit, cancel, and gather results and records."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol, assert_never

from draftscope.engine.client import Client
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import (
    ANY_SLOT,
    Answer,
    Cancel,
    Cancelled,
    Closing,
    CommandId,
    Configure,
    ContextSettings,
    Done,
    EngineDied,
    Failed,
    Finished,
    Load,
    Loaded,
    LoadProgress,
    LogLine,
    ModelReport,
    ModelSettings,
    Pieces,
    ProbeCommand,
    RunReport,
    SlotChanged,
    SlotCommand,
    SlotResult,
    SlotTask,
    Submit,
)
from draftscope.engine.rpc_loss import describe_loss

_POLL_S = 0.05
_KEPT = "What was recorded until then is kept in the trace, where one was asked for."
_LOG_TAIL = 8

_SAY_ALL = (ErrorCode.BAD_PROMPT, ErrorCode.BAD_GRAMMAR, ErrorCode.BAD_STATE)
"""Errors about what the user gave, to which the engine's log, which is about the model, adds nothing."""

MAX_AHEAD = 64
"""Tasks that wait in the engine at most: it reads all prompts that it is given before it goes on."""


class Sink(Protocol):
    """Who looks on while the engine works. All calls come from the caller of ``Generation``."""

    def on_progress(self, fraction: float, stage: str) -> None:
        """A load is this far."""
        ...

    def on_pieces(self, pieces: dict[int, bytes]) -> None:
        """Bytes of tokens; come before or after the records that name them."""
        ...

    def on_records(self, records: Records) -> None:
        """At least one record."""
        ...

    def on_arrays(self, arrays: list[SideArray]) -> None:
        """What probes measured; at least one, after the records that came with it."""
        ...

    def on_result(self, prompt: int, result: SlotResult) -> None:
        """A task has ended; ``prompt`` is the index of its prompt."""
        ...

    def on_log(self, line: LogLine) -> None:
        """A line of the engine's log."""
        ...


@dataclass(slots=True)
class Outcome:
    """What a run gave: (prompt index, result) in the order of ending, and the report of every Submit."""

    results: list[tuple[int, SlotResult]] = field(default_factory=list)
    reports: list[RunReport] = field(default_factory=list)
    is_interrupted: bool = False


class Generation:
    """Drives a client from one thread until a load or a run has ended. A first Ctrl-C cancels, a second one raises."""

    def __init__(self, client: Client, sink: Sink) -> None:
        self._client = client
        self._sink = sink
        self._log_tail: deque[str] = deque(maxlen=_LOG_TAIL)
        self._open: dict[CommandId, list[int]] = {}
        self._n_interrupts = 0
        self._is_cancelling = False

    def load(self, model: ModelSettings, context: ContextSettings) -> ModelReport:
        """Load and wait.

        Raises:
            EngineError: refused, cancelled or died; the engine's last warnings and errors are its notes.
        """
        closing = self._carry_out(Load(self._client.next_id(), model, context))
        if isinstance(closing, Cancelled):
            raise EngineError(ErrorCode.CANCELLED, f"Loading {model.path} was cancelled.")
        return self._report_of(closing)

    def configure(self, context: ContextSettings) -> ModelReport:
        """Make new contexts for the loaded model and wait; this cannot be cancelled.

        Raises:
            EngineError: refused or died. After a refusal there are no contexts, and others can be asked for.
        """
        return self._report_of(self._carry_out(Configure(self._client.next_id(), context)))

    def next_id(self) -> CommandId:
        """An id for a command of the caller's."""
        return self._client.next_id()

    def change(self, command: SlotCommand) -> SlotChanged:
        """Carry out a command on a slot and wait; this cannot be cancelled.

        Raises:
            EngineError: refused or died.
        """
        closing = self._carry_out(command)
        if isinstance(closing, SlotChanged):
            return closing
        raise self._refusal(closing, is_about_model=False)

    def set_probes(self, command: ProbeCommand) -> None:
        """Change what is measured of restores, or what they are made to do wrong, and wait.

        Raises:
            EngineError: refused or died.
        """
        closing = self._carry_out(command)
        if not isinstance(closing, Done):
            raise self._refusal(closing, is_about_model=False)

    def _carry_out(self, command: Load | Configure | SlotCommand | ProbeCommand) -> Closing:
        with self.interruptible():
            self._client.send(command)
            return self._wait_for({command.id})[command.id]

    def _report_of(self, closing: Closing) -> ModelReport:
        if isinstance(closing, Loaded):
            return closing.report
        raise self._refusal(closing)

    def run(self, first: Sequence[tuple[int, SlotTask]], waiting: Sequence[tuple[int, SlotTask]] = ()) -> Outcome:
        """Run the (prompt index, task) pairs: ``first`` together, ``waiting`` (for ``ANY_SLOT``) as slots become free.

        With nothing waiting there is one Submit, so that its report counts the whole run; else one a task.

        Raises:
            EngineError: a Submit was refused, or the engine died. Results that came before went to the sink.
        """
        outcome = Outcome()
        groups = deque([[pair] for pair in (*first, *waiting)] if waiting else [list(first)])
        with self.interruptible():
            while True:
                if self._n_interrupts:  # also by one that came before this run
                    groups.clear()
                while groups and len(self._open) < len(first) + MAX_AHEAD and not self._n_interrupts:
                    self._submit(groups.popleft())
                if not self._open:
                    break
                for command, closing in self._wait_for(set(self._open)).items():
                    self._take(self._open.pop(command), closing, outcome)
        outcome.is_interrupted = self.is_interrupted
        return outcome

    def _submit(self, group: Sequence[tuple[int, SlotTask]]) -> None:
        command = Submit(self._client.next_id(), tuple(task for _, task in group))
        self._open[command.id] = [prompt for prompt, _ in group]
        self._client.send(command)

    def _take(self, prompts: list[int], closing: Closing, outcome: Outcome) -> None:
        if not isinstance(closing, Finished):
            raise self._refusal(closing)
        outcome.reports.append(closing.report)
        for prompt, result in zip(prompts, closing.results, strict=True):
            if result.slot != ANY_SLOT:  # else it was cancelled before it had one
                outcome.results.append((prompt, result))
                self._sink.on_result(prompt, result)

    def _wait_for(self, commands: set[CommandId]) -> dict[CommandId, Closing]:
        """Closing messages of at least one of the commands; everything else goes to the sink."""
        closings: dict[CommandId, Closing] = {}
        while not closings:
            self._client.wait(_POLL_S)
            answers = self._client.drain()
            self._pass_records()
            for answer in answers:
                self._note(answer, commands, closings)
            if self._n_interrupts and not self._is_cancelling:
                self._is_cancelling = True
                self._client.send(Cancel(self._client.next_id()))
        return closings

    def _note(self, answer: Answer, commands: set[CommandId], closings: dict[CommandId, Closing]) -> None:
        match answer:
            case LoadProgress(fraction=fraction, stage=stage):
                self._sink.on_progress(fraction, stage)
            case LogLine():
                if answer.level in ("warning", "error"):
                    self._log_tail.append(answer.text)
                self._sink.on_log(answer)
            case Pieces(pieces=pieces):
                self._sink.on_pieces(pieces)
            case EngineDied():
                raise _died(answer)
            case Loaded() | Finished() | SlotChanged() | Cancelled() | Done() | Failed():
                if answer.command in commands:
                    closings[answer.command] = answer
            case _:
                assert_never(answer)

    def _pass_records(self) -> None:
        records = self._client.read_records()
        if len(records):
            self._sink.on_records(records)
        if arrays := self._client.read_arrays():
            self._sink.on_arrays(arrays)

    def _refusal(self, closing: Closing, *, is_about_model: bool = True) -> EngineError:
        if not isinstance(closing, Failed):
            return EngineError(ErrorCode.PROTOCOL, f"The engine answered {type(closing).__name__} where it may not.")
        error = EngineError.from_report(closing.error)
        if is_about_model and error.code not in _SAY_ALL:
            for line in self._log_tail:
                error.add_note(f"engine log: {line}")
        return error

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._n_interrupts += 1
        if self._n_interrupts > 1:
            raise KeyboardInterrupt

    @property
    def is_interrupted(self) -> bool:
        """Whether there was a Ctrl-C."""
        return self._n_interrupts > 0

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a first Ctrl-C cancel what is or will be at work instead of raising; may be nested."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)


def _died(answer: EngineDied) -> EngineError:
    error = _lost(answer) if answer.lost_servers else _ended(answer)
    for line in answer.log_tail:
        error.add_note(f"engine log: {line}")
    return error


def _lost(answer: EngineDied) -> EngineError:
    report = describe_loss(answer.lost_servers, answer.last_operation)
    return EngineError(report.code, report.message, f"{_KEPT} Start the server and run it again.")


def _ended(answer: EngineDied) -> EngineError:
    how = f"with exit code {answer.exit_code}"
    if answer.signal:
        how = f"by signal {answer.signal} ({signal.Signals(answer.signal).name})"
    doing = f" while {answer.last_operation}" if answer.last_operation else ""
    return EngineError(
        ErrorCode.ENGINE_DIED,
        f"The engine process ended {how}{doing}.",
        f"{_KEPT} Signal 9 is often the system running out of memory.",
    )
