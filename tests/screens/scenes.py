"""What is photographed: a list of scenes, each brought about by the program's own actions."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QMenu

from draftscope.base.paths import demo_model
from draftscope.base.theme import THEMES
from draftscope.engine.events import Kind
from draftscope.engine.probes import Fault, ProbeLevel
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt
from draftscope.panels.restore_diffs import RestoreDiffsPanel
from draftscope.panels.script import EDIT, Mark, Style
from draftscope.session.comparing import Side
from draftscope.session.samples import CHAT_EXAMPLES, demo_request
from draftscope.session.state import SessionState
from draftscope.trace.tracefile import TraceWriter
from draftscope.window.compare_window import CompareWindow
from draftscope.window.export_dialog import ExportDialog
from draftscope.window.recordings_dialog import RecordingsDialog
from tests.models.make_random import cached_models
from tests.models.rpc_server import RpcServerProcess
from tests.screens.stage import Stage
from tests.trace.test_trace_copies import cut_off

ROOT = Path(__file__).resolve().parents[2]
PANELS = ("output", "acceptance", "timeline", "checkpoints", "engine", "log", "restores")
DIALOGS = ("open", "prompts", "export", "shortcuts", "about", "palette")
SCHEMA = (
    '{"type": "object", "properties": {"name": {"type": "string"}, "lines": {"type": "integer"}}, "required": ["name"]}'
)
N_ROUNDS_LIVE = 40
"""Rounds after which a run is photographed while it goes on."""


def first_start(stage: Stage) -> None:
    """Nothing was ever loaded."""
    stage.shoot_window("first-start")
    for panel in PANELS[1:]:
        stage.shoot_panel(panel, "no-model")


def live(stage: Stage) -> None:
    """The demo while it runs, in each theme, long enough to be seen at work."""
    stage.run_demo()
    stage.window.setup.set_max_tokens(1_000)
    for theme in THEMES:
        stage.wear(theme)
        stage.window.actions_by_id["run"].trigger()
        stage.pump(lambda: stage.session.is_running)
        stage.pump(lambda: len(set(stage.session.trace.kind(Kind.ROUND)["round"].tolist())) > N_ROUNDS_LIVE)
        assert stage.session.is_running
        stage.shoot_now(stage.window, "window-live-1600x980", theme)
        for panel in PANELS[:5]:
            stage.shoot_now(stage.panel(panel), f"panel-{panel}-live", theme)
        stage.window.actions_by_id["stop"].trigger()
        stage.pump(lambda: not stage.session.is_running)


def demo(stage: Stage) -> None:
    """The demo at its end, with a selection, and every dialog."""
    stage.run_demo()
    stage.shoot_window("finished")
    for panel in PANELS:
        stage.shoot_panel(panel, "finished")
    rounds = stage.session.trace.kind(Kind.ROUND)["round"]
    stage.session.view.select_round(int(rounds[len(rounds) // 2]))
    for panel in PANELS[:4]:
        stage.shoot_panel(panel, "selected")
    stage.shoot_window("selected")
    for name in DIALOGS:
        stage.shoot_dialog(name, stage.window.actions_by_id[name].trigger)
    stage.shoot_dialog("open-facts", lambda: stage.window.commands.open_model(demo_model()))


def without_drafts(stage: Stage) -> None:
    """A model is loaded and nothing has run; then a run without drafts, and one that goes back by checkpoints."""
    stage.session.open_model(demo_model())
    stage.pump(lambda: stage.session.state is SessionState.READY)
    for panel in PANELS[:5]:
        stage.shoot_panel(panel, "not-run")
    stage.run_demo()
    stage.window.setup.set_draft_length(0)
    stage.run()
    for panel in ("output", "acceptance", "checkpoints", "engine"):
        stage.shoot_panel(panel, "no-drafts")


def eight_slots(stage: Stage) -> None:
    """Eight slots, four of them with a repeated colour; the target goes back to checkpoints in host memory."""
    stage.run_demo()
    stage.window.setup.set_slots(8)
    stage.window.setup.set_checkpoint(CheckpointMode.HOST)
    stage.run()
    stage.shoot_window("eight-slots")
    stage.shoot_panel("timeline", "host-checkpoints")
    stage.shoot_panel("engine", "host-checkpoints")


def slots(stage: Stage) -> None:
    """Slots that hold what a run left, what was forked to them, or nothing; their menu; a prompt that is reused."""
    stage.run_demo()
    stage.run()
    stage.shoot_window("slots-reused")
    session = stage.session
    session.slots.fork(0, 2)
    session.slots.clear(3)
    stage.pump(lambda: not session.slots.is_changing)
    session.view.select_slot(0)
    session.view.select_round(int(session.trace.kind(Kind.ROUND)["round"][10]))
    stage.settle()
    stage.shoot_window("slots-changed")
    session.slots.save(0, Path(stage.out) / "kept.slot")
    stage.pump(lambda: not session.slots.is_changing)
    stage.shoot_window("slot-saved")
    stage.shoot_dialog("fork-slot", stage.window.actions_by_id["fork_slot"].trigger)
    stage.shoot_dialog("save-slot", stage.window.actions_by_id["save_slot"].trigger)
    stage.panel("output").slot_menu_asked.emit(0, stage.window.mapToGlobal(QPoint(200, 200)))  # type: ignore[attr-defined]
    stage.settle()
    menu = stage.app.activePopupWidget()
    assert menu is not None
    stage.shoot_now(menu, "menu-slot", stage.appearance.theme)
    menu.close()


def ways_back(stage: Stage) -> None:
    """The demo with each way back asked for, and page by page with the one that the engine takes by itself."""
    stage.run_demo()
    stage.shoot_pages("auto")
    for mode in (CheckpointMode.ROLLBACK, CheckpointMode.COW, CheckpointMode.DEVICE, CheckpointMode.HOST):
        stage.window.setup.set_checkpoint(mode)
        stage.run()
        stage.shoot_pages(mode.value, ("Times", "Spread", "Memory"))
    stage.shoot_window("host-checkpoints")


def fallbacks(stage: Stage) -> None:
    """A long run on a model that is granted no rollback: device memory runs out now and then."""
    stage.session.open_model("fake:hybrid")
    stage.pump(lambda: stage.session.state is SessionState.READY)
    stage.shoot_pages("not-run")
    setup = stage.window.setup
    setup.change(dataclasses.replace(setup.values, max_tokens=1_500, ignore_eos=True))
    setup.set_checkpoint(CheckpointMode.DEVICE)
    stage.run()
    stage.shoot_pages("fallbacks")
    stage.shoot_window("fallbacks")


def restores(stage: Stage) -> None:
    """Restores of a scripted model: not probed, at each level, with nothing wrong and with each fault."""
    stage.session.open_model("fake:hybrid")
    stage.pump(lambda: stage.session.state is SessionState.READY)
    stage.shoot_panel("restores", "not-run")
    stage.run()
    stage.shoot_restores("not-probed", ("Verdict", "Layers"))
    probing = stage.session.probing
    probing.set_level(ProbeLevel.HIDDEN)
    stage.run()
    stage.shoot_restores("hidden")
    probing.set_level(ProbeLevel.STATE)
    stage.run()
    stage.shoot_restores("equal")
    stage.shoot_window("restores")
    for fault in Fault:
        if fault is not Fault.NONE:
            probing.inject(fault)
            stage.run()
            stage.shoot_restores(fault.value)
    stage.shoot_window("restores-fault")
    probing.inject(Fault.ZERO_ROW, 1)
    stage.window.actions_by_id["stop"].trigger()
    stage.run()
    panel = stage.panel("restores")
    assert isinstance(panel, RestoreDiffsPanel)
    panel.list.only_differing.setChecked(True)
    stage.shoot_restores("only-differing", ("Verdict",))


def restores_of_the_demo(stage: Stage) -> None:
    """What probes of the demo's restores say, with nothing wrong and with a fault."""
    stage.session.probing.set_level(ProbeLevel.STATE)
    stage.run_demo()
    stage.shoot_restores("demo")
    stage.session.probing.inject(Fault.OMIT_HOOK)
    stage.run()
    stage.shoot_restores("demo-omit-hook", ("Verdict", "Rows", "Heat map", "Draft"))
    stage.window.docks.bring_forward("restores").window().resize(1600, 980)
    stage.shoot_window("restores-demo")


