"""What is photographed: a list of scenes, each brought about by the program's own actions."""

from __future__ import annotations

from collections.abc import Callable

from draftscope.engine.events import Kind
from draftscope.session.state import SessionState
from tests.screens.stage import Stage

PANELS = ("output", "acceptance", "timeline", "engine", "log")
DIALOGS = ("open", "prompts", "export", "shortcuts", "about", "palette")


def first_start(stage: Stage) -> None:
    """Nothing was ever loaded."""
    stage.shoot_window("first-start")
    for panel in PANELS[1:]:
        stage.shoot_panel(panel, "no-model")


def demo(stage: Stage) -> None:
    """The demo on the native engine: while it runs, at its end, with a selection, and every dialog."""
    stage.window.actions_by_id["demo"].trigger()
    stage.pump(lambda: len(stage.session.trace.kind(Kind.ROUND)) > 40)
    stage.window.resize(1600, 980)
    stage.settle(0.05)
    stage.shoot_window("running")
    stage.pump(lambda: stage.session.state is SessionState.READY)
    stage.shoot_window("finished")
    for panel in PANELS:
        stage.shoot_panel(panel, "finished")
    rounds = stage.session.trace.kind(Kind.ROUND)["round"]
    stage.session.view.select_round(int(rounds[len(rounds) // 2]))
    for panel in PANELS[:3]:
        stage.shoot_panel(panel, "selected")
    stage.shoot_window("selected")
    for name in DIALOGS:
        stage.shoot_dialog(name, stage.window.actions_by_id[name].trigger)


def loaded(stage: Stage) -> None:
    """A model is loaded and nothing has run; then a run without drafts."""
    stage.run_demo()
    settings = stage.session.model_settings
    assert settings is not None
    stage.session.open_model(settings.path)
    stage.pump(lambda: stage.session.state is SessionState.READY)
    for panel in PANELS[:3]:
        stage.shoot_panel(panel, "not-run")
    stage.window.setup.set_draft_length(0)
    stage.window.actions_by_id["run"].trigger()
    stage.pump(lambda: stage.session.is_running)
    stage.pump(lambda: not stage.session.is_running)
    stage.settle()
    for panel in ("output", "acceptance", "engine"):
        stage.shoot_panel(panel, "no-drafts")


def engine_died(stage: Stage) -> None:
    """The engine process ends in the middle of a run."""
    stage.window.actions_by_id["demo"].trigger()
    stage.pump(lambda: len(stage.session.trace.kind(Kind.ROUND)) > 20)
    stage.session._client.kill()
    stage.pump(lambda: stage.session.death is not None)
    stage.settle()
    stage.shoot_window("engine-died")
    stage.shoot_panel("engine", "died")


SCENES: tuple[tuple[str, Callable[[Stage], None]], ...] = (
    ("native", first_start),
    ("native", demo),
    ("native", loaded),
    ("fake", engine_died),
)
"""Backends and scenes; each begins with a window of its own."""
