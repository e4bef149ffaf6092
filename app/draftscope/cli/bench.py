"""``draftscope bench``: ways back, draft lengths and replays timed against each other and against no MTP."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from types import TracebackType
from typing import Any

from draftscope.base.units import duration
from draftscope.cli.bench_plan import BenchPlan, Variant, Workload, make_bench_plan
from draftscope.cli.bench_runner import Bench, BenchResult
from draftscope.cli.bench_summary import BenchSummary
from draftscope.cli.bench_table import as_text
from draftscope.cli.failure import ExitCode, failure_of, tell
from draftscope.cli.options import (
    add_engine_options,
    add_model,
    add_prompt_options,
    add_sampling_options,
    add_slot_memory_options,
    at_least,
    comma_list,
    one_of,
)
from draftscope.cli.terminal import ProgressLine, note
from draftscope.engine.client import make_client
from draftscope.engine.errors import EngineError
from draftscope.engine.model_file import inspect_model
from draftscope.engine.model_memory import MemoryNeeds
from draftscope.engine.protocol import CheckpointMode, Replay

_DEFAULT_MAX_TOKENS = 64
_DEFAULT_REPEAT = 5
_MINUTES_FROM_S = 120

_EPILOG = """\
Everything is run in turn, once each a repeat, in an order that begins one further on every time; the first repeat is a
warm-up and not counted. Contexts are made anew for every run, and run in with 32 tokens that are not counted either. A
ratio is the median of the ratios of runs of the same repeat. A run generates from every prompt, so many at a time as
there are slots.

With --workload edit a run is four conversations, the same for every setting: four turns, then an earlier one is edited,
and the reply to that is timed, beside the turns before it: after a prefill of the whole prompt, after a restore of what
the slot held with its hidden rows (hooks) and without them, and without MTP.

A way back that this model, or the installed llama.cpp, does not have is listed with the reason. Ctrl-C gives the
figures until then.

examples:
  draftscope bench demo
  draftscope bench model.gguf --slots 1,2,4,8 --modes rollback,cow,host
  draftscope bench model.gguf --slots 4 --modes auto --draft-max 1,2,3,5 --repeat 10 --json
  draftscope bench model.gguf --workload edit --slots 1,4
  draftscope bench model.gguf --modes device --replay measured,ride,alone --no-baseline
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("bench", help="time ways back and draft lengths against no MTP", epilog=_EPILOG)
    add_model(parser)
    add = parser.add_argument_group("what is timed (lists with commas)").add_argument
    workload = "prompts (default), or edit: conversations of which an earlier turn is edited"
    add("--workload", metavar="W", type=one_of(Workload), default=Workload.PROMPTS, help=workload)
    add("--slots", metavar="N,..", type=comma_list(at_least(1)), default=(1, 4), help="numbers of slots (default 1,4)")
    modes = comma_list(one_of(CheckpointMode))
    add("--modes", metavar="M,..", type=modes, help="ways back (default: all; of conversations auto)")
    add("--draft-max", metavar="K,..", type=comma_list(at_least(1)), default=(3,), help="draft lengths (default 3)")
    replays = comma_list(one_of(Replay))
    add("--replay", metavar="R,..", type=replays, default=(Replay.MEASURED,), help="measured (default), ride, alone")
    add("--no-baseline", dest="has_baseline", action="store_false", help="leave out the runs without MTP")
    add("--repeat", metavar="R", type=at_least(1), default=_DEFAULT_REPEAT, help="counted runs of each (default 5)")
    add_prompt_options(parser.add_argument_group("prompts (default: those of the demo)"))
    add_sampling_options(parser.add_argument_group("generation (default: 64 tokens at temperature 0)"))
    add_slot_memory_options(parser.add_argument_group("what slots keep"))
    add_engine_options(parser.add_argument_group("model and engine"))
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")
    parser.set_defaults(max_tokens=_DEFAULT_MAX_TOKENS, temp=0.0)


def run(options: argparse.Namespace) -> int:
    """Measure and print. Raises what ``failure`` knows how to tell."""
    plan = make_bench_plan(options)
    client = make_client("native", in_process=options.in_process)
    with contextlib.closing(client), _Progress(plan) as progress:
        result = Bench(plan, client, progress).run()
    summary = BenchSummary(result.plan, result, _needs_of(plan.model.path)).as_json()
    print(json.dumps(summary, indent=2, allow_nan=False) if options.json else as_text(summary))
    return _exit_code(result)


def _needs_of(path: str) -> MemoryNeeds | None:
    try:
        return inspect_model(path).memory
    except EngineError:  # the engine has loaded it all the same
        return None


def _exit_code(result: BenchResult) -> int:
    if result.failure is not None:
        return tell(failure_of(result.failure), as_json=False)  # the summary has it
    if result.is_interrupted:
        return int(ExitCode.INTERRUPTED)
    failed = [entry for entry in result.measured if entry.error]
    for entry in failed:
        note(f"{entry.variant.label}, slots: {entry.variant.n_slots}: {entry.error}")
    return int(ExitCode.RUN_FAILED if failed else ExitCode.DONE)


class _Progress:
    """Tells on stderr how far it is."""

    def __init__(self, plan: BenchPlan) -> None:
        self._plan = plan
        self._line = ProgressLine(sys.stderr)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.clear()

    def on_started(self, n_runs: int) -> None:
        """See ``Watcher``."""
        n_repeats = self._plan.n_repeats
        times = "once" if n_repeats == 1 else f"{n_repeats} times"
        note(f"{n_runs} runs: {len(self._plan.variants)} settings, {times} each after a warm-up.")

    def on_run(self, variant: Variant, repeat: int, left_s: float | None) -> None:
        """See ``Watcher``."""
        turn = f"repeat {repeat} of {self._plan.n_repeats}" if repeat else "warm-up"
        left = "" if left_s is None else f", {_span(left_s)} left"
        self._line.show(f"{turn}: {variant.label}, slots: {variant.n_slots}{left}")

    def on_estimate(self, left_s: float, n_runs: int) -> None:
        """See ``Watcher``."""
        self._line.clear()
        note(f"About {_span(left_s)} for what is left: {n_runs} run{'' if n_runs == 1 else 's'}.")


def _span(seconds: float) -> str:
    return duration(seconds * 1e9) if seconds < _MINUTES_FROM_S else f"{seconds / 60:.0f} minutes"
