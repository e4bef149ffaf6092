"""The Submits that the backend is working on: starts them, steps the backend, closes those whose tasks have ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

from draftscope.engine.backend import Backend
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.intake import Order
from draftscope.engine.protocol import Answer, Closing, Failed, Pieces, SlotTask
from draftscope.engine.submission import Submission

_log = logging.getLogger(__name__)

_MAX_STEPS_OF_A_CANCEL = 10_000


class RunningTasks:
    """Engine thread only. True while any Submit is open.

    Args:
        close: sends a closing message.
        answer: sends any other answer.
    """

    def __init__(self, close: Callable[[Closing], None], answer: Callable[[Answer], None]) -> None:
        self._close = close
        self._answer = answer
        self._submissions: list[Submission] = []

    def __bool__(self) -> bool:
        return bool(self._submissions)

    @property
    def busy_slots(self) -> set[int]:
        """Slots whose task has not ended."""
        return {slot for submission in self._submissions for slot in submission.waits_for}

    def start(self, order: Order, resolved: list[tuple[SlotTask, tuple[int, ...]]], backend: Backend) -> None:
        """Give the tasks to the backend. If it refuses one, those before it are cancelled and the Submit will fail."""
        submission = Submission(order, backend.decode_counts(), backend.checkpoint_counts())
        try:
            for task, tokens in resolved:
                backend.submit(task, tokens)
                submission.waits_for.add(task.slot)
        except Exception as error:
            if not submission.waits_for:
                raise
            if not isinstance(error, EngineError):
                _log.exception("The engine could not take a task.")
            submission.failure = _report(error)
            backend.cancel(tuple(submission.waits_for))
        self._submissions.append(submission)

    def step(self, backend: Backend) -> bool:
        """Let the backend do its next piece of work and pass on what came of it.

        A failure closes every open Submit. False: not even that could be done in order, and the backend should unload.
        """
        try:
            has_work = backend.step()
            self._pass_on(backend)
        except Exception as error:
            if not isinstance(error, EngineError):
                _log.exception("The engine failed while generating.")
            self._fail_all(_report(error))
            return self._has_emptied(backend)
        if not has_work and self._submissions:
            lost = sorted(self.busy_slots)
            self._fail_all(ErrorReport(ErrorCode.INTERNAL, f"The engine lost the tasks of the slots {lost}."))
        return True

    def _pass_on(self, backend: Backend) -> None:
        if pieces := backend.take_pieces():
            self._answer(Pieces(pieces))
        for result in backend.take_results():
            if not any(submission.take(result) for submission in self._submissions):
                _log.warning("A result of slot %d belongs to no open command.", result.slot)
        ended = [submission for submission in self._submissions if not submission.waits_for]
        if ended:
            decodes, checkpoints = backend.decode_counts(), backend.checkpoint_counts()
            memory, cost = backend.memory_use(), backend.decode_cost()
            self._submissions = [submission for submission in self._submissions if submission.waits_for]
            for submission in ended:
                self._close(submission.closing(decodes, checkpoints, memory, cost))

    def _fail_all(self, report: ErrorReport) -> None:
        submissions, self._submissions = self._submissions, []
        for submission in submissions:
            self._close(Failed(submission.order.command.id, submission.failure or report))

    def _has_emptied(self, backend: Backend) -> bool:
        """Cancel whatever the backend still has, and say whether that worked."""
        try:
            for _ in range(_MAX_STEPS_OF_A_CANCEL):
                backend.cancel(())
                has_work = backend.step()
                if pieces := backend.take_pieces():
                    self._answer(Pieces(pieces))
                backend.take_results()
                if not has_work:
                    return True
        except Exception:
            _log.exception("The engine did not recover; the model is given up.")
        return False


def _report(error: Exception) -> ErrorReport:
    return error.report() if isinstance(error, EngineError) else internal(error)


def internal(error: Exception) -> ErrorReport:
    """The report of a failure that nobody foresaw."""
    what = f"The engine failed in a way that was not foreseen: {type(error).__name__}: {error}"
    return ErrorReport(ErrorCode.INTERNAL, what, "This is a defect in Draftscope; its log has the details.")
