"""What saving and restoring 20 MB of recurrent state costs in each mode, on the CPU and on RPC servers on this machine.

``recorded`` are the durations that the engine puts on record, from runs in which the modes take turns. On a server what
is only sent and not waited for is missing from them: ``with the server's part`` waits for it, in libllama alone.

The memory copy that checkpoints in device memory are compared with moves the bytes of one state between two buffers
in ordinary pages, as the states are, once after each round on the CPU, which leaves them as cold as the states. numpy's
own arrays lie in huge pages where the system grants them, and are copied faster; that is a figure of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SlotTask
from tests.engine_ext.bare_llama import ON_DEVICE, PARTIAL, Context, load, rows_of
from tests.engine_ext.bare_rpc import device_of, wait_for
from tests.engine_ext.harness import GREEDY, Bench, token_prompts
from tests.models.make_shape_model import SHAPES, make, state_bytes
from tests.models.rpc_server import RpcServerProcess
from tests.perf.figures import Figure

_MODES = (CheckpointMode.COW, CheckpointMode.DEVICE, CheckpointMode.HOST)
_PLACES = ("CPU", "RPC")
_N_TOKENS = 64
_N_CYCLES = 8
_SETTINGS = {"n_slots": 1, "n_ctx": 512, "n_threads": 1}

Batches = dict[str, list[list[float]]]
"""Name of a duration -> for each batch, its microseconds."""


def measure(repeats: int) -> list[Figure]:
    """``repeats`` batches of each mode at each place, in turn; the first batches only warm up."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as servers:

        def new_server() -> str:
            server = RpcServerProcess()
            servers.callback(server.close)
            return server.name

        model = make(Path(folder) / "shape-small.gguf", size="small")
        recorded = _recorded(model, new_server, repeats)
        waited = _waited_for(model, new_server(), repeats)
        calibrations = list(_calibrations(model, new_server(), repeats))
    return [*_durations(recorded | waited), *calibrations, *_ratios(recorded, waited)]


# ---- what the engine records


class _Engine:
    """An engine with the model in one mode."""

    def __init__(self, model: Path, mode: CheckpointMode, servers: tuple[str, ...]) -> None:
        self._bench = Bench()
        self._bench.load(model, ContextSettings(checkpoint=mode, **_SETTINGS), rpc_servers=servers)  # type: ignore[arg-type]

    def close(self) -> None:
        """Free its server."""
        self._bench.backend.unload()

    def batch(self, after_round: Callable[[], None]) -> dict[str, list[float]]:
        """Microseconds of the saves and of the restores of one task."""
        self._bench.submit(SlotTask(0, Prompt(), GREEDY, _N_TOKENS, (), True), token_prompts(1)[0])
        while self._bench.backend.step():
            after_round()
        self._bench.backend.take_results()
        records = self._bench.ring.read()
        kinds = {"save": Kind.SAVE, "restore": Kind.RESTORE}
        return {name: (records["duration_ns"][records["kind"] == kind] / 1e3).tolist() for name, kind in kinds.items()}


def _recorded(model: Path, new_server: Callable[[], str], repeats: int) -> Batches:
    # A server serves one client at a time.
    engines = {
        (place, mode): _Engine(model, mode, (new_server(),) if place == "RPC" else ())
        for place in _PLACES
        for mode in _MODES
    }
    copies = {"memcpy": _copy_of(_ordinary_pages()), "memcpy, huge pages": _copy_of(_numpys_pages())}
    batches: Batches = defaultdict(list)
    for is_warm in [False] + [True] * repeats:
        copied: dict[str, list[float]] = {name: [] for name in copies}

        def after_round(copied: dict[str, list[float]] = copied) -> None:
            for name, copy in copies.items():
                copied[name].append(_us(copy))

        found: dict[str, list[float]] = {}
        for (place, mode), engine in engines.items():
            durations = engine.batch(after_round if place == "CPU" else lambda: None)
            found |= {f"{place} {mode} {what}, recorded": durations[what] for what in durations}
        if is_warm:
            for name, samples in (found | copied).items():
                batches[name].append(samples)
    for engine in engines.values():
        engine.close()
    return batches


