"""The command line's entry: find the command, parse its options, run it, and turn every error into an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from draftscope import __version__
from draftscope.cli.failure import ExitCode, UsageError, failure_of, tell

COMMANDS = ("run", "chat", "bench", "check", "info", "export", "diff", "report", "doctor", "desktop")
"""Names of the commands; each is a module of this package."""

_DESCRIPTION = "Inspect speculative decoding with multi-token prediction (MTP) in llama.cpp."

_EPILOG = """\
Without a command: draftscope [MODEL.gguf | TRACE.dscope | demo] opens the window.

MODEL is a path to a GGUF file, or 'demo' for the bundled model. Every command takes --json.

exit codes: 0 done, 1 the run failed (diff: a condition holds), 2 wrong use, 3 bad input file, 4 engine died,
130 interrupted

examples:
  draftscope run demo
  draftscope run model.gguf --prompt "def main():" --draft-max 3 --temp 0
  draftscope run model.gguf --prompts prompts.jsonl --slots 4 --json --trace run.dscope
  draftscope chat model.gguf --system "Answer in one sentence."
  draftscope bench model.gguf --slots 1,4 --draft-max 1,3,5
  draftscope info model.gguf
  draftscope export run.dscope --to chrome -o run.json.gz
  draftscope diff before.dscope after.dscope --fail-if 'tokens_per_second<0.95'
  draftscope report run.dscope -o report.html
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ``UsageError`` instead of ending the process, and takes no abbreviated options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Raise: the sentence, and the usage as detail."""
        sentence = message[:1].upper() + message[1:].rstrip(".") + "."
        raise UsageError(sentence, f"See '{self.prog} --help'.", self.format_usage())


def is_command_line(arguments: Sequence[str]) -> bool:
    """Whether the arguments (without the program's name) are for this module rather than for the window."""
    return bool(arguments) and arguments[0] in (*COMMANDS, "--version", "--help", "-h")


def make_parser(command: str | None = None) -> Parser:
    """The whole parser, or the one that knows just ``command`` (starts faster, since one module is imported)."""
    parser = Parser(prog="draftscope", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"draftscope {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name in COMMANDS:
        if command in (None, name):
            module = importlib.import_module(f"draftscope.cli.{name}")
            module.add_parser(subparsers)
            subparsers.choices[name].set_defaults(run=module.run)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (without the program's name) names and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    code = int(ExitCode.DONE)
    try:
        code = _run(arguments)
        if sys.stdout is not None:  # None: it was closed before the program began
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _discard_output()  # its reader went away: nobody is left to tell
        return int(ExitCode.BROKEN_PIPE)
    except OSError as error:
        _discard_output()
        if code == ExitCode.DONE:
            print(f"draftscope: The output cannot be written: {error.strerror}.", file=sys.stderr)
        return code or int(ExitCode.RUN_FAILED)


def _discard_output() -> None:
    """Keep the interpreter from flushing into it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    command = next((name for name in COMMANDS if arguments[:1] == [name]), None)
    try:
        options = make_parser(command).parse_args(arguments)
        return int(options.run(options))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(ExitCode.DONE)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        return tell(failure_of(error), as_json="--json" in arguments, in_one_line=command == "chat")


if __name__ == "__main__":
    sys.exit(run())
