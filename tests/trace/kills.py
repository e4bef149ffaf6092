"""Kills the window or its engine at random moments, and looks at what is left: ``python -m tests.trace.kills``.

What there was to be recorded is read from the engine's own memory, which this process owns: all records that were in it
when the signal was sent. The loss is the time from the end of the first of them that no file has to the signal; 0 where
the files have all of them. A table of losses is printed, and every file that does not open.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from draftscope.base.paths import demo_model
from draftscope.cli.terminal import table
from draftscope.engine.events import RECORD_DTYPE, Records
from draftscope.engine.ring import DEFAULT_CAPACITY, HEADER_BYTES
from draftscope.engine.trace_memory import trace_memory_bytes
from draftscope.session.recordings import Recordings
from draftscope.trace.tracefile import Trace, finish_recording, read_trace
from draftscope.trace.tracefile.reader import CUT_OFF

LIMIT_MS = 100.0
"""The most that may be missing."""

_WAIT_S = 30.0
_AT_RUN_S = 1.5
_AT_START_S = 4.0
_N_WRITTEN_AT = 16
_N_TOKENS = 300
"""Of a run: some end, and others begin, while the window lives."""


@dataclass(slots=True)
class Kill:
    """One kill. ``n_lost`` of ``n_made`` records are in no file; ``problems`` are sentences."""

    who: str
    after_s: float
    n_files: int = 0
    n_made: int = 0
    n_lost: int = 0
    loss_ms: float = 0.0
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Oracle:
    """The engine's memory, seen from outside."""

    memory: mmap.mmap

    @property
    def n_written(self) -> int:
        """Records that were ever stored."""
        return int.from_bytes(self.memory[_N_WRITTEN_AT : _N_WRITTEN_AT + 8], "little")

    def records(self, n_written: int) -> Records:
        """The newest records of the first ``n_written``, in order; as many as the ring holds."""
        stored = np.frombuffer(self.memory, RECORD_DTYPE, DEFAULT_CAPACITY, HEADER_BYTES)
        numbers = np.arange(max(0, n_written - DEFAULT_CAPACITY), n_written)
        return stored[numbers % DEFAULT_CAPACITY].copy()  # type: ignore[no-any-return]


