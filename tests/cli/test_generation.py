"""Driving a client: one Submit or several, cancellation, and engines that refuse or die."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from draftscope.cli.generation import MAX_AHEAD, Generation
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import (
    ANY_SLOT,
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
    RestoreSlot,
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

    def on_arrays(self, arrays: list[SideArray]) -> None:
        raise AssertionError("No probes were scripted.")

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


def _waiting(n: int) -> list[tuple[int, SlotTask]]:
    return [(2 + i, SlotTask(ANY_SLOT, Prompt(text="y"))) for i in range(n)]


def test_waiting_tasks_are_given_to_the_engine_at_once_a_submit_each() -> None:
    client, seen = ScriptedClient(_finish), Seen()
    outcome = Generation(client, seen).run(_tasks(2), _waiting(3))
    submits = [command for command in client.sent if isinstance(command, Submit)]
    assert [task.slot for submit in submits for task in submit.tasks] == [0, 1, ANY_SLOT, ANY_SLOT, ANY_SLOT]
    assert len(outcome.reports) == 5


def test_no_more_tasks_wait_in_the_engine_than_it_should_read_ahead() -> None:
    open_submits: list[Submit] = []
    most = 0

    def keep(command: Command) -> list[Answer]:
        nonlocal most
        assert isinstance(command, Submit)
        open_submits.append(command)
        most = max(most, len(open_submits))
        return []

    class EndsByAndBy(ScriptedClient):
        def wait(self, timeout_s: float) -> bool:
            self._answers.append(finished(open_submits.pop(0)))
            return True

    client = EndsByAndBy(keep)
    outcome = Generation(client, Seen()).run(_tasks(2), _waiting(198))
    assert len(outcome.reports) == 200
    assert most == 2 + MAX_AHEAD


def test_tasks_that_never_had_a_slot_when_it_was_interrupted_have_no_result() -> None:
    submits: list[Submit] = []

    def interrupted(command: Command) -> list[Answer]:
        match command:
            case Submit():
                submits.append(command)
                if len(submits) == 3:
                    signal.raise_signal(signal.SIGINT)
                return []
            case _:
                never = replace(finished(submits[2]).results[0], slot=ANY_SLOT, tokens=(), stop="cancelled")
                return [*map(finished, submits[:2]), replace(finished(submits[2]), results=(never,)), Done(command.id)]

    class Patient(ScriptedClient):
        def wait(self, timeout_s: float) -> bool:
            return bool(self._answers)

    outcome = Generation(Patient(interrupted), seen := Seen()).run(_tasks(2), _waiting(1))
    assert outcome.is_interrupted
    assert seen.results == [(0, 0), (1, 1)]
    assert [prompt for prompt, _ in outcome.results] == [0, 1]


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


def test_ctrl_c_between_two_runs_lets_the_next_one_end_before_it_begins() -> None:
    def never(command: Command) -> list[Answer]:
        raise AssertionError(command)

    client = ScriptedClient(never)
    generation = Generation(client, Seen())
    with generation.interruptible():
        signal.raise_signal(signal.SIGINT)
        outcome = generation.run(_tasks(2), _waiting(1))
    assert outcome.is_interrupted
    assert (outcome.results, client.sent) == ([], [])


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


def test_a_slot_file_that_is_refused_is_told_without_the_log() -> None:
    def refuse(command: Command) -> list[Answer]:
        failed = Failed(command.id, ErrorReport(ErrorCode.BAD_FILE, "Damaged.", "Use another copy."))
        return [LogLine("warning", "of the model", 0), failed]

    with pytest.raises(EngineError, match="Damaged") as caught:
        Generation(ScriptedClient(refuse), Seen()).change(RestoreSlot(1, 0, "a.slot"))
    assert not getattr(caught.value, "__notes__", [])


def test_a_dead_engine_is_told_with_signal_and_operation() -> None:
    def die(command: Command) -> list[Answer]:
        assert isinstance(command, Load)
        return [EngineDied(signal.SIGKILL, 0, "verifying drafts in round 3", ("last words",))]

    with pytest.raises(EngineError, match=r"signal 9 \(SIGKILL\) while verifying drafts in round 3") as caught:
        Generation(ScriptedClient(die), Seen()).load(ModelSettings("m.gguf"), ContextSettings())
    assert caught.value.code is ErrorCode.ENGINE_DIED
    assert caught.value.__notes__ == ["engine log: last words"]
