"""Trace files of a million records: size, time to write and to open, memory; and what recording costs a run.

The cost is processor time, as a share of that of a run in the engine's own thread which has one thread to compute with:
of the writer's thread, in full, as if there were no second processor for it, and of giving it the records. It is read
from the clock of that thread, since runs with and without it scatter by more than the cost.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from draftscope.base.paths import demo_model
from draftscope.engine.client import make_client
from draftscope.engine.events import RECORD_DTYPE, Records
from draftscope.engine.native import NativeBackend
from draftscope.engine.protocol import (
    ContextSettings,
    Finished,
    Load,
    Loaded,
    ModelSettings,
    Prompt,
    SamplingSettings,
    SlotTask,
    Submit,
)
from draftscope.engine.ring import DEFAULT_CAPACITY, Ring, RingWriter, ring_bytes
from draftscope.trace.store import TraceStore
from draftscope.trace.tracefile import TraceWriter, read_trace
from tests.perf.figures import Figure, seconds_of
from tests.trace.synthetic import make_many

_N = 1_000_000
_PART = 4096
_RATE = 100_000
_RATE_S = 5.0
_FRAME_S = 1 / 60
_N_TOKENS = 400
_N_SLOTS = 4


def measure(repeats: int) -> list[Figure]:
    """All figures; every pass writes a file anew."""
    records = make_many(_N)[:_N]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        figures = [*_million(place, records, repeats), _memory(place / "chunks.dscope"), *_paced(place, records)]
        return [*figures, *_fake(place), *_cost(place, repeats)]


def _million(folder: Path, records: Records, repeats: int) -> Iterator[Figure]:
    for name, most_rows in (("chunks", 0), ("tables", None)):
        path = folder / f"{name}.dscope"

        def write(path: Path = path, most_rows: int | None = most_rows) -> None:
            with TraceWriter(path, {}, most_rows=most_rows) as writer:
                for start in range(0, _N, _PART):
                    writer.append(records[start : start + _PART])

        what = "1 M records" if most_rows == 0 else "1 M records, with tables"
        yield Figure(f"write {what}", "s", tuple(seconds_of(write, repeats)))
        yield Figure(f"size of {what}", "B/record", (path.stat().st_size / _N,))
    yield Figure(
        "open 1 M records", "s", tuple(seconds_of(lambda: read_trace(folder / "chunks.dscope"), repeats)), limit=2
    )


def _memory(path: Path) -> Figure:
    """Peak resident memory of a process that opens the file, less what it has before."""
    code = (
        "import sys; from draftscope.trace.tracefile import read_trace\n"
        "def peak():\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmHWM'))\n"
        "before = peak(); trace = read_trace(sys.argv[1]); print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], stdout=subprocess.PIPE, check=True, timeout=120)
    share = int(done.stdout) / (_N * RECORD_DTYPE.itemsize)
    return Figure("memory to open / bytes of records", "", (share,), limit=3)


def _paced(folder: Path, records: Records) -> Iterator[Figure]:
    """100,000 records a second from a ring into a store and a file: what was dropped, and the processor time."""
    memory = bytearray(ring_bytes())
    ring, engine = Ring.create(memory, DEFAULT_CAPACITY), RingWriter(memory)
    store, n, seconds = TraceStore(), 0, 0.0
    with TraceWriter(folder / "paced.dscope", {}, most_rows=0) as writer:
        began, started = time.monotonic(), time.process_time()
        while n < _RATE * _RATE_S:
            due = min(int((time.monotonic() - began) * _RATE), _N)
            aside = time.thread_time()
            for record in records[n:due]:
                engine.append(record)
            seconds += time.thread_time() - aside
            n = due
            part = ring.read()
            store.append(part)
            writer.append(part)
            time.sleep(_FRAME_S)
    spent = time.process_time() - started - seconds
    kept = read_trace(folder / "paced.dscope").store.n_records
    yield Figure("dropped at 100,000 records/s", "records", (float(ring.n_dropped + n - kept),), limit=0)
    yield Figure("store and file at 100,000 records/s", "% of a processor", (100 * spent / _RATE_S,))


def _fake(folder: Path) -> Iterator[Figure]:
    """The scripted engine as fast as it can, in a process of its own, into a store and a file."""
    client = make_client("fake:0")
    try:
        command = Load(client.next_id(), ModelSettings("fake:model"), ContextSettings(n_slots=8, n_ctx=100_000))
        client.send(command)
        while not any(isinstance(answer, Loaded) for answer in client.drain()):
            client.wait(0.1)
        tasks = tuple(SlotTask(slot, Prompt(text="a b c"), max_tokens=20_000, ignore_eos=True) for slot in range(8))
        with TraceWriter(folder / "fake.dscope", {}, most_rows=0) as writer:
            client.read_records()
            client.send(Submit(client.next_id(), tasks))
            store, began, is_open = TraceStore(), time.monotonic(), True
            while is_open:
                time.sleep(_FRAME_S)
                is_open = not any(isinstance(answer, Finished) for answer in client.drain())
                part = client.read_records()
                store.append(part)
                writer.append(part)
            seconds = time.monotonic() - began
        kept = read_trace(folder / "fake.dscope").store.n_records
        yield Figure("scripted engine, unpaced", "records/s", (store.n_records / seconds,), is_more_better=True)
        yield Figure(
            "dropped or not in the file", "records", (float(client.n_dropped + store.n_records - kept),), limit=0
        )
    finally:
        client.close()


class _Run:
    """The demo model; its records are read, stored, and written into a file."""

    def __init__(self) -> None:
        memory = bytearray(ring_bytes())
        self._ring = Ring.create(memory, DEFAULT_CAPACITY)
        self._backend = NativeBackend(memoryview(memory))
        context = ContextSettings(n_slots=_N_SLOTS, n_ctx=1024, n_threads=1)
        self._backend.load(ModelSettings(str(demo_model())), context, lambda *_: True)
        self._tokens = self._backend.tokenize("class Stack:\n    def", parse_special=False, add_special=True)

    def shares(self, path: Path) -> tuple[float, float]:
        """Processor time of the writer's thread, and of giving it records, both as shares of that of the run."""
        greedy, store, giving = SamplingSettings(temperature=0.0), TraceStore(), 0.0
        writer = TraceWriter(path, {}, most_rows=0)
        clock = time.pthread_getcpuclockid(writer._thread.ident or 0)
        before = time.clock_gettime(clock)
        for slot in range(_N_SLOTS):
            task = SlotTask(slot, Prompt(tokens=self._tokens), greedy, max_tokens=_N_TOKENS, ignore_eos=True)
            self._backend.submit(task, self._tokens)
        started, frame = time.process_time(), time.monotonic()
        while self._backend.step():
            if time.monotonic() - frame >= _FRAME_S:
                frame = time.monotonic()
                records = self._ring.read()
                store.append(records)
                aside = time.thread_time()
                writer.append(records)
                giving += time.thread_time() - aside
        seconds, writing = time.process_time() - started, time.clock_gettime(clock) - before
        self._backend.take_results()
        writer.close()
        rest = seconds - writing - giving
        return writing / rest, giving / rest


def _cost(folder: Path, repeats: int) -> Iterator[Figure]:
    run = _Run()
    shares = [run.shares(folder / "cost.dscope") for _ in range(repeats + 1)][1:]
    for name, index in (("the writer's thread", 0), ("giving it records", 1)):
        yield Figure(f"file, {name} / processor time of a run", "%", tuple(100 * share[index] for share in shares))
    yield Figure("file, extra processor time of a run", "%", tuple(100 * sum(share) for share in shares), limit=1)