def kill_once(who: str, chance: random.Random, backend: str, model: str) -> Kill:
    """Start a window, kill it or its engine at some moment, and look."""
    with tempfile.TemporaryDirectory() as home, _memory() as (descriptor, oracle):
        environment = os.environ | {f"XDG_{what}_HOME": home for what in ("DATA", "CONFIG", "CACHE", "STATE")}
        environment |= {"QT_QPA_PLATFORM": "offscreen", "LC_ALL": "C.UTF-8"}
        arguments = [str(descriptor), f"{home}/settings.ini", backend, model, str(_N_TOKENS)]
        window = subprocess.Popen(
            [sys.executable, "-m", "tests.trace.kill_victim", *arguments],
            pass_fds=[descriptor],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert window.stdout is not None and window.stdin is not None
        try:
            kill, moment_ns, n_written = _strike(who, window, chance, oracle)
        finally:
            window.kill()
            window.wait()
            window.stdout.close()
            window.stdin.close()
        _judge(
            kill, Recordings(Path(home) / "draftscope" / "recordings", 1 << 40), oracle.records(n_written), moment_ns
        )
        return kill


def _strike(who: str, window: subprocess.Popen[bytes], chance: random.Random, oracle: _Oracle) -> tuple[Kill, int, int]:
    """Kill; the moment, and how many records there were then."""
    assert window.stdout is not None
    if who == "start":  # a window that may not have begun to run
        time.sleep(delay_s := chance.uniform(0.1, _AT_START_S))
    else:
        engine = int(_fact(window.stdout)["engine"])
        time.sleep(delay_s := chance.uniform(0, _AT_RUN_S))
    victim = engine if who == "engine" else window.pid
    n_written, moment_ns = oracle.n_written, time.monotonic_ns()
    os.kill(victim, signal.SIGKILL)
    if who == "engine":
        _fact(window.stdout)  # it has died, and its window has taken what it left
        n_written = oracle.n_written
    else:
        window.wait(_WAIT_S)
    return Kill(who, delay_s), moment_ns, n_written


def _fact(lines: IO[bytes]) -> dict[str, int]:
    line = lines.readline()
    if not line:
        raise RuntimeError("The window ended by itself.")
    return dict(json.loads(line))


@contextlib.contextmanager
def _memory() -> Iterator[tuple[int, _Oracle]]:
    descriptor = os.memfd_create("draftscope-oracle")
    try:
        size = trace_memory_bytes()
        os.ftruncate(descriptor, size)
        yield descriptor, _Oracle(mmap.mmap(descriptor, size))
    finally:
        os.close(descriptor)


def _judge(kill: Kill, recordings: Recordings, made: Records, moment_ns: int) -> None:
    kept = [np.zeros(0, np.uint64)]
    for path in recordings.paths():
        kill.n_files += 1
        try:
            trace = read_trace(path)
        except Exception as error:  # whatever it is, a person would see it
            kill.problems.append(f"{path.name} does not open: {error}")
            continue
        kill.problems += _faults(trace)
        kept.append(trace.store.in_order()["sequence"])
    for facts in recordings.cut_off():
        finish_recording(facts.path)
        if read_trace(facts.path).store.n_records != facts.n_records:
            kill.problems.append(f"{facts.path.name} lost records when it was made whole.")
    sequences = np.concatenate(kept)
    lost = made[made["sequence"] > (sequences.max() if len(sequences) else -1)] if kill.n_files else made[:0]
    lost = lost[lost["kind"] > 0]
    kill.n_made, kill.n_lost = len(made), len(lost)
    if len(lost):
        kill.loss_ms = max(0.0, (moment_ns - int(lost["t_start_ns"][0] + lost["duration_ns"][0])) / 1e6)


def _faults(trace: Trace) -> list[str]:
    faults = [sentence for sentence in trace.missing if sentence != CUT_OFF]
    if trace.store.n_missing:
        faults.append(f"{trace.store.n_missing} records are missing in the middle.")
    return faults


def as_text(kills: list[Kill]) -> str:
    """A line for each who was killed, and what is wrong."""
    rows = []
    for who in dict.fromkeys(kill.who for kill in kills):
        of = [kill for kill in kills if kill.who == who]
        losses = sorted(kill.loss_ms for kill in of)
        rows.append(
            (
                who,
                str(len(of)),
                str(sum(kill.n_files for kill in of)),
                str(sum(loss == 0 for loss in losses)),
                f"{statistics.median(losses):.1f}",
                f"{losses[-1]:.1f}",
                str(sum(bool(kill.problems) for kill in of)),
            )
        )
    heads = ("killed", "kills", "files opened", "lost nothing", "median loss, ms", "most, ms", "with problems")
    problems = [f"{kill.who} after {kill.after_s:.3f} s: {problem}" for kill in kills for problem in kill.problems]
    return "\n".join([table(heads, rows), *problems])


def main() -> int:
    """Kill, and print; 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.trace.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--backend", default="fake:400", help="fake:N or native, which runs the demo model")
    options = parser.parse_args()
    model = str(demo_model()) if options.backend == "native" else "fake:model"
    chance, kills = random.Random(options.seed), []
    for number in range(options.kills):
        who = ("window", "engine", "window", "engine", "start")[number % 5]
        kills.append(kill_once(who, chance, options.backend, model))
        kill = kills[-1]
        print(
            f"{number + 1}: {who} after {kill.after_s:.3f} s, {kill.n_files} files, lost {kill.loss_ms:.1f} ms",
            flush=True,
        )
    print(as_text(kills))
    is_well = all(kill.loss_ms <= LIMIT_MS and not kill.problems for kill in kills)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
