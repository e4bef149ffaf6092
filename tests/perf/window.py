"""How soon the window is there, and how soon the demo's first token is on the screen after the click."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.perf.figures import Figure

_LIMIT_S = 60


def measure(repeats: int) -> list[Figure]:
    """Fresh processes with settings of their own; the first one only fills the system's file cache."""
    with _display() as display:
        runs = [_one_run(display) for _ in range(repeats + 1)][1:]
    start = tuple((run["painted_ns"] - run["started_ns"]) / 1e6 for run in runs)
    token = tuple((run["token_ns"] - run["clicked_ns"]) / 1e6 for run in runs)
    return [
        Figure("start to first paint", "ms", start, definition="from the start of the process to the painted window"),
        Figure(
            "demo click to first token", "ms", token, definition="with the model to load, to the frame that draws it"
        ),
    ]


def _one_run(display: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as home:
        places = {f"XDG_{what}_HOME": f"{home}/{what}" for what in ("DATA", "CONFIG", "CACHE", "STATE")}
        environment = os.environ | places | {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb"}
        started_ns = time.monotonic_ns()
        done = subprocess.run(
            [sys.executable, "-m", "tests.perf.window_child"],
            env=environment,
            stdout=subprocess.PIPE,
            timeout=_LIMIT_S,
            check=True,
        )
    moments: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return moments | {"started_ns": started_ns}


@contextlib.contextmanager
def _display() -> Iterator[str]:
    """The display that is there, or a virtual one."""
    if display := os.environ.get("DISPLAY"):
        yield display
        return
    reader, writer = os.pipe()
    command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[writer], stderr=subprocess.DEVNULL)
    os.close(writer)
    try:
        with os.fdopen(reader) as answer:
            yield f":{answer.readline().strip()}"
    finally:
        server.terminate()
        server.wait()
