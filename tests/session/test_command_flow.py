"""Every transition of the state machine, answer by answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from draftscope.engine.errors import ErrorCode, ErrorReport
from draftscope.engine.protocol import (
    Cancel,
    Cancelled,
    CheckpointMode,
    CommandId,
    Configure,
    Done,
    Failed,
    Load,
    LoadProgress,
    Submit,
)
from draftscope.session.session import Session, SessionState
from tests.session.scripted_client import DEATH, ScriptedClient, refusal, request, state_of


@pytest.fixture
def failures(session: Session) -> list[ErrorReport]:
    """What the session said went wrong."""
    found: list[ErrorReport] = []
    session.failed.connect(found.append)
    return found


def test_a_load_goes_from_no_model_over_loading_to_ready(session: Session, client: ScriptedClient) -> None:
    assert state_of(session) is SessionState.NO_MODEL
    session.open_model("m.gguf")
    assert state_of(session) is SessionState.LOADING
    client.answers.append(LoadProgress(client.last.id, 0.5, "weights"))
    session.poll()
    assert session.progress == (0.5, "weights")
    client.answer_load()
    session.poll()
    assert state_of(session) is SessionState.READY
    assert session.model is not None
    assert session.model.path == "m.gguf"


def test_a_refused_load_leaves_no_model_and_says_why(
    session: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    session.open_model("m.gguf")
    client.answers.append(Failed(client.last.id, refusal()))
    session.poll()
    assert state_of(session) is SessionState.NO_MODEL
    assert failures == [refusal()]
    assert session.log.lines[-1].text == refusal().message


def test_a_load_can_be_cancelled_and_nothing_is_loaded_then(session: Session, client: ScriptedClient) -> None:
    session.open_model("m.gguf")
    load = client.last
    session.cancel_load()
    assert isinstance(client.last, Cancel)
    assert session.progress[1] == "cancelling"
    client.answers += [LoadProgress(load.id, 0.7, "weights"), Done(client.last.id), Cancelled(load.id)]
    session.poll()
    assert session.progress[1] == "cancelling"
    assert state_of(session) is SessionState.NO_MODEL
    assert session.model_settings is None


def test_a_second_load_cancels_the_first_and_follows_it(session: Session, client: ScriptedClient) -> None:
    session.open_model("a.gguf")
    first = client.last
    session.open_model("b.gguf")
    assert isinstance(client.last, Cancel)
    client.answers.append(Cancelled(first.id))
    session.poll()
    assert isinstance(client.last, Load)
    assert client.last.model.path == "b.gguf"
    assert state_of(session) is SessionState.LOADING


def test_a_late_answer_to_an_earlier_load_changes_nothing(session: Session, client: ScriptedClient) -> None:
    session.open_model("a.gguf")
    first = client.last
    session.open_model("b.gguf")
    client.answers.append(Cancelled(first.id))
    session.poll()
    client.answer_load(first)
    client.answers.append(LoadProgress(first.id, 0.9, "late"))
    session.poll()
    assert state_of(session) is SessionState.LOADING
    assert session.model is None
    assert session.progress[1] != "late"


def test_a_run_goes_from_ready_over_running_to_ready(ready: Session, client: ScriptedClient) -> None:
    told: list[str] = []
    ready.run_started.connect(lambda: told.append("started"))
    ready.run_finished.connect(lambda: told.append("finished"))
    ready.run(request())
    assert state_of(ready) is SessionState.RUNNING
    assert isinstance(client.last, Submit)
    assert len(ready.tasks) == 2
    client.answer_run()
    ready.poll()
    assert state_of(ready) is SessionState.READY
    assert ready.run_report is not None
    assert told == ["started", "finished"]


def test_stopping_cancels_and_ends_with_the_engines_own_closing(ready: Session, client: ScriptedClient) -> None:
    ready.run(request())
    submit = client.last
    ready.stop()
    assert state_of(ready) is SessionState.STOPPING
    assert isinstance(client.last, Cancel)
    ready.stop()
    assert [type(command) for command in client.sent[-2:]] == [Submit, Cancel]
    client.answers.append(Done(client.last.id))
    client.answer_run(submit)
    ready.poll()
    assert state_of(ready) is SessionState.READY


def test_a_failed_run_leaves_the_model_ready(
    ready: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    ready.run(request())
    client.answers.append(Failed(client.last.id, refusal("The prompt is too long.")))
    ready.poll()
    assert state_of(ready) is SessionState.READY
    assert failures[0].message == "The prompt is too long."


@pytest.mark.parametrize(
    "change", [{"n_draft_max": 5}, {"checkpoint": CheckpointMode.HOST}, {"n_threads": 3}, {"n_ctx": 512}]
)
def test_a_run_in_other_contexts_configures_first(
    ready: Session, client: ScriptedClient, change: dict[str, int]
) -> None:
    wanted = request()
    wanted = replace(wanted, context=replace(wanted.context, **change))  # type: ignore[arg-type]
    ready.run(wanted)
    assert isinstance(client.last, Configure)
    assert client.last.context == wanted.context
    assert state_of(ready) is SessionState.LOADING
    client.answer_load()
    ready.poll()
    assert isinstance(client.last, Submit)
    assert state_of(ready) is SessionState.RUNNING


def test_a_run_in_the_same_contexts_does_not_configure(ready: Session, client: ScriptedClient) -> None:
    for _ in range(2):
        ready.run(request())
        client.answer_run()
        ready.poll()
    assert not any(isinstance(command, Configure) for command in client.sent)


def test_refused_contexts_leave_the_model_and_the_next_run_configures_again(
    ready: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    ready.run(request(3))
    client.answers.append(Failed(client.last.id, refusal("Three slots do not fit.")))
    ready.poll()
    assert state_of(ready) is SessionState.READY
    assert ready.model is not None
    assert failures[0].message == "Three slots do not fit."
    ready.run(request())
    assert isinstance(client.last, Configure)


def test_tasks_of_slots_that_were_not_granted_do_not_run_and_the_log_says_so(
    session: Session, client: ScriptedClient
) -> None:
    session.open_model("m.gguf", request(4).context)
    client.answer_load(n_slots=2)
    session.poll()
    session.run(request(4))
    assert isinstance(client.last, Submit)
    assert [task.slot for task in client.last.tasks] == [0, 1]
    session.poll()
    assert "4 slots were asked for and 2 granted" in session.log.lines[-1].text


def test_a_run_while_one_goes_on_is_refused(ready: Session, failures: list[ErrorReport]) -> None:
    ready.run(request())
    ready.run(request())
    assert failures[0].code is ErrorCode.BUSY
    assert state_of(ready) is SessionState.RUNNING


def test_a_run_without_a_model_is_refused(session: Session, failures: list[ErrorReport]) -> None:
    session.run(request())
    assert failures[0].code is ErrorCode.NOT_LOADED


def test_a_run_without_prompts_is_refused(ready: Session, failures: list[ErrorReport]) -> None:
    ready.run(replace(request(), tasks=()))
    assert failures[0].code is ErrorCode.BAD_PROMPT
    assert state_of(ready) is SessionState.READY


def test_a_run_asked_for_while_loading_follows_the_load(session: Session, client: ScriptedClient) -> None:
    session.open_model("m.gguf", request().context)
    session.run(request())
    client.answer_load()
    session.poll()
    assert state_of(session) is SessionState.RUNNING


def test_opening_a_model_while_a_run_goes_on_stops_the_run_first(ready: Session, client: ScriptedClient) -> None:
    ready.run(request())
    submit = client.last
    ready.open_model("b.gguf")
    assert state_of(ready) is SessionState.STOPPING
    client.answer_run(submit)
    ready.poll()
    assert isinstance(client.last, Load)
    assert client.last.model.path == "b.gguf"


def test_a_death_while_running_restarts_and_loads_again_but_does_not_run(
    ready: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    finished: list[int] = []
    ready.run_finished.connect(lambda: finished.append(1))
    states: list[SessionState] = []
    ready.state_changed.connect(lambda: states.append(ready.state))
    ready.run(request())
    submit = client.last
    client.answers += [DEATH, Failed(submit.id, ErrorReport(ErrorCode.ENGINE_DIED, "The engine has ended."))]
    ready.poll()
    assert client.n_restarts == 1
    assert states == [SessionState.RUNNING, SessionState.ENGINE_DIED, SessionState.LOADING]
    assert finished == [1]
    assert len(failures) == 1
    assert "SIGKILL" in failures[0].message
    assert "verifying drafts in round 12" in failures[0].message
    assert ready.death == DEATH
    client.answer_load()
    ready.poll()
    assert state_of(ready) is SessionState.READY
    assert not isinstance(client.last, Submit)


LOST = replace(DEATH, lost_servers=("gpu:50052",))


def open_on_server(session: Session, client: ScriptedClient) -> None:
    session.open_model("m.gguf", request().context, rpc_servers=("gpu:50052",))
    client.answer_load()
    session.poll()


def test_a_lost_server_is_named_and_its_model_is_loaded_again_only_by_the_user(
    session: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    open_on_server(session, client)
    session.run(request())
    client.answers.append(LOST)
    session.poll()
    assert client.n_restarts == 1
    assert state_of(session) is SessionState.NO_MODEL
    (failure,) = failures
    assert failure.code is ErrorCode.ENGINE_DIED
    assert failure.message == (
        "The connection to the RPC server gpu:50052 was lost while verifying drafts in round 12."
    )
    assert "kept" in failure.hint
    assert session.last_request is not None
    session.run(session.last_request)
    assert isinstance(client.last, Load)
    assert client.last.model.rpc_servers == ("gpu:50052",)
    client.answer_load()
    session.poll()
    assert state_of(session) is SessionState.RUNNING


def test_a_server_lost_while_another_model_is_loaded_does_not_keep_that_from_being_loaded(
    session: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    open_on_server(session, client)
    session.open_model("b.gguf")
    client.answers.append(LOST)
    session.poll()
    assert len(failures) == 1
    assert isinstance(client.last, Load)
    assert client.last.model.path == "b.gguf"
    client.answer_load()
    session.poll()
    assert state_of(session) is SessionState.READY


def test_a_server_lost_in_the_load_that_needs_it_ends_the_load(
    session: Session, client: ScriptedClient, failures: list[ErrorReport]
) -> None:
    session.open_model("m.gguf", rpc_servers=("gpu:50052",))
    client.answers.append(LOST)
    session.poll()
    assert len(failures) == 1
    assert state_of(session) is SessionState.NO_MODEL
    assert sum(isinstance(command, Load) for command in client.sent) == 1


def test_a_run_again_after_a_death_waits_for_the_load(ready: Session, client: ScriptedClient) -> None:
    ready.run(request())
    client.answers.append(DEATH)
    ready.poll()
    assert ready.last_request is not None
    ready.run(ready.last_request)
    client.answer_load()
    ready.poll()
    assert state_of(ready) is SessionState.RUNNING
    assert ready.death is None


def test_a_death_while_loading_does_not_load_the_same_again(session: Session, client: ScriptedClient) -> None:
    session.open_model("bad.gguf")
    client.answers.append(DEATH)
    session.poll()
    assert client.n_restarts == 1
    assert state_of(session) is SessionState.NO_MODEL


def test_an_engine_that_dies_again_and_again_is_left_alone(session: Session, client: ScriptedClient) -> None:
    for _ in range(5):
        client.answers.append(DEATH)
        session.poll()
    assert client.n_restarts == 2
    assert state_of(session) is SessionState.ENGINE_DIED
    session.restart_engine()
    assert client.n_restarts == 3
    assert state_of(session) is SessionState.NO_MODEL


def test_a_load_after_the_engine_died_for_good_starts_it_anew(session: Session, client: ScriptedClient) -> None:
    client.can_restart = False
    client.answers.append(DEATH)
    session.poll()
    assert state_of(session) is SessionState.ENGINE_DIED
    client.can_restart = True
    session.open_model("m.gguf")
    assert state_of(session) is SessionState.LOADING
    assert client.n_restarts == 1


def test_a_restart_that_fails_is_told(session: Session, client: ScriptedClient, failures: list[ErrorReport]) -> None:
    client.can_restart = False
    session.restart_engine()
    assert state_of(session) is SessionState.ENGINE_DIED
    assert failures[0].message == "No process can be started."


def test_restarting_a_running_engine_ends_the_run_and_loads_again(ready: Session, client: ScriptedClient) -> None:
    finished: list[int] = []
    ready.run_finished.connect(lambda: finished.append(1))
    ready.run(request())
    ready.restart_engine()
    assert finished == [1]
    assert isinstance(client.last, Load)


def test_an_answer_with_an_unknown_id_changes_nothing(ready: Session, client: ScriptedClient) -> None:
    client.answers += [Cancelled(CommandId(99)), Failed(CommandId(98), refusal())]
    ready.poll()
    assert state_of(ready) is SessionState.READY


def test_the_demo_loads_the_bundled_model_and_runs_with_one_call(session: Session, client: ScriptedClient) -> None:
    session.run_demo()
    assert isinstance(client.last, Load)
    assert client.last.model.path.endswith("draftscope-demo.gguf")
    client.answer_load()
    session.poll()
    assert isinstance(client.last, Submit)
    assert len(client.last.tasks) == 4
    client.answer_run()
    session.poll()
    session.run_demo()
    assert isinstance(client.last, Submit)


def test_the_demo_replaces_a_run_that_goes_on(session: Session, client: ScriptedClient) -> None:
    session.run_demo()
    client.answer_load()
    session.poll()
    first = client.last
    session.run_demo()
    assert state_of(session) is SessionState.STOPPING
    client.answer_run(first)
    session.poll()
    assert state_of(session) is SessionState.RUNNING
    assert client.last.id != first.id
