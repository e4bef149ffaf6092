"""``draftscope chat``: a conversation with a model, on a terminal or through a pipe."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from draftscope.cli.chat_commands import COMMAND_LIST
from draftscope.cli.chat_lines import PipedLines, TypedLines
from draftscope.cli.chat_loop import ChatLoop
from draftscope.cli.chat_talk import ChatView, Talk
from draftscope.cli.failure import ExitCode, InputError, UsageError
from draftscope.cli.format_options import add_format_options, format_of
from draftscope.cli.generation import Generation
from draftscope.cli.options import (
    DEMO,
    add_engine_options,
    add_model,
    add_sampling_options,
    add_slot_memory_options,
    add_speculation_options,
    context_settings,
    demo_prompts,
    model_settings,
    with_given,
)
from draftscope.cli.plan import Plan
from draftscope.cli.prompts import RunPrompt
from draftscope.cli.terminal import note
from draftscope.cli.trace_recorder import recording
from draftscope.engine.client import Client, make_client
from draftscope.engine.dialogue import Dialogue, DialogueError
from draftscope.engine.dialogue_file import load_dialogue
from draftscope.engine.protocol import Prompt

_PLAIN = "The model brings no chat template: what you write goes in as it is, and the model goes on from there."

_EPILOG = f"""\
On a terminal: write a message, Enter sends it; a line that ends with a backslash goes on in the next one. Ctrl-C stops
the answer, Ctrl-D ends the program. Through a pipe every line is a message, and the answers go to stdout; with --json
each turn is an object on a line of its own: the messages so far, the answer's tokens and counts as in 'run --json'.

{COMMAND_LIST}

examples:
  draftscope chat demo
  draftscope chat model.gguf --system "Answer in one sentence." --save talk.json
  draftscope chat model.gguf --load talk.json
  echo "Quote Psalm 23:1." | draftscope chat demo --json
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("chat", help="talk to a model, without a window", epilog=_EPILOG)
    add_model(parser)
    add = parser.add_argument_group("conversation").add_argument
    add("--system", metavar="T", help="system prompt")
    add("--load", metavar="F.json", type=Path, help="go on with a saved conversation")
    add("--save", metavar="F.json", type=Path, help="save the conversation after every turn")
    add_speculation_options(parser.add_argument_group("speculation"))
    generation = parser.add_argument_group("generation")
    add_sampling_options(generation)
    add_format_options(generation)
    add_slot_memory_options(parser.add_argument_group("what slots keep"))
    add_engine_options(parser.add_argument_group("model and engine"))
    output = parser.add_argument_group("output")
    output.add_argument("--trace", metavar="OUT.dscope", type=Path, help="record the whole conversation")
    output.add_argument("--no-text", action="store_true", help="leave prompts, outputs and log out of the recording")
    output.add_argument("--verbose", action="store_true", help="print the engine's log on stderr")
    output.add_argument("--json", action="store_true", help="print an object a turn instead of texts")


def run(options: argparse.Namespace) -> int:
    """Load, talk until the input ends. Raises what ``failure`` knows how to tell."""
    dialogue = _dialogue(options)
    for path, name in ((options.trace, "--trace"), (options.save, "--save")):
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"The folder {path.parent} for {name} does not exist.", "Make it first.")
    plan = _plan(options)
    client = make_client("native", in_process=options.in_process)
    with contextlib.closing(client):
        return _talk(plan, dialogue, client, options)


def _talk(plan: Plan, dialogue: Dialogue, client: Client, options: argparse.Namespace) -> int:
    view = ChatView(None if options.json else sys.stdout, plan.stop, is_verbose=options.verbose)
    with view:
        model = Generation(client, view).load(plan.model, plan.context)
        view.on_loaded(model)
        if not model.has_chat_template:
            dialogue.is_plain = True
            note(_PLAIN)
        with recording(options.trace, plan, model, with_text=not options.no_text) as recorder:
            if recorder:
                view.record_to(recorder)
            talk = Talk(client, view, dialogue, plan)
            lines = TypedLines() if sys.stdin.isatty() else PipedLines(sys.stdin)
            code = ChatLoop(talk, lines, model, save_to=options.save, as_json=options.json).run()
    if recorder and recorder.error:
        note(str(recorder.error))
        return code or int(ExitCode.RUN_FAILED)
    return code


def _dialogue(options: argparse.Namespace) -> Dialogue:
    dialogue = Dialogue()
    try:
        if options.load is not None:
            load_dialogue(dialogue, options.load)
        if options.system is not None:
            dialogue.edit_system(options.system)
    except DialogueError as error:
        raise InputError(error.message, error.hint) from error
    return dialogue


def _plan(options: argparse.Namespace) -> Plan:
    """One slot; the demo is sampled as it is best sampled."""
    like = RunPrompt(Prompt())
    if options.model == DEMO:
        like = RunPrompt(Prompt(), demo_prompts()[0].sampling)
    grammar, json_schema = format_of(options) or ("", "")
    return Plan(
        model=model_settings(options),
        context=context_settings(options, n_slots=1),
        prompts=(replace(with_given(like, options), grammar=grammar, json_schema=json_schema),),
        stop=tuple(options.stop),
        ignore_eos=options.ignore_eos,
    )
