"""``draftscope report``: a recorded run as one HTML file, for a bug report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from draftscope.cli.failure import ExitCode, InputError, UsageError
from draftscope.trace.errors import TraceError

_EPILOG = """\
The file needs nothing else: no scripts, nothing loaded from elsewhere; it is dark or light as the reader's system is.
It says what ran where and with which settings, and has figures by slot, acceptance by position, where the time of
rounds went, times of saves and restores, fallbacks, memory, prompts and outputs, and what the trace lacks.

example:
  draftscope report run.dscope -o report.html --no-text
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("report", help="write a trace as one HTML page", epilog=_EPILOG)
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a .dscope file")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, type=Path, help="HTML file to write")
    without = "leave out prompts, outputs, token ids, grammars and the log"
    parser.add_argument("--no-text", action="store_true", help=without)
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(options: argparse.Namespace) -> int:
    """Write the report. Raises what ``failure`` knows how to tell."""
    from draftscope.trace.report import write_report
    from draftscope.trace.tracefile import read_trace

    if not options.output.absolute().parent.is_dir():
        raise UsageError(f"The folder {options.output.parent} does not exist.", "Make it, or name another OUT.")
    if options.output.is_dir():
        raise UsageError(f"{options.output} is a folder.", "Name a file.")
    if options.output.exists() and options.trace.exists() and options.output.samefile(options.trace):
        raise UsageError("OUT is the trace itself.", "Name another file.")
    try:
        trace = read_trace(options.trace)
    except TraceError as error:
        raise InputError(str(error)) from error
    size_bytes = write_report(trace, options.output, with_text=not options.no_text)
    if options.json:
        written = {"output": str(options.output), "with_text": not options.no_text, "size_bytes": size_bytes}
        print(json.dumps(written, indent=2))
    else:
        print(f"Wrote the report of {trace.store.n_records:,} records to {options.output} ({size_bytes:,} bytes).")
    return int(ExitCode.DONE)