def restore_menus(stage: Stage) -> None:
    """The menus of levels and faults, on a model that drafts and on one that has nothing to skip; a slot's own."""
    for path in ("fake:hybrid", "fake:plain", "fake:unknown-layout", "fake:dense"):
        stage.session.open_model(path)
        stage.pump(lambda: stage.session.state is SessionState.READY)
        stage.session.probing.set_level(ProbeLevel.STATE)
        stage.run()
        stage.shoot_restores(path.partition(":")[2], ("Verdict", "Layers"))
        stage.session.view.select_slot(1)
        stage.settle(0.1)
        for bar in stage.window.menuBar().actions():
            if bar.text() in ("&Probe", "&Teach") and path != "fake:unknown-layout":
                menu = bar.menu()
                assert isinstance(menu, QMenu)
                for theme in THEMES:
                    stage.wear(theme)
                    menu.popup(stage.window.mapToGlobal(QPoint(200, 60)))
                    stage.settle(0.1)
                    stage.shoot_now(menu, f"menu-{bar.text()[1:].lower()}-{path.partition(':')[2]}", theme)
                    menu.close()


def without_checkpoints(stage: Stage) -> None:
    """Models that need no checkpoints: one that drops its newest tokens by itself, and one that drafts nothing."""
    for path in ("fake:plain", "fake:dense"):
        stage.session.open_model(path)
        stage.pump(lambda: stage.session.state is SessionState.READY)
        stage.run()
        stage.shoot_pages(path.partition(":")[2])


