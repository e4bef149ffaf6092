"""The Submits that are open: their tasks wait for slots, are given to the backend, and end."""

from __future__ import annotations

import logging
from collections.abc import Callable

from draftscope.engine.backend import Backend
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.intake import Order
from draftscope.engine.protocol import ANY_SLOT, Answer, Closing, Failed, Pieces, SlotResult
from draftscope.engine.submission import ResolvedTask, Submission

_log = logging.getLogger(__name__)

MAX_WAITING = 4096
"""Tasks that may wait for a slot, over all Submits: each holds its prompt in tokens."""

_MAX_STEPS_OF_A_CANCEL = 10_000


class TaskQueue:
    """Engine thread only. True while any Submit is open.

    A task begins as soon as its slot is free (``ANY_SLOT``: the first free one), and no task that came before it can
    have that slot. So tasks of a slot run in order of arrival, and one that waits for a busy slot holds up no other.

    Args:
        close: sends a closing message.
        answer: sends any other answer.
        n_cancels: how many cancels there were; waiting tasks are looked through only after another one.
    """

    def __init__(
        self, close: Callable[[Closing], None], answer: Callable[[Answer], None], n_cancels: Callable[[], int]
    ) -> None:
        self._close = close
        self._answer = answer
        self._n_cancels = n_cancels
        self._n_cancels_seen = 0
        self._submissions: list[Submission] = []
        self._at_work: dict[int, Submission] = {}

    def __bool__(self) -> bool:
        return bool(self._submissions)

    @property
    def busy_slots(self) -> frozenset[int]:
        """Slots whose task has not ended."""
        return frozenset(self._at_work)

    def check_room(self, n_tasks: int) -> None:
        """Refuse tasks that the queue has no room for.

        Raises:
            EngineError: BUSY.
        """
        n_waiting = sum(len(submission.waiting) for submission in self._submissions)
        if n_waiting + n_tasks > MAX_WAITING:
            what = f"{n_tasks} more tasks cannot wait: {n_waiting} do, and {MAX_WAITING} is the most."
            raise EngineError(ErrorCode.BUSY, what, "Submit them when others have ended.")

    def start(self, order: Order, resolved: list[ResolvedTask], backend: Backend, n_slots: int) -> None:
        """Queue the tasks of a Submit; those whose slots are free begin now.

        If the backend refuses a task of it, those that have begun are cancelled, and the Submit will fail.
        """
        self._submissions.append(Submission(order, dict(enumerate(resolved))))
        self._begin_waiting(backend, n_slots)
        self._close_ended(backend)

    def step(self, backend: Backend, n_slots: int) -> bool:
        """Let the backend do its next piece of work, pass on what came of it, and begin what can begin now.

        A failure closes every open Submit. False: not even that could be done in order, and the backend should unload.
        """
        try:
            self._drop_cancelled()
            has_work = backend.step()
            n_ended = self._pass_on(backend)
            if self._at_work and not has_work:
                what = f"The engine lost the tasks of the slots {sorted(self._at_work)}."
                self._fail_all(ErrorReport(ErrorCode.INTERNAL, what))
            if n_ended:
                self._begin_waiting(backend, n_slots)
            self._close_ended(backend)
        except Exception as error:
            if not isinstance(error, EngineError):
                _log.exception("The engine failed while generating.")
            self._fail_all(_report(error))
            return self._has_emptied(backend)
        return True

    def drop_waiting(self, backend: Backend) -> None:
        """End every task that has not begun, as if it had been cancelled."""
        for submission in self._submissions:
            submission.drop(submission.waiting.keys())
        self._close_ended(backend)

    def _drop_cancelled(self) -> None:
        n_cancels = self._n_cancels()
        if n_cancels != self._n_cancels_seen:
            self._n_cancels_seen = n_cancels
            for submission in self._submissions:
                submission.drop(submission.order.cancelled)

    def _begin_waiting(self, backend: Backend, n_slots: int) -> None:
        """Give free slots to waiting tasks, in order of arrival."""
        free = [slot for slot in range(n_slots) if slot not in self._at_work]
        for submission in self._submissions:
            for index, (task, _) in list(submission.waiting.items()):
                if not free:
                    return
                slot = free[0] if task.slot == ANY_SLOT else task.slot
                if slot in free and index in submission.waiting and self._begin(submission, index, slot, backend):
                    free.remove(slot)

    def _begin(self, submission: Submission, index: int, slot: int, backend: Backend) -> bool:
        """Give a task to the backend; False: it was cancelled or refused, and the slot is still free."""
        if index in submission.order.cancelled:
            submission.drop({index})
            return False
        try:
            submission.begin(index, slot, backend)
        except Exception as error:
            if not isinstance(error, EngineError):
                _log.exception("The engine could not take a task.")
            submission.fail(_report(error))
            if submission.at_work:
                backend.cancel(tuple(submission.at_work))
            return False
        self._at_work[slot] = submission
        if submission.order.begin(index, slot):
            backend.cancel((slot,))
        return True

    def _pass_on(self, backend: Backend) -> int:
        """Answer what has come; how many tasks have ended."""
        if pieces := backend.take_pieces():
            self._answer(Pieces(pieces))
        results = backend.take_results()
        for result in results:
            self._take(result)
        return len(results)

    def _take(self, result: SlotResult) -> None:
        submission = self._at_work.pop(result.slot, None)
        if submission is None:
            _log.warning("A result of slot %d belongs to no open command.", result.slot)
        else:
            submission.take(result)

    def _close_ended(self, backend: Backend) -> None:
        ended = [submission for submission in self._submissions if submission.has_ended]
        if not ended:
            return
        decodes, checkpoints = backend.decode_counts(), backend.checkpoint_counts()
        memory, cost = backend.memory_use(), backend.decode_cost()
        self._submissions = [submission for submission in self._submissions if not submission.has_ended]
        for submission in ended:
            self._close(submission.closing(decodes, checkpoints, memory, cost))

    def _fail_all(self, report: ErrorReport) -> None:
        submissions, self._submissions = self._submissions, []
        self._at_work.clear()
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
