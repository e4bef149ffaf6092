"""``draftscope export``: a recorded trace in a format that other programs read."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from draftscope.cli.failure import ExitCode, InputError, RunError, UsageError
from draftscope.cli.terminal import ProgressLine

FORMATS = ("perfetto", "chrome", "parquet", "csv", "npz")

_EPILOG = """\
formats:
  perfetto  opens in https://ui.perfetto.dev and trace_processor
  chrome    opens in https://ui.perfetto.dev and chrome://tracing; an OUT that ends in .gz is compressed
  parquet   a folder with one file a table; needs pyarrow: pip install 'draftscope[parquet]'
  csv       a folder with one file a table
  npz       hidden rows, top logits and layer differences of probes, as numpy arrays

examples:
  draftscope export run.dscope --to perfetto -o run.pftrace
  draftscope export run.dscope --to chrome -o run.json.gz --no-text
  draftscope export run.dscope --to csv -o run-tables
"""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("export", help="write a trace in another format", epilog=_EPILOG)
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a .dscope file")
    parser.add_argument("--to", metavar="FORMAT", required=True, choices=FORMATS, help=", ".join(FORMATS))
    parser.add_argument(
        "-o", "--output", metavar="OUT", required=True, type=Path, help="file to write; a folder for csv and parquet"
    )
    parser.add_argument(
        "--no-text", action="store_true", help="leave out prompts, outputs, token ids and what they stand for"
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(options: argparse.Namespace) -> int:
    """Export and say what was written. Raises what ``failure`` knows how to tell."""
    from draftscope.trace.export.formats import size_of, why_not

    if reason := why_not(options.to):
        raise UsageError(reason, "Or use --to csv, which has the same tables.")
    if not options.output.absolute().parent.is_dir():
        raise UsageError(f"The folder {options.output.parent} does not exist.", "Make it, or name another OUT.")
    if not options.trace.exists():
        raise InputError(f"There is no file {options.trace}.")
    if options.output.exists() and options.output.samefile(options.trace):
        raise UsageError("OUT is the trace itself.", "Name another file.")
    if _is_stdout(options.output):
        raise UsageError("OUT cannot be written here: this command prints there.", f"Name another {_what(options.to)}.")
    started = time.monotonic()
    n_records = _export(options.to, options.trace, options.output, with_text=not options.no_text)
    size_bytes = size_of(options.output)
    if options.json:
        written = {"format": options.to, "output": str(options.output), "with_text": not options.no_text}
        print(json.dumps(written | {"n_records": n_records, "size_bytes": size_bytes}, indent=2))
    else:
        seconds = time.monotonic() - started
        print(f"Wrote {n_records:,} records to {options.output} ({size_bytes:,} bytes) in {seconds:.2f} s.")
    return int(ExitCode.DONE)


def _export(format_id: str, source: Path, target: Path, *, with_text: bool) -> int:
    """Write, and return the number of records. An interrupt leaves nothing behind."""
    from draftscope.trace.errors import TraceError
    from draftscope.trace.export.formats import export_trace
    from draftscope.trace.tracefile import read_trace

    try:
        trace = read_trace(source)
    except TraceError as error:
        raise InputError(str(error)) from error
    with ProgressLine(sys.stderr) as line:
        try:
            export_trace(
                format_id,
                trace,
                target,
                with_text=with_text,
                progress=lambda fraction: line.show("Exporting", fraction),
            )
        except FileExistsError as error:
            raise UsageError(f"{error.strerror}: {target}.", "Name another folder.") from error
        except NotADirectoryError as error:
            what = "a file" if target.is_file() else "no folder"
            raise UsageError(f"{target} is {what}; {format_id} is written into a folder.") from error
        except IsADirectoryError as error:
            raise UsageError(f"{target} is a folder; {format_id} is written into one file.") from error
        except OSError as error:
            message = f"OUT cannot be written here: {error.strerror or error} ({target})."
            raise RunError(message, f"Name another {_what(format_id)}.") from error
    return int(trace.store.n_records)


def _what(format_id: str) -> str:
    from draftscope.trace.export.formats import BY_ID

    return "folder" if BY_ID[format_id].is_folder else "file"


def _is_stdout(path: Path) -> bool:
    """Whether it is what this process prints to, by whatever name, such as ``/dev/stdout``."""
    try:
        return not path.is_dir() and os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # there is no such file yet, or nothing to print to
        return False