def engine_killed(stage: Stage) -> None:
    """The engine process is killed in the middle of a run."""
    stage.run_demo()
    stage.window.setup.set_max_tokens(1_000)
    stage.window.actions_by_id["run"].trigger()
    stage.pump(lambda: len(stage.session.trace.kind(Kind.ROUND)) > N_ROUNDS_LIVE)
    os.kill(stage.client.pid, signal.SIGKILL)
    stage.pump(lambda: stage.session.death is not None)
    stage.settle()
    stage.shoot_window("engine-killed")
    stage.shoot_panel("engine", "killed")


def server_lost(stage: Stage) -> None:
    """A model on an RPC server that is killed in the middle of a run, and the dialog that names servers."""
    server = RpcServerProcess()
    try:
        stage.window.settings.set("model/rpc_servers", server.name)
        stage.shoot_dialog("open-rpc", lambda: stage.window.commands.open_model(demo_model()))
        stage.window.settings.set("model/rpc_servers", f"{server.name}, nonsense")
        stage.shoot_dialog("open-rpc-wrong", lambda: stage.window.commands.open_model(demo_model()))
        stage.window.settings.set("model/rpc_servers", server.name)
        stage.window.commands.load_file(demo_model())
        stage.pump(lambda: stage.session.state is SessionState.READY)
        stage.shoot_panel("engine", "on-rpc-server")
        stage.window.setup.set_max_tokens(1_000)
        stage.window.actions_by_id["run"].trigger()
        stage.pump(lambda: len(stage.session.trace.kind(Kind.ROUND)) > N_ROUNDS_LIVE)
        server.kill()
        stage.pump(lambda: stage.session.death is not None)
        stage.settle()
        stage.shoot_window("server-lost")
    finally:
        server.close()


def families(stage: Stage) -> None:
    """A model that drafts with an assistant: alone, with it, a wrong one, the assistant as a model; and a chain."""
    made = cached_models(ROOT / "build")
    target, assistant = made / "gemma4.gguf", made / "gemma4-assistant.gguf"
    for name, model, draft in (
        ("open-without-assistant", target, ""),
        ("open-with-assistant", target, str(assistant)),
        ("open-wrong-assistant", target, str(made / "assistant-of-other-width.gguf")),
        ("open-draft-file", assistant, ""),
    ):
        stage.window.settings.set_draft(model, draft)
        stage.shoot_dialog(name, lambda model=model: stage.window.commands.open_model(model))  # type: ignore[misc]
    stage.window.commands.load_file(assistant)
    stage.pump(lambda: stage.session.state is not SessionState.LOADING)
    stage.settle()
    stage.shoot_window("draft-file-refused")
    stage.window.setup.set_draft_length(5)
    for path, draft in ((target, assistant), (target, ""), (made / "step35.gguf", "")):
        stage.window.settings.set_draft(path, str(draft))
        stage.window.commands.load_file(path)
        stage.pump(lambda: stage.session.state is SessionState.READY)
        stage.run()
        stage.shoot_panel("engine", f"{path.stem}-{'assisted' if draft else 'alone'}")


