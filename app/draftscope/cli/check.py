"""``draftscope check``: what restores put back, with and without the hooks, in every way back."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from draftscope import __version__
from draftscope.cli.check_plan import make_check_plan
from draftscope.cli.check_runner import Check
from draftscope.cli.check_summary import summary_of_check
from draftscope.cli.check_tables import as_markdown, as_text
from draftscope.cli.failure import ExitCode, RunError, failure_of, tell
from draftscope.cli.options import add_engine_options, add_model, at_least, comma_list, one_of
from draftscope.cli.terminal import ProgressLine, note
from draftscope.engine.client import make_client
from draftscope.engine.probes import Fault
from draftscope.engine.protocol import CheckpointMode, ContextSettings

_MAX_TOKENS = 40
_REPEAT = 3
_SLOTS = 2
_SPACING = 64

_EPILOG = """\
Four conversations of four turns are run, then their last three turns are edited, the latest first, so that slots go
back to prompt checkpoints at several positions, and behind rejected drafts all the time. In each way back that the
model has every restore is probed: hidden row, MTP context, recurrent state by layer, and the next draft from the saved
row, from the one in use, and from the one that would be there without the hook. Then the same is timed without probes,
in turn with the hooks and without them.

exit codes: 0 everything that must be equal is; 1 something differs that must not.

examples:
  draftscope check demo
  draftscope check model.gguf --modes host,rollback --report restores.md
  draftscope check demo --fault stale_row
  draftscope check model.gguf --repeat 0 --json
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("check", help="what restores put back: with the hooks and without", epilog=_EPILOG)
    add_model(parser)
    add = parser.add_argument_group("what is checked").add_argument
    modes = comma_list(one_of(CheckpointMode))
    add("--modes", metavar="M,..", type=modes, help="ways back (default: all that there are)")
    add("--fault", choices=[f.value for f in Fault], default=Fault.NONE.value, help="do this wrong, to see it caught")
    add("--slots", metavar="N", type=at_least(1), default=_SLOTS, help=f"slots (default {_SLOTS})")
    add("--draft-max", metavar="K", type=at_least(0), default=ContextSettings().n_draft_max, help="tokens to draft")
    add("--max-tokens", metavar="N", type=at_least(1), default=_MAX_TOKENS, help=f"of a reply (default {_MAX_TOKENS})")
    spacing = f"tokens between two prompt checkpoints, at most (default {_SPACING})"
    add("--prompt-checkpoint-spacing", metavar="N", type=at_least(16), default=_SPACING, help=spacing)
    add("--repeat", metavar="R", type=at_least(0), default=_REPEAT, help=f"timed pairs of runs (default {_REPEAT})")
    add_engine_options(parser.add_argument_group("model and engine"))
    output = parser.add_argument_group("output")
    output.add_argument("--report", metavar="OUT.md", type=Path, help="also write a report, to be read by others")
    output.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")


def run(options: argparse.Namespace) -> int:
    """Check and print. Raises what ``failure`` knows how to tell."""
    plan = make_check_plan(options)
    client = make_client("native", in_process=options.in_process)
    with contextlib.closing(client), ProgressLine(sys.stderr) as progress:
        result = Check(plan, client, lambda words: _tell(progress, words)).run()
    summary = summary_of_check(result)
    print(json.dumps(summary, indent=2, allow_nan=False) if options.json else as_text(summary))
    if plan.report is not None:
        _write(plan.report, as_markdown(summary, f"draftscope {__version__}"))
    if result.failure is not None:
        return tell(failure_of(result.failure), as_json=False)  # the summary has it
    if result.is_interrupted:
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.RUN_FAILED if summary["differs"] else ExitCode.DONE)


def _tell(progress: ProgressLine, words: str) -> None:
    """On a terminal a line that is drawn over, else a line each."""
    if sys.stderr.isatty():
        progress.show(f"Checking: {words}")
    else:
        note(f"checking: {words}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"The report cannot be written to {path}: {error.strerror}."
        raise RunError(message, "Choose another file for --report.") from error
