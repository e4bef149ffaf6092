"""Driving a client: one Submit or several, cancellation, and engines that refuse or die."""

from __future__ import annotations

import signal

import pytest

from draftscope.cli.generation import Generation
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.events import Records
from draftscope.engine.protocol import (
    Answer,
    Cancel,
    Command,
    ContextSettings,
    Done,
    EngineDied,
    Failed,
    Load,
    LoadProgress,
    LogLine,
    ModelSettings,
    Prompt,
    SlotResult,
    SlotTask,
    Submit,
)
from tests.cli.scripted_client import ScriptedClient, finished


class Seen:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.progress: list[str] = []
        self.results: list[tuple[int, int]] = []

    def on_progress(self, fraction: float, stage: str) -> None:
        self.progress.append(f"{stage} {fraction:.0%}")

    def on_pieces(self, pieces: dict[int, bytes]) -> None:
        raise AssertionError("No pieces were scripted.")

    def on_records(self, records: Records) -> None:
        raise AssertionError("No records were scripted.")

    def on_result(self, prompt: int, result: SlotResult) -> None:
        self.results.append((prompt, result.slot))

    def on_log(self, line: LogLine) -> None:
        pass


def _tasks(n: int) -> list[tuple[int, SlotTask]]:
    return [(i, SlotTask(i, Prompt(text="x"))) for i in range(n)]


def _finish(command: Command) -> list[Answer]:
    return [finished(command)] if isinstance(command, Submit) else [Done(command.id)]


def test_tasks_that_fit_are_one_submit() -> None:
    client, seen = ScriptedClient(_finish), Seen()
    outcome = Generation(client, seen).run(_tasks(3))
    assert [len(command.tasks) for command in client.sent if isinstance(command, Submit)] == [3]
    assert seen.results == [(0, 0), (1, 1), (2, 2)]
    assert len(outcome.reports) == 1
    assert not outcome.is_interrupted


def test_waiting_tasks_go_to_the_slot_that_is_free() -> None:
    submits: list[Submit] = []

    def last_first(command: Command) -> list[Answer]:
        assert isinstance(command, Submit)
        submits.append(command)
        # Slot 1 ends at once, slot 0 only when nothing waits any more.
        if command.tasks[0].slot == 1:
            answers: list[Answer] = [finished(command)]
            if len(submits) == 4:
                answers.append(finished(submits[0]))
            return answers
        return []

    seen = Seen()
    waiting = [(2, SlotTask(0, Prompt(text="y"))), (3, SlotTask(0, Prompt(text="z")))]
    outcome = Generation(ScriptedClient(last_first), seen).run(_tasks(2), waiting)
    assert [(s.tasks[0].slot, s.tasks[0].prompt.text) for s in submits] == [(0, "x"), (1, "x"), (1, "y"), (1, "z")]
    assert seen.results == [(1, 1), (2, 1), (3, 1), (0, 0)]
    assert len(outcome.reports) == 4


def test_ctrl_c_cancels_once_and_submits_nothing_more() -> None:
    submits: list[Submit] = []

    def interrupted(command: Command) -> list[Answer]:
        match command:
            case Submit():
                submits.append(command)
                signal.raise_signal(signal.SIGINT)
                return [LoadProgress(command.id, 0.0, "nothing")]
            case _:
                return [finished(submits[0]), Done(command.id)]

    client, seen = ScriptedClient(interrupted), Seen()
    waiting = [(1, SlotTask(0, Prompt(text="y")))]
    outcome = Generation(client, seen).run(_tasks(1), waiting)
    assert outcome.is_interrupted
    assert seen.results == [(0, 0)]
    assert [type(command) for command in client.sent] == [Submit, Cancel]


def test_a_second_ctrl_c_raises_and_the_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)

    def twice(command: Command) -> list[Answer]:
        signal.raise_signal(signal.SIGINT)
        return [LoadProgress(command.id, 0.0, "nothing")]

    with pytest.raises(KeyboardInterrupt):
        Generation(ScriptedClient(twice), Seen()).run(_tasks(1))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_refused_load_raises_with_the_last_log_lines() -> None:
    def refuse(command: Command) -> list[Answer]:
        return [
            LoadProgress(command.id, 0.5, "weights"),
            LogLine("error", "tensor missing", 0),
            Failed(command.id, ErrorReport(ErrorCode.BAD_FILE, "Bad.", "Do this.")),
        ]

    seen = Seen()
    with pytest.raises(EngineError) as caught:
        Generation(ScriptedClient(refuse), seen).load(ModelSettings("m.gguf"), ContextSettings())
    assert caught.value.code is ErrorCode.BAD_FILE
    assert caught.value.__notes__ == ["engine log: tensor missing"]
    assert seen.progress == ["weights 50%"]


def test_a_refused_prompt_is_told_without_the_log() -> None:
    def refuse(command: Command) -> list[Answer]:
        failed = Failed(command.id, ErrorReport(ErrorCode.BAD_PROMPT, "Too long.", "Shorten it."))
        return [LogLine("warning", "of the model", 0), failed]

    with pytest.raises(EngineError, match="Too long") as caught:
        Generation(ScriptedClient(refuse), Seen()).run(_tasks(1))
    assert not getattr(caught.value, "__notes__", [])


def test_a_dead_engine_is_told_with_signal_and_operation() -> None:
    def die(command: Command) -> list[Answer]:
        assert isinstance(command, Load)
        return [EngineDied(signal.SIGKILL, 0, "verifying drafts in round 3", ("last words",))]

    with pytest.raises(EngineError, match=r"signal 9 \(SIGKILL\) while verifying drafts in round 3") as caught:
        Generation(ScriptedClient(die), Seen()).load(ModelSettings("m.gguf"), ContextSettings())
    assert caught.value.code is ErrorCode.ENGINE_DIED
    assert caught.value.__notes__ == ["engine log: last words"]
