"""What the session keeps of a run and when it says so."""

from __future__ import annotations

import numpy as np

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.events import Kind, Records, empty_records
from draftscope.engine.protocol import Failed, LogLine, Pieces, Prompt, Submit
from draftscope.session.session import Session
from draftscope.session.state import SessionState
from tests.session.scripted_client import DEATH, ScriptedClient, request


def token_records(n: int, first: int = 0) -> Records:
    """Token records of slot 0 with running numbers."""
    records = empty_records(n)
    records["kind"] = Kind.TOKEN
    records["sequence"] = np.arange(first, first + n)
    records["t_start_ns"] = np.arange(first, first + n)
    return records


def test_records_of_a_run_are_kept_and_told_once_a_poll(ready: Session, client: ScriptedClient) -> None:
    told: list[int] = []
    ready.records_appended.connect(lambda: told.append(ready.trace.n_records))
    ready.run(request())
    client.records = token_records(5)
    ready.poll()
    ready.poll()
    assert told == [5]
    assert ready.meter.n_records == 5


def test_records_that_came_with_the_end_of_a_run_belong_to_it(ready: Session, client: ScriptedClient) -> None:
    ready.run(request())
    client.records = token_records(3)
    client.answer_run()
    ready.poll()
    assert ready.trace.n_records == 3


def test_records_of_contexts_being_made_belong_to_no_run(ready: Session, client: ScriptedClient) -> None:
    ready.run(request(3))
    client.records = token_records(3)
    ready.poll()
    assert ready.trace.n_records == 0


def test_a_new_run_forgets_the_records_and_the_selection_of_the_last(ready: Session, client: ScriptedClient) -> None:
    ready.run(request())
    client.records = token_records(3)
    client.answers.append(Pieces({1: b"told once"}))
    client.answer_run()
    ready.poll()
    ready.view.select_round(7)
    trace = ready.trace
    ready.run(request())
    assert ready.trace is trace
    assert ready.trace.n_records == 0
    assert ready.pieces.piece(1) == b"told once"
    assert ready.view.selected_round is None
    assert ready.meter.n_records == 0


def test_records_written_before_the_engine_died_are_kept(ready: Session, client: ScriptedClient) -> None:
    ready.run(request())
    client.records = token_records(4)
    client.answers.append(DEATH)
    ready.poll()
    client.answer_load()
    ready.poll()
    assert ready.trace.n_records == 4
    assert len(ready.tasks) == 2


def test_a_run_that_is_refused_leaves_the_last_one_to_be_seen(ready: Session, client: ScriptedClient) -> None:
    ready.run(request())
    client.records = token_records(4)
    client.answer_run()
    ready.poll()
    tasks, report = ready.tasks, ready.run_report
    assert report is not None
    trace, generation = ready.trace, ready.trace.generation
    ready.run(request())
    assert ready.trace.n_records == 0
    submit = next(command for command in reversed(client.sent) if isinstance(command, Submit))
    client.answers.append(Failed(submit.id, ErrorReport(ErrorCode.BAD_PROMPT, "Too long.")))
    ready.poll()
    assert ready.trace is trace
    assert ready.trace.generation > generation
    assert ready.meter.n_records == 4
    assert ready.trace.kind(Kind.TOKEN)["sequence"].tolist() == [0, 1, 2, 3]
    assert (ready.tasks, ready.run_report) == (tasks, report)
    assert ready.state is SessionState.READY


def test_another_model_forgets_the_run_of_the_last(ready: Session, client: ScriptedClient) -> None:
    ready.run(request())
    client.records = token_records(4)
    client.answers.append(Pieces({1: b"of the old model"}))
    client.answer_run()
    ready.poll()
    ready.open_model("b.gguf")
    assert ready.trace.n_records == 4
    client.answer_load()
    ready.poll()
    assert ready.trace.n_records == 0
    assert ready.pieces.piece(1) is None
    assert ready.tasks == ()


def test_dropped_records_are_counted_from_the_start_of_the_run(ready: Session, client: ScriptedClient) -> None:
    client.n_dropped = 10
    ready.run(request())
    client.n_dropped = 13
    ready.poll()
    assert ready.meter.n_dropped == 3


def test_log_lines_are_kept_and_told_once_a_poll(session: Session, client: ScriptedClient) -> None:
    told: list[int] = []
    session.log_appended.connect(lambda: told.append(session.log.n_total))
    client.answers += [LogLine("info", "one", 1), LogLine("info", "two", 2)]
    session.poll()
    session.poll()
    assert told == [2]
    assert [line.text for line in session.log.lines] == ["one", "two"]


def test_pieces_become_text(ready: Session, client: ScriptedClient) -> None:
    client.answers.append(Pieces({1: b"He", 2: b"llo"}))
    ready.poll()
    assert ready.pieces.text([1, 2]) == "Hello"


def test_silence_counts_only_while_the_engine_has_something_to_do(ready: Session, client: ScriptedClient) -> None:
    client.silence_s = 5.0
    assert ready.silence_s == 0.0
    ready.run(request())
    assert ready.silence_s == 5.0


def test_a_closed_session_has_closed_its_client_and_takes_nothing_more(
    session: Session, client: ScriptedClient
) -> None:
    session.close()
    client.answers.append(LogLine("info", "late", 1))
    session.poll()
    session.close()
    assert client.is_closed
    assert session.log.n_total == 0


def test_the_demo_without_its_prompts_says_so(session: Session, monkeypatch: object) -> None:
    from draftscope.engine.errors import EngineError, ErrorCode
    from draftscope.session import session as module

    failures: list[ErrorReport] = []
    session.failed.connect(failures.append)

    def missing() -> None:
        raise EngineError(ErrorCode.BAD_FILE, "The sample prompts are gone.", "Install Draftscope again.")

    monkeypatch.setattr(module, "demo_request", missing)  # type: ignore[attr-defined]
    session.run_demo()
    assert failures[0].message == "The sample prompts are gone."


def test_the_requests_prompt_reaches_the_engine_unchanged(ready: Session, client: ScriptedClient) -> None:
    ready.run(request(text="x\ty\n"))
    assert client.last.tasks[0].prompt == Prompt(text="x\ty\n")  # type: ignore[union-attr]