def _ordinary_pages() -> NDArray[np.uint8]:
    memory = mmap.mmap(-1, state_bytes(SHAPES["small"]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype=np.uint8)


def _numpys_pages() -> NDArray[np.uint8]:
    return np.empty(state_bytes(SHAPES["small"]), dtype=np.uint8)


def _copy_of(source: NDArray[np.uint8]) -> Callable[[], None]:
    target = _ordinary_pages() if isinstance(source.base, mmap.mmap) else np.empty_like(source)
    source[:] = 1
    return lambda: np.copyto(target, source)


# ---- with the server's part


def _waited_for(model: Path, server: str, repeats: int) -> Batches:
    """Device and host states in turn, until the server has answered what was asked after them."""
    device = device_of(server)
    handle = load(model, load_mtp=False, device=device)
    assert handle is not None
    context = Context(handle)
    context.decode(rows_of(0, 9))
    blobs = {mode: _blob(context, flags) for mode, flags in _FLAGS.items()}
    batches: Batches = defaultdict(list)
    for is_warm in [False] + [True] * repeats:
        found: dict[str, list[float]] = defaultdict(list)
        for mode in list(_FLAGS) * _N_CYCLES:
            arguments = (context.handle, blobs[mode], len(blobs[mode]), 0, _FLAGS[mode])
            for what, call in (("save", _SAVE), ("restore", _RESTORE)):
                wait_for(device)
                found[f"RPC {mode} {what}, with the server's part"].append(
                    _us(lambda call=call, arguments=arguments: (call(*arguments), wait_for(device)))  # type: ignore[misc]
                )
                context.remove_from(0, 9)
                context.decode(rows_of(0, 4, 9))
            _RESTORE(*arguments)
            context.remove_from(0, 9)
        if is_warm:
            for name, samples in found.items():
                batches[name].append(samples)
    return batches


_FLAGS = {CheckpointMode.DEVICE: PARTIAL | ON_DEVICE, CheckpointMode.HOST: PARTIAL}
_SAVE, _RESTORE = llama_cpp.llama_state_seq_get_data_ext, llama_cpp.llama_state_seq_set_data_ext


def _blob(context: Context, flags: int) -> ctypes.Array[ctypes.c_uint8]:
    return (ctypes.c_uint8 * llama_cpp.llama_state_seq_get_size_ext(context.handle, 0, flags))()


# ---- figures


def _calibrations(model: Path, server: str, repeats: int) -> Iterable[Figure]:
    """How long a load in the automatic mode takes to time the modes."""
    settings = ContextSettings(**_SETTINGS)  # type: ignore[arg-type]
    for place, servers in zip(_PLACES, ((), (server,)), strict=True):
        samples = []
        for _ in range(repeats):
            bench = Bench()
            samples.append(bench.load(model, settings, rpc_servers=servers).way_back.calibration_ms)
            bench.backend.unload()
        yield Figure(f"{place} calibration", "ms", tuple(samples), definition="of a load with the automatic mode")


def _durations(batches: Batches) -> list[Figure]:
    return [
        Figure(name, "us", tuple(itertools.chain(*samples)), definition="of one state")
        for name, samples in batches.items()
    ]


def _ratios(recorded: Batches, waited: Batches) -> list[Figure]:
    """What was asked for: medians of a batch, for each batch."""
    medians = {
        name: np.array([statistics.median(samples) for samples in batches])
        for name, batches in (recorded | waited).items()
    }

    def both(mode: str, how: str = "recorded") -> NDArray[np.float64]:
        return medians[f"{mode} save, {how}"] + medians[f"{mode} restore, {how}"]  # type: ignore[no-any-return]

    copy = medians["memcpy"]
    waited_for = "with the server's part"
    asked = [
        ("CPU cow save + restore", "us", both("CPU cow"), 50.0),
        ("RPC cow save + restore", "us", both("RPC cow"), 100.0),
        ("CPU device save / one memcpy", "", medians["CPU device save, recorded"] / copy, 1.2),
        ("CPU device restore / one memcpy", "", medians["CPU device restore, recorded"] / copy, 1.2),
        ("CPU device save + restore / two memcpys", "", both("CPU device") / (2 * copy), 1.2),
        ("RPC device / host, recorded", "", both("RPC device") / both("RPC host"), 0.5),
        (f"RPC device / host, {waited_for}", "", both("RPC device", waited_for) / both("RPC host", waited_for), 0.5),
    ]
    return [Figure(name, unit, tuple(values.tolist()), limit=limit) for name, unit, values, limit in asked]


def _us(work: Callable[[], object]) -> float:
    started_ns = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - started_ns) / 1e3