def run_refused(stage: Stage) -> None:
    """A prompt that no slot can hold, after a run: the run is still there to be looked at."""
    stage.run_demo()
    setup = stage.window.setup
    setup.change(dataclasses.replace(setup.values, prompts=(Prompt(text="word " * 4_000),)))
    stage.window.actions_by_id["run"].trigger()
    stage.pump(lambda: not stage.session.is_running and stage.session.state is SessionState.READY)
    stage.settle()
    stage.shoot_window("run-refused")


def output_forms(stage: Stage) -> None:
    """The prompts dialog with a schema and with a grammar that is wrong, and a run whose output a schema forms."""
    stage.run_demo()
    setup = stage.window.setup
    setup.change(dataclasses.replace(setup.values, grammar='root ::= item+\nitem ::= "- " [a-z ]+ "\\n" | nothing'))
    stage.shoot_dialog("prompts-bad-grammar", stage.window.actions_by_id["prompts"].trigger)
    setup.change(dataclasses.replace(setup.values, grammar="", json_schema=SCHEMA))
    stage.shoot_dialog("prompts-schema", stage.window.actions_by_id["prompts"].trigger)
    stage.run()
    stage.shoot_window("schema")


def refused(stage: Stage) -> None:
    """A model without MTP layers, a load that takes its time, and one that fails."""
    stage.session.open_model("fake:dense")
    stage.pump(lambda: stage.session.state is SessionState.READY)
    stage.shoot_panel("acceptance", "no-mtp")
    stage.shoot_panel("engine", "no-mtp")
    stage.session.open_model("fake:slow-load")
    stage.pump(lambda: stage.session.progress[0] > 0.2)
    stage.shoot_now(stage.window, "window-loading-1600x980", stage.appearance.theme)
    stage.pump(lambda: stage.session.state is SessionState.READY)
    stage.session.open_model("fake:fail-load")
    stage.pump(lambda: stage.session.state is not SessionState.LOADING)
    stage.settle()
    stage.shoot_window("load-failed")


def chat(stage: Stage) -> None:
    """Conversations: empty, after a turn, several turns in four slots, while answers come, and an edit."""
    stage.session.open_model(demo_model(), ContextSettings(n_slots=1))
    stage.pump(lambda: stage.session.state is SessionState.READY)
    setup = stage.window.setup
    setup.change(dataclasses.replace(setup.values, sampling=demo_request().tasks[0].sampling, max_tokens=90))
    setup.set_slots(1)
    stage.shoot_panel("output", "chat-empty-one-slot")
    stage.say(0, CHAT_EXAMPLES[0])
    stage.shoot_panel("output", "chat-one-turn")
    stage.session.open_model(demo_model(), ContextSettings(n_slots=4))
    stage.pump(lambda: stage.session.state is SessionState.READY)
    setup.set_slots(4)
    stage.shoot_window("chat-empty")
    verses = [f"Quote {book} 1:3." for book in ("Genesis", "Job", "Mark", "Ruth")]
    for turn in range(4):
        for slot in range(4):
            stage.say(slot, (*CHAT_EXAMPLES, verses[slot])[(turn + slot) % 4])
    stage.session.chats.edit_system(2, "You know the King James Bible, and the Python manual. Answer in one sentence.")
    stage.say(2, "word " * 120)
    stage.shoot_window("chat-four-slots")
    stage.shoot_panel("output", "chat-four-slots")
    users = stage.session.chats.chat(1).dialogue.user_turns
    card = stage.window.output.cards[1]
    card.view.action_clicked.emit(Mark(Style.ACTION, "Edit", EDIT, users[1]))
    stage.shoot_panel("output", "chat-editing")
    card.box.leave()
    setup.set_max_tokens(1_000)
    setup.change(dataclasses.replace(setup.values, ignore_eos=True))
    for theme in THEMES:
        stage.wear(theme)
        for slot in (0, 3):
            stage.session.chats.say(slot, CHAT_EXAMPLES[2])
        stage.pump(lambda: len(stage.session.trace.kind(Kind.ROUND)) > 0)
        stage.settle(0.4)
        assert stage.session.is_running
        stage.shoot_now(stage.panel("output"), "panel-output-chat-generating", theme)
        stage.window.actions_by_id["stop"].trigger()
        stage.pump(lambda: not stage.session.is_running)
    stage.settle()
    stage.shoot_panel("output", "chat-stopped")


