"""``draftscope export``: a recorded trace in a format that other programs read."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from draftscope.cli.failure import ExitCode, InputError, UsageError
from draftscope.cli.terminal import ProgressLine

FORMATS = ("chrome", "perfetto", "parquet", "csv", "npz")
_BUILT = ("chrome",)

_EPILOG = """\
The Chrome trace opens in https://ui.perfetto.dev and in chrome://tracing. An OUT that ends in .gz is compressed.

example:
  draftscope export run.dscope --to chrome -o run.json.gz
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("export", help="write a trace in another format", epilog=_EPILOG)
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a .dscope file")
    parser.add_argument("--to", metavar="FORMAT", required=True, choices=FORMATS, help="chrome")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, type=Path, help="file to write")
    parser.add_argument("--no-text", action="store_true", help="leave out the text of prompts and outputs")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(options: argparse.Namespace) -> int:
    """Export and say what was written. Raises what ``failure`` knows how to tell."""
    if options.to not in _BUILT:
        raise UsageError(f"Export to {options.to} is not built in this version.", "Use --to chrome.")
    if not options.output.parent.is_dir():
        raise UsageError(f"The folder {options.output.parent} does not exist.", "Make it, or name another OUT.")
    if not options.trace.exists():
        raise InputError(f"There is no file {options.trace}.")
    if options.output.exists() and options.output.samefile(options.trace):
        raise UsageError("OUT is the trace itself.", "Name another file.")
    started = time.monotonic()
    n_records = _export_chrome(options.trace, options.output, with_text=not options.no_text)
    size_bytes = options.output.stat().st_size
    if options.json:
        written = {"format": options.to, "output": str(options.output), "with_text": not options.no_text}
        print(json.dumps(written | {"n_records": n_records, "size_bytes": size_bytes}, indent=2))
    else:
        seconds = time.monotonic() - started
        print(f"Wrote {n_records:,} records to {options.output} ({size_bytes:,} bytes) in {seconds:.2f} s.")
    return int(ExitCode.DONE)


def _export_chrome(source: Path, target: Path, *, with_text: bool) -> int:
    from draftscope.trace.errors import TraceError
    from draftscope.trace.export.chrome import export_chrome
    from draftscope.trace.tracefile import read_trace

    try:
        trace = read_trace(source)
    except TraceError as error:
        raise InputError(str(error)) from error
    with ProgressLine(sys.stderr) as line:
        export_chrome(trace, target, with_text=with_text, progress=lambda fraction: line.show("Exporting", fraction))
    return int(trace.store.n_records)
