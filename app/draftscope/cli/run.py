"""``draftscope run``: prompts through a model in parallel slots, without a window."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from pathlib import Path
from typing import Any

from draftscope.cli.failure import ExitCode
from draftscope.cli.format_options import add_format_options
from draftscope.cli.generation import Generation, Outcome
from draftscope.cli.live_view import make_view
from draftscope.cli.options import (
    add_engine_options,
    add_model,
    add_prompt_options,
    add_sampling_options,
    add_slot_memory_options,
    add_speculation_options,
    at_least,
)
from draftscope.cli.plan import Plan, make_plan
from draftscope.cli.probe_summary import probes_as_json
from draftscope.cli.rpc_option import TRUST
from draftscope.cli.run_summary import RunSummary
from draftscope.cli.run_table import as_text
from draftscope.cli.slot_files import SlotFiles, add_slot_file_options
from draftscope.cli.terminal import note
from draftscope.cli.trace_recorder import recording
from draftscope.engine.client import Client, make_client
from draftscope.engine.probes import ProbeLevel
from draftscope.engine.protocol import SetProbe
from draftscope.trace.errors import TraceError

_EPILOG = f"""\
A prompts file is JSON Lines: a string, {{"text": "..."}}, {{"messages": [{{"role": "user", "content": "..."}}]}} or
{{"tokens": [1, 2, 3]}} a line. Fewer prompts than slots are repeated in turn; of more, the rest waits for a free slot.
All slots sample with the same settings and seed, so equal prompts give equal texts. A line may have its own "sampling",
"max_tokens", and "grammar" or "json_schema"; the options go before them.

{TRUST}

examples:
  draftscope run demo --slots 4 --max-tokens 64 --temp 0
  draftscope run model.gguf --prompt "def main():" --draft-max 5 --trace run.dscope
  draftscope run model.gguf --prompts prompts.jsonl --no-mtp --json
  draftscope run model.gguf --chat --prompt "Name two cities." --json-schema-file cities.json
  draftscope run model.gguf --prompt "Once" --save-slot 0:kept.slot
  draftscope run model.gguf --restore-slot 0:kept.slot --prompt " and then"
  draftscope run model.gguf --prompt "def main():" --rpc 192.168.1.20:50052 --rpc 192.168.1.21:50052
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options. Those left out take the model's defaults: of the demo, or of the protocol."""
    parser = subparsers.add_parser("run", help="run prompts through a model, without a window", epilog=_EPILOG)
    add_model(parser)
    add_prompt_options(parser.add_argument_group("prompts"))
    speculation = parser.add_argument_group("slots and speculation")
    speculation.add_argument("--slots", metavar="N", type=at_least(1), help="default: one a prompt, at most 4; demo: 4")
    speculation.add_argument(
        "--probe",
        choices=[level.value for level in ProbeLevel],
        default=ProbeLevel.OFF.value,
        help="measure restores: hidden rows, also the drafts from them, also recurrent states (default off)",
    )
    add_speculation_options(speculation)
    add_slot_file_options(parser.add_argument_group("what slots hold"))
    generation = parser.add_argument_group("generation")
    add_sampling_options(generation)
    add_format_options(generation)
    add_slot_memory_options(parser.add_argument_group("what slots keep"))
    add_engine_options(parser.add_argument_group("model and engine"))
    output = parser.add_argument_group("output")
    output.add_argument("--trace", metavar="OUT.dscope", type=Path, help="record the run")
    output.add_argument("--no-text", action="store_true", help="leave prompts, outputs and log out of the recording")
    output.add_argument("--verbose", action="store_true", help="print the engine's log on stderr")
    output.add_argument("--json", action="store_true", help="print the result as JSON instead of text and table")


def run(options: argparse.Namespace) -> int:
    """Load, generate, print. Raises what ``failure`` knows how to tell."""
    plan = make_plan(options)
    client = make_client("native", in_process=options.in_process)
    with contextlib.closing(client):
        return _run(plan, client, options)


def _run(plan: Plan, client: Client, options: argparse.Namespace) -> int:
    view = make_view(plan, as_json=options.json, is_verbose=options.verbose)
    generation, slot_files = Generation(client, view), SlotFiles()
    with view:
        model = generation.load(plan.model, plan.context)
        view.on_loaded(model)
        if plan.probe is not ProbeLevel.OFF:
            generation.set_probes(SetProbe(generation.next_id(), plan.probe))
        held = slot_files.restore(generation, plan.restored, model)
        first, waiting = plan.tasks(model.n_slots, held)
        view.on_start({(p, t.slot): held[t.slot].text for p, t in first if t.prompt.is_continuation})
        with recording(options.trace, plan, model, with_text=not options.no_text) as recorder:
            if recorder:
                view.record_to(recorder)
            outcome = generation.run(first, waiting)
            if recorder and outcome.reports:
                recorder.add_memory(time.monotonic_ns(), outcome.reports[-1].memory)
            slot_files.save(generation, plan.saved)  # whose operations belong to the recording
    summary = RunSummary(plan, model, outcome, view.store, client.n_dropped, slot_files).as_json()
    summary["probes"] = probes_as_json(view.store, plan.probe, client.n_arrays_dropped)
    print(json.dumps(summary, indent=2, allow_nan=False) if options.json else as_text(summary))
    return _exit_code(outcome, recorder.error if recorder else None, slot_files.errors)


def _exit_code(outcome: Outcome, trace_error: TraceError | None, not_saved: list[str]) -> int:
    for error in not_saved:
        note(error)
    if outcome.is_interrupted:
        return int(ExitCode.INTERRUPTED)
    failed = [result for _, result in outcome.results if result.error]
    for result in failed:
        note(f"slot {result.slot} failed: {result.error}")
    if trace_error:
        note(str(trace_error))
    return int(ExitCode.RUN_FAILED if failed or trace_error or not_saved else ExitCode.DONE)