def chat_after_a_run(stage: Stage) -> None:
    """The demo's prompts, three of them plain texts, and what one writes under their answers."""
    stage.run_demo()
    stage.say(1, "Genesis 2\n")
    stage.say(3, "What does the Python function read do?")
    stage.shoot_window("chat-after-a-run")


def chat_without_template(stage: Stage) -> None:
    """A model without a chat template: the text goes in as it is."""
    stage.session.open_model("fake:no-template", ContextSettings(n_slots=2))
    stage.pump(lambda: stage.session.state is SessionState.READY)
    stage.window.setup.set_slots(2)
    stage.window.setup.set_max_tokens(60)
    stage.shoot_panel("output", "chat-no-template-empty")
    stage.say(0, "Once upon a time")
    stage.say(0, " The people laughed, and")
    stage.say(1, "word " * 6_000)
    stage.shoot_panel("output", "chat-no-template")


def recordings(stage: Stage) -> None:
    """The list of recordings: empty, then with a pinned and a cut-off one; what the next start says of that."""
    stage.shoot_dialog("recordings-empty", stage.window.actions_by_id["recordings"].trigger)
    stage.run_demo()
    stage.shoot_window("recorded")
    stage.window.setup.set_slots(2)
    stage.run()
    desk = stage.window.recordings.desk
    assert desk is not None
    desk.set_pinned(desk.recordings.paths()[-1:], True)
    header = {"model": {"path": "qwen3-next-80b.gguf"}, "settings": {"context": {"n_slots": 4}}}
    cut_off(desk.recordings.folder / "2026-01-01_00-00-00-000_qwen3-next-80b.dscope", header=header)
    (desk.recordings.folder / "damaged.dscope").write_bytes(b"SQLite format 3")
    stage.shoot_dialog("recordings", stage.window.actions_by_id["recordings"].trigger)
    place = desk.recordings.folder / "run.dscope"
    dialog = RecordingsDialog(desk, stage.window.settings, stage.window)
    dialog.open()
    stage.pump(lambda: dialog.table.rowCount() == 4)
    for name, ask in (("delete", dialog.delete_selected), ("copy", lambda: dialog._ask_for_text(place, place))):
        ask()
        stage.settle()
        box = stage.app.activeModalWidget()
        assert box is not None
        stage.shoot_now(box, f"dialog-recordings-{name}", stage.appearance.theme)
        box.close()
    dialog.close()
    stage.window.recordings.start()
    stage.pump(lambda: len(stage.window.notices.notices) > 0)
    stage.shoot_window("cut-off")
    stage.session.recorder.failed.emit(
        f"Recording into {place} ended, since the disk is full. What came before is kept."
    )
    stage.shoot_window("disk-full")


def _record(stage: Stage, mode: CheckpointMode, path: Path) -> Path:
    """Run the demo with a way back and keep it as a trace."""
    stage.window.setup.set_checkpoint(mode)
    stage.run()
    trace = stage.session.snapshot()()
    with TraceWriter(path, trace.header) as writer:
        writer.append(trace.store.in_order())
        writer.add_pieces(dict(trace.pieces.items()))
        writer.add_results(trace.results)
        writer.add_log([(line.t_ns, line.level, line.text) for line in stage.session.log.lines])
    return path


