"""What a run of a million records costs to look at: the first picture, frames of panning and zooming, memory, exports.

Everything happens offscreen in a process of its own (``view_child``), with the panels as the window makes them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.perf.figures import Figure

N_RECORDS = 1_000_000
_LIMIT_S = 600


def measure(repeats: int) -> list[Figure]:
    """``repeats`` processes, one after the other."""
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    runs = []
    for _ in range(repeats):
        command = [sys.executable, "-m", "tests.perf.view_child", str(N_RECORDS)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=_LIMIT_S, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return [*_first_pictures(runs), *_frames(runs), *_memory(runs), *_exports(runs)]


def _first_pictures(runs: list[dict[str, dict[str, float]]]) -> list[Figure]:
    definition = f"{N_RECORDS:,} records"
    return [
        Figure(name, "s", tuple(run["seconds"][name] for run in runs), definition=definition, limit=2.0)
        for name in runs[0]["seconds"]
    ]


def _frames(runs: list[dict[str, dict[str, float]]]) -> list[Figure]:
    """The frame that 95 of 100 are no slower than, of each process."""
    definition = "processor time of the window's thread, which does nothing but draw: the machine has other work"
    return [
        Figure(
            f"{name}, p95 of frames",
            "ms",
            tuple(run["frames_ms"][name] for run in runs),
            definition=definition,
            limit=16.0,
        )
        for name in runs[0]["frames_ms"]
    ]


def _memory(runs: list[dict[str, dict[str, float]]]) -> list[Figure]:
    return [
        Figure(
            name,
            "x the records",
            tuple(run["memory"][name] for run in runs),
            limit=3.0 if name.startswith("memory") else None,
        )
        for name in runs[0]["memory"]
    ]


def _exports(runs: list[dict[str, dict[str, float]]]) -> list[Figure]:
    return [
        Figure(
            f"export to {name}, per 1 M records",
            "s",
            tuple(run["exports_s"][name] for run in runs),
            definition="processor time, since the machine has other work",
            limit=3.0 if name == "perfetto" else None,
        )
        for name in runs[0]["exports_s"]
    ]
