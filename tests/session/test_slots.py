"""What slots hold, as records and answers tell it, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from draftscope.engine.backends import backend_maker
from draftscope.engine.errors import ErrorReport
from draftscope.engine.events import Kind, Operation, Records, Reuse, empty_records
from draftscope.engine.in_process_client import InProcessClient
from draftscope.engine.probes import RestoreKind
from draftscope.engine.protocol import (
    ClearSlot,
    ContextSettings,
    Failed,
    ForkSlot,
    Prompt,
    RestoreSlot,
    SaveSlot,
    SlotChanged,
    SlotFacts,
    SlotTask,
)
from draftscope.session.run_request import RunRequest
from draftscope.session.session import Session
from draftscope.session.slots import HeldSlot
from draftscope.session.state import SessionState
from draftscope.trace.restores import RestoreTable
from tests.session.polling import poll_until
from tests.session.scripted_client import DEATH, ScriptedClient, refusal


def operations(*rows: tuple[Operation, int, int, int, int]) -> Records:
    """Records of (operation, slot, position, n, m)."""
    records = empty_records(len(rows))
    records["kind"] = Kind.OPERATION
    for record, row in zip(records, rows, strict=True):
        for name, value in zip(("code", "slot", "position", "n", "m"), row, strict=True):
            record[name] = value
    return records


def tell(session: Session, client: ScriptedClient, *rows: tuple[Operation, int, int, int, int]) -> None:
    client.records = operations(*rows)
    session.poll()


def test_records_say_what_a_slot_holds_and_what_of_its_prompt_was_there(
    session: Session, client: ScriptedClient
) -> None:
    tell(session, client, (Operation.SUBMIT, 1, 30, 20, Reuse.RESTORED), (Operation.PROMPT_SAVE, 1, 16, 16, 0))
    assert session.slots.held[1] == HeldSlot(30, "", 30, 20, "restored")
    tell(session, client, (Operation.RELEASE, 1, 75, 74, Reuse.KEPT))
    assert session.slots.held[1] == HeldSlot(75, "", 30, 20, "restored")
    assert session.slots.n_tokens(0) == 0


def test_records_that_no_version_knows_change_nothing(session: Session, client: ScriptedClient) -> None:
    tell(session, client, (99, 1, 30, 20, 0), (Operation.SUBMIT, 1, 8, 0, 77))  # type: ignore[arg-type]
    assert session.slots.held[1] == HeldSlot(8, "", 8, 0, "")


def test_what_a_file_gave_is_what_a_slot_holds(session: Session, client: ScriptedClient) -> None:
    texts: list[tuple[int, str]] = []
    session.slots.text_changed.connect(lambda slot, text: texts.append((slot, text)))
    session.slots.restore(2, "kept.slot")
    command = client.last
    assert isinstance(command, RestoreSlot)
    assert Path(command.path).is_absolute()
    assert session.slots.is_changing
    client.answers.append(SlotChanged(command.id, SlotFacts(2, n_tokens=9, text="Once"), 100))
    session.poll()
    assert not session.slots.is_changing
    assert session.slots.held[2] == HeldSlot(9, "restored from kept.slot")
    assert texts == [(2, "Once")]
    assert session.log.lines[-1].text.startswith("Slot 2 holds 9 tokens from ")


def test_a_save_changes_nothing_and_is_told(session: Session, client: ScriptedClient) -> None:
    saved: list[str] = []
    session.slots.saved.connect(saved.append)
    tell(session, client, (Operation.RELEASE, 0, 12, 12, 1))
    session.slots.save(0, "/tmp/kept.slot")
    assert isinstance(client.last, SaveSlot)
    client.answers.append(SlotChanged(client.last.id, SlotFacts(0, n_tokens=12, text="Once"), 2048))
    session.poll()
    assert saved == ["Slot 0 was saved to /tmp/kept.slot: 12 tokens, 2.00 KiB."]
    assert session.slots.held[0].origin == ""


def test_a_refusal_is_told_and_changes_nothing(session: Session, client: ScriptedClient) -> None:
    failures: list[ErrorReport] = []
    session.failed.connect(failures.append)
    tell(session, client, (Operation.RELEASE, 0, 12, 12, 1))
    session.slots.clear(0)
    assert isinstance(client.last, ClearSlot)
    client.answers.append(Failed(client.last.id, refusal("Slot 0 is still generating.")))
    session.poll()
    assert [failure.message for failure in failures] == ["Slot 0 is still generating."]
    assert session.slots.held[0].n_tokens == 12
    assert not session.slots.is_changing
    assert session.state is SessionState.NO_MODEL


def test_new_contexts_and_a_dead_engine_leave_nothing_in_any_slot(session: Session, client: ScriptedClient) -> None:
    session.open_model("m.gguf")
    client.answer_load()
    session.poll()
    tell(session, client, (Operation.RELEASE, 0, 12, 12, 1))
    session.open_model("other.gguf")
    client.answer_load()
    session.poll()
    assert not session.slots.held
    tell(session, client, (Operation.RELEASE, 0, 12, 12, 1))
    session.slots.fork(0, 1)
    late = client.last
    assert isinstance(late, ForkSlot)
    client.answers.append(DEATH)
    session.poll()
    assert not session.slots.held
    assert not session.slots.is_changing
    client.answers.append(SlotChanged(late.id, SlotFacts(1, n_tokens=12)))
    session.poll()
    assert not session.slots.held


@pytest.fixture
def live(qtbot: QtBot) -> Iterator[Session]:
    """A session on the scripted engine, with a model and one run done."""
    session = Session(InProcessClient(backend_maker("fake:0", in_process=True)))
    session.open_model("m", ContextSettings(n_slots=3, n_ctx=512))
    poll_until(qtbot, session, lambda: session.state is SessionState.READY)
    tasks = tuple(SlotTask(slot, Prompt(text="This module provides an object"), max_tokens=20) for slot in (0, 1))
    session.run(RunRequest(ContextSettings(n_slots=3, n_ctx=512), tasks))
    poll_until(qtbot, session, lambda: session.state is SessionState.READY and bool(session.results))
    yield session
    session.close()


def test_slots_are_saved_forked_cleared_and_restored_on_an_engine(qtbot: QtBot, live: Session, tmp_path: Path) -> None:
    slots, path = live.slots, tmp_path / "kept.slot"
    n = slots.n_tokens(0)
    assert n == live.results[0].n_prompt + 20
    slots.save(0, path)
    slots.fork(0, 2)
    slots.clear(0)
    poll_until(qtbot, live, lambda: not slots.is_changing)
    assert [slots.n_tokens(slot) for slot in range(3)] == [0, n, n]
    slots.restore(0, path)
    slots.rewind(1, n - 5)
    poll_until(qtbot, live, lambda: not slots.is_changing)
    assert [slots.n_tokens(slot) for slot in range(3)] == [n, n - 5, n]
    assert [held.origin for _, held in sorted(slots.held.items())] == [
        "restored from kept.slot",
        "rewound",
        "forked from slot 0",
    ]


def test_a_run_says_what_it_reused_while_it_goes_on(qtbot: QtBot, live: Session) -> None:
    assert live.slots.held[0].reuse == "none"
    assert live.last_request is not None
    live.run(live.last_request)
    poll_until(qtbot, live, lambda: live.state is SessionState.RUNNING)
    poll_until(qtbot, live, lambda: live.state is SessionState.READY)
    held = live.slots.held[0]
    assert held.reuse in ("restored", "kept", "tail_dropped", "no_checkpoint")
    assert held.n_prompt == live.results[0].n_prompt


def test_what_is_done_to_slots_between_turns_is_in_the_run_that_is_here(qtbot: QtBot, live: Session) -> None:
    n = len(live.trace.kind(Kind.OPERATION))
    live.slots.fork(0, 1)
    live.slots.clear(0)
    poll_until(qtbot, live, lambda: not live.slots.is_changing)
    assert len(live.trace.kind(Kind.OPERATION)) > n
    assert live.trace.n_missing == 0
    restores = RestoreTable()
    restores.update(live.trace)
    (fork,) = restores.rows[restores.rows["kind"] == RestoreKind.FORK]
    assert fork["slot"] == 1


def test_what_new_contexts_do_is_in_no_run(session: Session, client: ScriptedClient) -> None:
    assert session.state is SessionState.NO_MODEL
    tell(session, client, (Operation.CLEAR, 0, 0, 0, 0))
    assert session.trace.n_records == 0
