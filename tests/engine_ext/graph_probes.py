"""Questions about graphs: which rows they compute, whether one is built anew, and whether a kept one computes the same.

    python -m tests.engine_ext.graph_probes PROBE MODEL

prints the answer as JSON on the last line, as ``patch_probes`` does.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import logging
import os
import resource
import socket
import stat
import sys
from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np

from draftscope.engine.protocol import ContextSettings, Prompt, SlotTask
from tests.engine_ext.bare_llama import Context, Row, load, rows_of
from tests.engine_ext.harness import GREEDY, TEXTS, Bench, run, token_prompts
from tests.models.rpc_server import RpcServerProcess

_PROMPT = 9
_N_ROUNDS = 20


def _model(path: Path) -> int:
    model = load(path)
    assert model is not None
    return model


def _draft_rows(context: Context, n: int, first: int, outputs: tuple[int, ...]) -> list[Row]:
    hidden = np.sin(0.7 * np.arange(context.n_embd, dtype=np.float32))
    return [replace(row, is_output=i in outputs, hidden=hidden) for i, row in enumerate(rows_of(0, n, first))]


def _bytes_sent(port: int) -> int:
    """Bytes that this process has sent to a port and that have arrived (tcpi_bytes_acked of struct tcp_info)."""
    total = 0
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
                with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                    if connection.getpeername()[1:2] == (port,):
                        facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 200)
                        total += int.from_bytes(facts[120:128], "little")
    return total


def bytes_of_a_decode(path: Path) -> dict[str, object]:
    """Bytes that a decode of one token sends to an RPC server, after others of its shape."""
    with contextlib.closing(RpcServerProcess()) as server:
        bench = Bench()
        bench.load(path, ContextSettings(n_threads=1, use_mtp=False), rpc_servers=(server.name,))
        bench.submit(SlotTask(0, Prompt(), GREEDY, 100, (), True), TEXTS[0])
        for _ in range(3):
            bench.backend.step()
        n_bytes, n_decodes = _bytes_sent(server.port), bench.backend.decode_counts().target
        for _ in range(50):
            bench.backend.step()
        n_decodes = bench.backend.decode_counts().target - n_decodes
        answer = (_bytes_sent(server.port) - n_bytes) / n_decodes
        bench.backend.unload()
    return {"bytes": answer}


def rows_of_the_mtp_layer(path: Path) -> dict[str, object]:
    """Rows of some nodes of the MTP layer in a decode of five tokens, two of them outputs."""
    found: dict[str, int] = {}
    model = _model(path)
    draft = Context(model, target=Context(model), watch=lambda name, n: found.update({name.split("-")[0]: n}))
    draft.keep_hidden_rows(masked=True)
    draft.decode(_draft_rows(draft, 5, 0, outputs=(1, 4)))
    return {name: found[name] for name in ("mtp_attn_pregate", "mtp_attn_out", "mtp_post_ffn", "result_output")}


def drafts(path: Path) -> dict[str, object]:
    """Tokens and probabilities of a run whose catch-up rows ride with the first draft step."""
    prompt = TEXTS[0] if "demo" in path.name else token_prompts(1)[0]
    done = run(path, [prompt], ContextSettings(n_threads=1))
    return {"tokens": done.tokens, "probabilities": done.probabilities(0), "n_drafted": done.results[0].draft_n}


def reused_graphs(path: Path) -> dict[str, object]:
    """The share of decodes that find their graph ready where batches of two or three shapes take turns."""
    model = _model(path)
    target = Context(model, n_seq=2, n_rs_seq=3)
    draft = Context(model, target=target)
    draft.keep_hidden_rows(masked=True)
    cow = Context(model, n_seq=2, unified=True)
    for context in (target, cow):
        context.decode(rows_of(0, _PROMPT))
    for step in range(_N_ROUNDS):
        first = _PROMPT + 2 * step
        target.decode(rows_of(0, 1, first))
        target.decode(rows_of(0, 4, first + 1))
        target.remove_from(0, first + 2)
        draft.decode(_draft_rows(draft, 2, first, outputs=(1,)))
        draft.decode(_draft_rows(draft, 1, first + 2, outputs=(0,)))
        draft.decode(_draft_rows(draft, 1, first + 3, outputs=()))
        draft.remove_from(0, first + 2)
        cow.copy(0, 1)
        cow.decode(rows_of(0, 4, first))
        cow.remove_from(0, 0)
        cow.copy(1, 0)
        cow.remove_from(1, 0)
        cow.decode(rows_of(0, 2, first))
    return {
        "target": target.n_reused / (2 * _N_ROUNDS),
        "draft": draft.n_reused / (3 * _N_ROUNDS),
        "cow": cow.n_reused / (2 * _N_ROUNDS),
    }


def random_batches(path: Path) -> dict[str, object]:
    """A digest of all logits of batches of any shape, with and without outputs, rollbacks, restores, clears between."""
    messages: list[str] = []
    log = llama_cpp.llama_log_callback(lambda _level, text, _data: messages.append(text.decode(errors="replace")))
    llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
    die = np.random.default_rng(7)
    context = Context(_model(path), n_seq=2, n_rs_seq=3)
    digest = hashlib.sha256()
    position, saved = [0, 0], [(0, b"")] * 2
    for _ in range(300):
        seq = int(die.integers(0, 2))
        n = int(die.choice([1, 2, 4, 7, 63, 64, 65, 70], p=[0.4, 0.2, 0.2, 0.1] + [0.025] * 4))
        if position[seq] + n > 240:
            if die.random() < 0.5:
                context.clear()
                position = [0, 0]
            else:
                context.remove_from(seq, 0)
                position[seq] = 0
        kind = int(die.integers(0, 3))  # no row, the last, or all are outputs
        rows = rows_of(seq, n, position[seq])
        context.decode([replace(row, is_output=kind == 2 or (kind == 1 and row is rows[-1])) for row in rows])
        position[seq] += n
        for index in ((), (n - 1,), range(n))[kind]:
            digest.update(context.logits(index).tobytes())
        _step_aside(context, die, seq, position, saved)
    n_reused = context.n_reused
    context.free()
    return {
        "digest": digest.hexdigest(),
        "n_reused": n_reused,
        "is_quiet": not any("match expectation" in text and "not" in text for text in messages),
    }


def _step_aside(
    context: Context, die: np.random.Generator, seq: int, position: list[int], saved: list[tuple[int, bytes]]
) -> None:
    """Now and then go back a token, save a sequence whole, or put back what was saved."""
    chance = die.random()
    if chance < 0.2 and position[seq] > 1 and context.remove_from(seq, position[seq] - 1):
        position[seq] -= 1
    elif chance < 0.3:
        saved[seq] = (position[seq], context.save(seq, 0))
    elif chance < 0.4 and saved[seq][1]:
        assert context.restore(seq, saved[seq][1], 0)
        position[seq] = saved[seq][0]


def decode_after_warmup(path: Path) -> dict[str, object]:
    """Whether a decode equals that of a fresh context when a warm-up, which uses all experts, had its shape."""
    model = _model(path)
    context, fresh = Context(model), Context(model)
    llama_cpp.llama_set_warmup(context.handle, True)
    context.decode(rows_of(0, 2))
    llama_cpp.llama_set_warmup(context.handle, False)
    context.clear()
    found = []
    for one in (context, fresh):
        one.decode(rows_of(0, 3))
        one.decode(rows_of(0, 2, 3))
        found.append(one.logits().tobytes())
    return {"is_right": found[0] == found[1]}


def tokens_of_a_backend_sampler(path: Path) -> dict[str, object]:
    """Tokens that a sampler in the graph draws where batches of two shapes take turns."""
    context = Context(_model(path))
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_dist(5))
    assert llama_cpp.llama_set_sampler(context.handle, 0, chain)
    tokens, position = [], 0
    for _ in range(_N_ROUNDS):
        for n in (1, 3):
            rows = rows_of(0, n, position)
            context.decode([replace(row, is_output=row is rows[-1]) for row in rows])
            position += n
            tokens.append(int(llama_cpp.llama_get_sampled_token_ith(context.handle, n - 1)))
    return {"tokens": tokens}


def decode_without_memory_for_a_small_graph(path: Path) -> dict[str, object]:
    """An RPC server may not grow any more once a model is loaded: is its text that of a server which may?"""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("draftscope.llama").addHandler(handler)
    found = []
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"  # else the server's heap has room that its limit does not count
    with contextlib.closing(RpcServerProcess()) as server:
        for is_limited in (False, True):
            bench = Bench()
            bench.load(path, ContextSettings(n_threads=1, use_mtp=False), rpc_servers=(server.name,))
            if is_limited:
                _let_it_grow(server, 1 << 16)
            bench.submit(SlotTask(0, Prompt(), GREEDY, 20, (), True), tuple(range(5, 65)))
            found.append([(result.tokens, result.error) for result in bench.finish()])
            bench.backend.unload()
    return {"are_equal": found[0] == found[1], "was_refused": any("buffer of size" in line for line in lines)}


def _let_it_grow(server: RpcServerProcess, n_bytes: int) -> None:
    used = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (used + n_bytes, resource.RLIM_INFINITY))


def compute_memory(path: Path) -> dict[str, object]:
    """Bytes of the compute buffers of both contexts after loading, and after prompts of more lengths than are kept."""
    bench = Bench()
    bench.load(path, ContextSettings(n_threads=1, n_slots=4))
    found = [_compute_bytes(bench)]
    for n in (2, 64, 3, 64, 10, 63, 20, 62, 30, 61, 100, 60):
        for slot in range(2):
            bench.submit(SlotTask(slot, Prompt(), GREEDY, 10, (), True), tuple(range(5 + slot, 5 + slot + n)))
            bench.finish()
    found.append(_compute_bytes(bench))
    bench.backend.unload()
    return {"loaded": found[0], "used": found[1]}


def _compute_bytes(bench: Bench) -> int:
    return sum(use.host_bytes + use.device_bytes for use in bench.backend.memory_use() if use.kind == "compute")


def main() -> None:
    """Ask one question."""
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))


if __name__ == "__main__":
    main()
