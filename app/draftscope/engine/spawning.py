"""How a child process of ours is started: a fresh interpreter (never fork), with the import path of this one.

The main module of the parent does not matter: it may be a console script, a window, pytest or an interactive session.
A child ends when its parent does: it reads its commands from a pipe, whose end it takes as the order to stop, and on
Linux the kernel is asked to end it too.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from importlib import import_module; import_module(sys.argv[2]).main(sys.argv[3:])"
)

_PR_SET_PDEATHSIG = 1


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that calls ``main(arguments)`` of a module in a new interpreter."""
    return [sys.executable, "-c", _START, json.dumps(sys.path), module, *arguments]


def child_environment() -> dict[str, str]:
    """The environment of an engine process."""
    return os.environ | {
        "GGML_NO_BACKTRACE": "1",  # ggml's abort otherwise starts a debugger
        "PYTHONUNBUFFERED": "1",  # what it printed before it died must have left it
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }


def die_with_parent() -> None:
    """In a child, on Linux: be killed when the thread that started this process ends. Elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def take_answer_channel() -> int:
    """In a child: keep standard output for answers, as the descriptor returned; what others print goes to stderr."""
    channel = os.dup(1)
    os.dup2(2, 1)
    return channel
