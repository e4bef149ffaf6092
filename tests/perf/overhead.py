"""What recording costs: the same run with its records read and stored, and with a ring that is full and drops them.

Processor time of one thread, not wall time, since a machine has other work; the two are run in turn and compared pair
by pair, since its speed shifts slowly. Reading and storing happen in the engine's own thread here, once a frame as the
window does it, so the figure is what recording costs the whole machine; in the program another process does that part.
"""

from __future__ import annotations

import time

from draftscope.base.paths import demo_model
from draftscope.engine.native import NativeBackend
from draftscope.engine.protocol import ContextSettings, ModelSettings, Prompt, SamplingSettings, SlotTask
from draftscope.engine.ring import DEFAULT_CAPACITY, Ring, ring_bytes
from draftscope.trace.acceptance import AcceptanceTable
from draftscope.trace.store import TraceStore
from tests.perf.figures import Figure

_N_SLOTS = 4
_N_TOKENS = 400
_FRAME_S = 1 / 60


class _Recorded:
    """An engine with the demo model; ``is_read``: whether its ring is emptied."""

    def __init__(self, *, is_read: bool) -> None:
        capacity = DEFAULT_CAPACITY if is_read else 2
        memory = bytearray(ring_bytes(capacity))
        self._ring = Ring.create(memory, capacity)
        self._backend = NativeBackend(memoryview(memory))
        self._is_read = is_read
        context = ContextSettings(n_slots=_N_SLOTS, n_ctx=1024, n_threads=1)
        self._backend.load(ModelSettings(str(demo_model())), context, lambda *_: True)
        self._tokens = self._backend.tokenize("class Stack:\n    def", parse_special=False, add_special=True)

    def seconds(self) -> float:
        """Processor time of one run."""
        store, table = TraceStore(), AcceptanceTable()
        for slot in range(_N_SLOTS):
            greedy = SamplingSettings(temperature=0.0)
            task = SlotTask(slot, Prompt(tokens=self._tokens), greedy, max_tokens=_N_TOKENS, ignore_eos=True)
            self._backend.submit(task, self._tokens)
        started, frame = time.process_time(), time.monotonic()
        while self._backend.step():
            if self._is_read and time.monotonic() - frame >= _FRAME_S:
                frame = time.monotonic()
                store.append(self._ring.read())
                table.update(store)
        seconds = time.process_time() - started
        self._backend.take_results()
        return seconds


def measure(repeats: int) -> list[Figure]:
    """Pairs of runs; the ratio of their processor times less one, in percent."""
    recorded, dropped = _Recorded(is_read=True), _Recorded(is_read=False)
    pairs = [(recorded.seconds(), dropped.seconds()) for _ in range(repeats + 1)][1:]  # the first pair warms up
    samples = tuple((with_records / without - 1) * 100 for with_records, without in pairs)
    definition = "processor time with records read and stored in the engine's thread / with a full ring, less one"
    return [Figure("recording, extra processor time", "%", samples, definition=definition)]
