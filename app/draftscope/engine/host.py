"""Drives a backend with the commands of ``protocol``: the same loop in the worker process and in the caller's process.

Two threads. The *reader* gives messages to ``Host.receive``, where Cancel and Shutdown act at once, whatever the engine
is doing. The *engine* thread is inside ``Host.run``: it carries out one command after the other and, in between, lets
the backend do one bounded piece of work at a time, so several Submits may be in progress in different slots.

Every command gets exactly one closing message, whatever happens: ``Intake`` counts them, and an exception that nobody
foresaw becomes ``Failed`` (code INTERNAL) with its traceback in the log. A cancel that comes while a Submit is on its
way into the backend is not lost, and touches no task but those it is about: see ``intake.Order``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import assert_never

from draftscope.engine.backend import Backend, ChatTemplate
from draftscope.engine.chat import ChatRenderer, Rendering
from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.intake import Intake, Order
from draftscope.engine.output_format import schemas_of, with_grammars
from draftscope.engine.protocol import (
    Answer,
    Cancelled,
    Configure,
    Done,
    Failed,
    InjectFault,
    Load,
    Loaded,
    LoadProgress,
    ModelReport,
    SetProbe,
    Shutdown,
    SlotCommand,
    Submit,
    Unload,
)
from draftscope.engine.slot_commands import carry_out
from draftscope.engine.submission import check_continuations, conversations_of, never_started, resolve
from draftscope.engine.task_checks import check_numbers, check_slot_numbers, check_tasks, loaded_model
from draftscope.engine.task_words import whose
from draftscope.engine.tasks import TaskQueue, internal

_log = logging.getLogger(__name__)

_PROGRESS_INTERVAL_S = 0.03
"""Between two ``LoadProgress`` answers: libllama tells its progress for every tensor."""

MakeBackend = Callable[[], Backend]
"""Makes the backend in the engine thread. Raises EngineError when what it needs is not installed."""


class Host:
    """One engine. ``run`` returns after a Shutdown; then nothing is loaded and every command is closed.

    Args:
        make_backend: called in the engine thread at the start, and again by a Load if it failed.
        answer: takes the answers, from both threads.
        beat: a sign of life for whoever watches the engine; called while the host itself is at work.
    """

    def __init__(self, make_backend: MakeBackend, answer: Callable[[Answer], None], beat: Callable[[], None]) -> None:
        self._make_backend = make_backend
        self._answer = answer
        self._beat = beat
        self._backend: Backend | None = None
        self._model: ModelReport | None = None
        self._intake = Intake(answer, self._stop_slots)
        self._chat = ChatRenderer(on_ready=self._intake.wake)
        self._tasks = TaskQueue(self._intake.close, answer, lambda: self._intake.n_cancels)
        self._rendering: tuple[Order, ChatTemplate | None, Rendering] | None = None
        self._is_over = False

    def receive(self, data: bytes) -> None:
        """Take a message in its JSON form; one thread at a time, returns at once."""
        self._intake.receive(data)

    def run(self) -> None:
        """Carry out what is received until a Shutdown is done. The calling thread is the engine thread."""
        try:
            self._need_backend()
        except EngineError as error:
            _log.error("%s %s", error.message, error.hint)  # a Load will say so again
        try:
            while not self._is_over:
                self._turn()
        finally:
            self._chat.close()

    def _turn(self) -> None:
        if self._rendering is not None:
            order, template, rendering = self._rendering
            if rendering.is_over or order.is_nothing_left:
                self._rendering = None
                self._guard(order, lambda: self._start(order, template, rendering))
                return
        elif (order_ := self._intake.take()) is not None:
            self._guard(order_, lambda: self._carry_out(order_))
            return
        if self._tasks:
            self._step()
        else:
            self._intake.wait()

    def _guard(self, order: Order, work: Callable[[], None]) -> None:
        """Do the work of an order; whatever it raises closes the order."""
        try:
            self._beat()
            work()
        except EngineError as error:
            self._intake.close(Failed(order.command.id, error.report()))
        except Exception as error:
            _log.exception("%s failed in a way that was not foreseen.", type(order.command).__name__)
            self._intake.close(Failed(order.command.id, internal(error)))

    def _carry_out(self, order: Order) -> None:
        command = order.command
        match command:
            case Load():
                self._load(order, command)
            case Configure():
                self._configure(command)
            case Submit():
                self._prepare(order, command)
            case SetProbe() | InjectFault():
                self._set_probe(command)
            case Unload():
                self._end_tasks()
                self._unload()
                self._intake.close(Done(command.id))
            case Shutdown():
                self._shut_down(command)
            case _ if isinstance(command, SlotCommand):
                self._carry_out_on_slot(command)
            case _:
                assert_never(command)

    # ---- commands

    def _load(self, order: Order, command: Load) -> None:
        self._end_tasks()
        backend = self._need_backend()
        self._model = None
        try:
            check_numbers(command.model)
            check_numbers(command.context)
            report = backend.load(command.model, command.context, self._progress_of(order))
        except EngineError as error:
            self._unload()
            if error.code is not ErrorCode.CANCELLED:
                raise
            self._intake.close(Cancelled(command.id))
            return
        except Exception:
            self._unload()
            raise
        if order.is_cancelled:  # too late for the backend to notice, not for whoever asked
            self._unload()
            self._intake.close(Cancelled(command.id))
            return
        self._model = report
        self._intake.close(Loaded(command.id, report))

    def _progress_of(self, order: Order) -> Callable[[float, str], bool]:
        last_s, last_stage = 0.0, ""

        def tell(fraction: float, stage: str) -> bool:
            nonlocal last_s, last_stage
            self._beat()
            now_s = time.monotonic()
            if now_s - last_s >= _PROGRESS_INTERVAL_S or stage != last_stage:
                last_s, last_stage = now_s, stage
                self._answer(LoadProgress(order.command.id, fraction, stage))
            return not order.is_cancelled

        return tell

    def _configure(self, command: Configure) -> None:
        if self._model is None or self._backend is None:
            raise EngineError(ErrorCode.NOT_LOADED, "No model is loaded.", "Open a GGUF file first.")
        check_numbers(command.context)
        self._end_tasks()
        if self._model is None:
            raise EngineError(ErrorCode.NOT_LOADED, "The model was given up after a failure.", "Open it again.")
        self._model = self._backend.configure(command.context)
        self._intake.close(Loaded(command.id, self._model))

    def _prepare(self, order: Order, command: Submit) -> None:
        """Check everything; queue it at once, or once its conversations are rendered and its schemas are grammars."""
        check_tasks(command.tasks, loaded_model(self._model))
        self._tasks.check_room(len(command.tasks))
        conversations, schemas = conversations_of(command.tasks), schemas_of(command.tasks)
        if not conversations and not schemas:
            self._start(order, None, None)
            return
        assert self._backend is not None  # a model is loaded
        template = self._backend.chat_template()
        if conversations and template is None:
            what = "The model's file has no chat template, so messages cannot be made into a prompt."
            raise EngineError(ErrorCode.BAD_PROMPT, what, "Give the prompt as plain text.")
        names = {index: whose(task.slot) for index, task in enumerate(command.tasks)}
        self._rendering = (order, template, self._chat.render(template, conversations, schemas, names))

    def _start(self, order: Order, template: ChatTemplate | None, rendering: Rendering | None) -> None:
        assert isinstance(order.command, Submit)
        assert self._backend is not None
        assert self._model is not None  # checked before, and nothing is carried out in between
        if order.is_nothing_left:
            if rendering is not None:
                rendering.abandon()
            self._intake.close(never_started(order.command))
            return
        rendered = rendering.result() if rendering is not None else {}
        bos = template.bos if template is not None else ""
        tasks = with_grammars(order.command.tasks, rendering.grammars if rendering is not None else {})
        resolved = resolve(tasks, rendered, bos, self._backend, self._model)
        check_continuations(resolved, self._tasks.busy_slots, self._backend, self._model)
        self._tasks.start(order, resolved, self._backend, self._model.n_slots)

    def _carry_out_on_slot(self, command: SlotCommand) -> None:
        model = loaded_model(self._model)
        assert self._backend is not None  # a model is loaded
        self._intake.close(carry_out(command, self._backend, model, self._tasks.busy_slots, self._beat))

    def _set_probe(self, command: SetProbe | InjectFault) -> None:
        check_numbers(command)
        check_slot_numbers(command.slots)
        backend = self._need_backend()
        if isinstance(command, SetProbe):
            backend.set_probe(command.level, command.slots)
        else:
            backend.inject_fault(command.fault, command.slots, command.layer)
        self._intake.close(Done(command.id))

    def _shut_down(self, command: Shutdown) -> None:
        self._is_over = True
        self._end_tasks()
        self._intake.close_waiting(ErrorReport(ErrorCode.CANCELLED, "The engine was shut down before it came to this."))
        self._unload()
        self._intake.close(Done(command.id))

    # ---- the backend

    def _need_backend(self) -> Backend:
        if self._backend is None:
            try:
                self._backend = self._make_backend()
            except EngineError:
                raise
            except Exception as error:
                _log.exception("The engine could not be made.")
                raise EngineError(ErrorCode.INTERNAL, f"The engine could not be made: {error}.") from error
        return self._backend

    def _stop_slots(self, slots: tuple[int, ...]) -> None:
        if self._backend is not None:
            self._backend.cancel(slots)

    def _step(self) -> None:
        assert self._backend is not None  # it has tasks,
        assert self._model is not None  # and so a model
        if not self._tasks.step(self._backend, self._model.n_slots):
            self._unload()

    def _end_tasks(self) -> None:
        """Cancel every task, begun or not, and close its Submit."""
        if self._backend is not None:
            self._tasks.drop_waiting(self._backend)
        while self._tasks:
            self._stop_slots(())
            self._step()

    def _unload(self) -> None:
        self._model = None
        if self._backend is not None:
            try:
                self._backend.unload()
            except Exception:
                _log.exception("The engine could not unload.")