def traces(stage: Stage) -> None:
    """Saved traces: open, with a selection, cut off, compared, reported; what is said where there is nothing."""
    out = Path(stage.out)
    stage.shoot_dialog("compare-empty", stage.window.actions_by_id["compare"].trigger)
    stage.run_demo()
    host = _record(stage, CheckpointMode.HOST, out / "host.dscope")
    cow = _record(stage, CheckpointMode.COW, out / "cow.dscope")
    stage.window.open_file(host)
    stage.pump(lambda: stage.window.traces.opened is not None)
    stage.settle()
    stage.shoot_window("trace")
    for panel in ("engine", "log", "checkpoints", "acceptance", "timeline"):
        dock = stage.window.docks.dock(panel)
        dock.raise_()
        stage.settle()
        stage.shoot_widget(stage.window.docks.bring_forward(panel), f"panel-{panel}-trace")
    opened = stage.window.traces.opened
    assert opened is not None
    opened.view.select_round(20)
    stage.shoot_window("trace-selected")
    stage.shoot_dialog("report", stage.window.actions_by_id["report"].trigger)
    stage.shoot_dialog("compare", stage.window.actions_by_id["compare"].trigger)
    stage.shoot_dialog("open-trace", lambda: stage.window.commands.open_model(host))
    window = CompareWindow(Side((host,)), Side((cow,)), stage.appearance, stage.window)
    window.show()
    stage.pump(lambda: window.comparison is not None)
    stage.shoot_widget(window, "compare-window")
    window.shows_equal.setChecked(True)
    stage.shoot_widget(window, "compare-window-all")
    window.close()
    same = CompareWindow(Side((host,)), Side((host,)), stage.appearance, stage.window)
    same.show()
    stage.pump(lambda: same.comparison is not None)
    stage.shoot_widget(same, "compare-window-same")
    same.close()
    damaged = out / "damaged.dscope"
    damaged.write_bytes(host.read_bytes()[: host.stat().st_size // 2])
    stage.window.open_file(damaged)
    stage.pump(lambda: not stage.window.traces.traces.is_reading)
    stage.settle()
    stage.shoot_window("trace-damaged")
    stage.window.actions_by_id["back_to_live"].trigger()
    stage.settle()
    stage.shoot_window("trace-closed")


def exports(stage: Stage) -> None:
    """The export dialog from the choice to the end, and the window's own word where it was closed before."""
    stage.run_demo()
    dialog = stage.open_dialog("export")
    assert isinstance(dialog, ExportDialog)
    folder = stage.out / "exported"
    folder.mkdir(exist_ok=True)
    dialog.path.setText(str(folder / "draftscope-demo.pftrace"))
    dialog.format.choose("csv")
    stage.shoot_open(dialog, "export-csv")
    (folder / "other").mkdir(exist_ok=True)
    (folder / "other" / "letter.txt").write_text("Dear reader")
    dialog.path.setText(str(folder / "other"))
    stage.shoot_open(dialog, "export-refused")
    dialog.format.choose("perfetto")
    dialog.path.setText(str(folder / "draftscope-demo.pftrace"))
    dialog.progress.begin(1_284_512, dialog.target)
    dialog.progress.tell(0.4)
    dialog._turn_to(dialog.progress)
    dialog.export_button.hide()
    stage.shoot_open(dialog, "export-writing")
    dialog.export()
    stage.pump(dialog.folder_button.isVisible)
    stage.shoot_open(dialog, "export-done")
    stage.close_dialog(dialog)
    stage.session.export("chrome", folder / "draftscope-demo.json.gz")
    stage.pump(lambda: bool(stage.window.notices.notices))
    stage.shoot_window("exported")


SCENES: tuple[tuple[str, Callable[[Stage], None]], ...] = (
    ("native", first_start),
    ("native", live),
    ("native", demo),
    ("native", chat),
    ("native", chat_after_a_run),
    ("fake:0", chat_without_template),
    ("native", without_drafts),
    ("native", eight_slots),
    ("native", slots),
    ("native", recordings),
    ("native", ways_back),
    ("fake:0", fallbacks),
    ("fake:0", without_checkpoints),
    ("fake:0", restores),
    ("fake:0", restore_menus),
    ("native", restores_of_the_demo),
    ("native", engine_killed),
    ("native", server_lost),
    ("native", families),
    ("native", traces),
    ("native", run_refused),
    ("native", output_forms),
    ("native", exports),
    ("fake", refused),
)
"""Backends and scenes; each begins with a window of its own."""
