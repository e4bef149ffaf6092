"""The setup of the next run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from draftscope.engine.protocol import ChatMessage, CheckpointMode, Prompt
from draftscope.session.run_setup import RunSetup
from draftscope.session.samples import demo_request, sample_prompts
from draftscope.session.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, qtbot: QtBot) -> Settings:
    return Settings(tmp_path / "settings.ini")


@pytest.fixture
def setup(settings: Settings) -> RunSetup:
    return RunSetup(settings)


def test_a_first_start_has_sample_prompts_so_that_run_works(setup: RunSetup) -> None:
    assert setup.has_prompts
    assert len(setup.request().tasks) == setup.values.context.n_slots


def test_a_change_is_there_at_the_next_start(setup: RunSetup, settings: Settings) -> None:
    setup.set_slots(2)
    setup.set_draft_length(5)
    setup.set_checkpoint(CheckpointMode.HOST)
    setup.set_temperature(0.0)
    setup.set_max_tokens(33)
    chat = Prompt(messages=(ChatMessage("system", "Be brief."), ChatMessage("user", "Hi")))
    setup.change(replace(setup.values, prompts=(chat, Prompt(text="x\n"))))
    settings.save()
    assert RunSetup(Settings(Path(settings._store.fileName()))).values == setup.values


def test_the_form_of_the_output_is_that_of_this_session_only(setup: RunSetup, settings: Settings) -> None:
    setup.change(replace(setup.values, grammar="root ::= [a-z]+"))
    assert {task.grammar for task in setup.request().tasks} == {"root ::= [a-z]+"}
    settings.save()
    assert RunSetup(Settings(Path(settings._store.fileName()))).values.grammar == ""


def test_draft_length_0_means_no_mtp_context(setup: RunSetup) -> None:
    setup.set_draft_length(0)
    assert not setup.request().context.use_mtp
    assert setup.draft_length == 0
    setup.set_draft_length(2)
    assert setup.request().context.use_mtp


def test_fewer_prompts_than_slots_are_repeated_and_empty_ones_leave_their_slot_idle(setup: RunSetup) -> None:
    setup.set_slots(4)
    setup.change(replace(setup.values, prompts=(Prompt(text="a"), Prompt())))
    assert [task.slot for task in setup.request().tasks] == [0, 2]
    setup.change(replace(setup.values, prompts=(Prompt(), Prompt())))
    assert not setup.has_prompts
    assert setup.request().tasks == ()


def test_a_demo_is_shown_in_the_controls_but_not_kept(setup: RunSetup, settings: Settings) -> None:
    setup.set_slots(1)
    setup.show_request(demo_request())
    assert setup.request() == demo_request()
    assert settings.whole("context/n_slots") == 1


def test_unreadable_prompts_give_the_samples(settings: Settings) -> None:
    settings.set("run/prompts", '[{"text": 3}]')
    assert RunSetup(settings).values.prompts == tuple(sample.prompt for sample in sample_prompts()[:4])
