"""A client whose answers the test writes, for what the fake engine cannot be brought to do at a chosen moment."""

from __future__ import annotations

from dataclasses import replace

from draftscope.engine.errors import EngineError, ErrorCode, ErrorReport
from draftscope.engine.events import Records, empty_records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import (
    Answer,
    Command,
    CommandId,
    ContextSettings,
    DecodeCounts,
    EngineDied,
    Finished,
    Load,
    Loaded,
    ModelReport,
    Prompt,
    RunReport,
    SlotTask,
    Speculation,
    WayBack,
)
from draftscope.session.run_request import RunRequest
from draftscope.session.session import Session, SessionState

DEATH = EngineDied(9, 0, "verifying drafts in round 12", ("last line",))


class ScriptedClient:
    """Keeps what was sent; gives out what the test puts into ``answers`` and ``records``."""

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.answers: list[Answer] = []
        self.records: Records = empty_records()
        self.arrays: list[SideArray] = []
        self.n_dropped = self.n_arrays_dropped = 0
        self.silence_s = 0.0
        self.operation = ""
        self.is_alive = True
        self.n_restarts = 0
        self.can_restart = True
        self.is_closed = False
        self._n_ids = 0

    def next_id(self) -> CommandId:
        """See ``Client.next_id``."""
        self._n_ids += 1
        return CommandId(self._n_ids)

    def send(self, command: Command) -> None:
        """See ``Client.send``."""
        self.sent.append(command)

    def drain(self) -> list[Answer]:
        """See ``Client.drain``."""
        answers, self.answers = self.answers, []
        return answers

    def wait(self, timeout_s: float) -> bool:
        """See ``Client.wait``."""
        return bool(self.answers)

    def read_records(self) -> Records:
        """See ``Client.read_records``."""
        records, self.records = self.records, empty_records()
        return records

    def read_arrays(self) -> list[SideArray]:
        """See ``Client.read_arrays``."""
        arrays, self.arrays = self.arrays, []
        return arrays

    def restart(self) -> None:
        """See ``Client.restart``."""
        if not self.can_restart:
            raise EngineError(ErrorCode.ENGINE_DIED, "No process can be started.", "Try again.")
        self.n_restarts += 1

    def close(self) -> None:
        """See ``Client.close``."""
        self.is_closed = True

    @property
    def last(self) -> Command:
        """The command sent last."""
        return self.sent[-1]

    def answer_load(self, command: Command | None = None, n_slots: int | None = None) -> None:
        """Let the last Load or Configure (or the given one) succeed."""
        command = command or self.last
        assert not isinstance(command, int)
        context = getattr(command, "context", ContextSettings())
        path = command.model.path if isinstance(command, Load) else "m.gguf"
        report = model_report(path, context)
        self.answers.append(Loaded(command.id, replace(report, n_slots=n_slots or context.n_slots)))

    def answer_run(self, command: Command | None = None) -> None:
        """Let the last Submit end."""
        report = RunReport(DecodeCounts(), 0, 0, 0, 1.0)
        self.answers.append(Finished((command or self.last).id, (), report))


def model_report(path: str, context: ContextSettings) -> ModelReport:
    """A report that grants what was asked for."""
    return ModelReport(
        path=path,
        description="scripted",
        architecture="qwen35",
        size_bytes=1,
        n_params=1,
        n_layer=1,
        n_embd=1,
        n_vocab=1,
        n_ctx_train=1,
        has_tokenizer=True,
        has_chat_template=True,
        is_recurrent=True,
        n_slots_asked=context.n_slots,
        n_slots=context.n_slots,
        n_ctx=context.n_ctx,
        n_threads=1,
        devices=(),
        speculation=Speculation(True, 1, context.n_draft_max),
        way_back=WayBack(context.checkpoint, "rollback", 3, 3, "because"),
        engine="scripted",
        is_patched=True,
        load_ms=1.0,
    )


def request(n_slots: int = 2, text: str = "hello") -> RunRequest:
    """A run of one text in every slot."""
    tasks = tuple(SlotTask(slot, Prompt(text=text)) for slot in range(n_slots))
    return RunRequest(ContextSettings(n_slots=n_slots), tasks)


def refusal(message: str = "It cannot be loaded.") -> ErrorReport:
    """An error as the engine reports them."""
    return ErrorReport(ErrorCode.BAD_FILE, message, "Take another.")


def state_of(session: Session) -> SessionState:
    """The session's state, which type checkers would else take for constant between two looks."""
    return session.state
