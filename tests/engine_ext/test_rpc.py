"""Models on an RPC server of their own: a device whose memory is not the host's. The text is that of the CPU."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SlotTask
from draftscope.engine.rpc import RpcProtocol
from draftscope.engine.rpc_connections import ask_before_load
from tests.engine_ext.harness import GREEDY, TEXTS, Bench, PromptLike, run, token_prompts
from tests.models.families import HybridShape, make_hybrid
from tests.models.rpc_server import RpcServerProcess

MODES = tuple(CheckpointMode)
SAVING = (CheckpointMode.COW, CheckpointMode.DEVICE, CheckpointMode.HOST)
TOKENS = [(step * 37) % 190 + 5 for step in range(40)]
FAMILIES = ("demo_model", "random_qwen35", "random_qwen3next")


def settings(**changes: object) -> ContextSettings:
    return ContextSettings(**({"n_threads": 1} | changes))  # type: ignore[arg-type]


def prompts_for(family: str, n_slots: int) -> list[PromptLike]:
    return list(TEXTS[:n_slots]) if family == "demo_model" else token_prompts(n_slots)


@pytest.fixture
def servers() -> Iterator[list[RpcServerProcess]]:
    """Two servers."""
    both = [RpcServerProcess(), RpcServerProcess()]
    yield both
    for server in both:
        server.close()


@pytest.mark.parametrize("n_slots", [1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_that_a_server_writes_the_tokens_of_the_cpu_in_every_mode(
    family: str, n_slots: int, rpc_server: RpcServerProcess, request: pytest.FixtureRequest
) -> None:
    model, prompts = request.getfixturevalue(family), prompts_for(family, n_slots)
    on_cpu = run(model, prompts, settings(use_mtp=False))
    plain = run(model, prompts, settings(use_mtp=False), rpc_servers=(rpc_server.name,))
    assert plain.tokens == on_cpu.tokens
    for mode in MODES:
        drafted = run(model, prompts, settings(checkpoint=mode), rpc_servers=(rpc_server.name,))
        assert drafted.tokens == plain.tokens, mode
        assert mode is CheckpointMode.AUTO or drafted.report.way_back.granted == mode
        assert sum(result.draft_n for result in drafted.results) > 0
        assert drafted.checkpoints.n_fallbacks == 0


@pytest.mark.parametrize("n_slots", [1, 4])
@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, *SAVING])
@pytest.mark.parametrize("family", FAMILIES)
def test_that_a_restore_on_a_server_gives_the_logits_of_before_bit_for_bit(
    family: str, mode: CheckpointMode, n_slots: int, rpc_server: RpcServerProcess, request: pytest.FixtureRequest
) -> None:
    bench = Bench()
    model = request.getfixturevalue(family)
    bench.load(model, settings(n_slots=n_slots, checkpoint=mode), rpc_servers=(rpc_server.name,))
    for n_saved in (1, 17, 36):
        for slot in range(n_slots):
            before, after = bench.backend._engine.logits_after_restore(slot, TOKENS[: n_saved + 4], n_saved)
            assert np.array_equal(np.array(before), np.array(after)), (n_saved, slot)
    bench.backend.unload()


def test_that_auto_times_every_way_back_on_the_server(demo_model: Path, rpc_server: RpcServerProcess) -> None:
    done = run(demo_model, TEXTS, settings(), rpc_servers=(rpc_server.name,))
    assert {way.mechanism for way in done.report.way_back.calibration} == {"rollback", "cow", "device", "host"}
    by_name = {way.mechanism: way for way in done.report.way_back.calibration}
    assert all(way.is_available and way.n_timed for way in by_name.values())


@pytest.mark.parametrize("mode", SAVING)
def test_that_what_is_saved_on_a_server_counts_as_device_memory(
    demo_model: Path, rpc_server: RpcServerProcess, mode: CheckpointMode
) -> None:
    bench = Bench()
    bench.load(demo_model, settings(checkpoint=mode), rpc_servers=(rpc_server.name,))
    for slot, text in enumerate(TEXTS):
        bench.submit(SlotTask(slot, Prompt(), GREEDY, 32, (), True), text)
    bench.finish()
    use = {row.kind: row for row in bench.backend.memory_use()}
    for kind in ("weights", "kv", "recurrent", "draft"):
        assert use[kind].device_bytes > 0, kind
    for kind in ("kv", "recurrent", "draft"):
        assert use[kind].host_bytes == 0, kind
    saved = use["checkpoints"]
    if mode is CheckpointMode.HOST:
        assert (saved.host_bytes > 0, saved.device_bytes) == (True, 0)
    else:  # of a device state, the blob's headers stay in host memory
        assert saved.device_bytes > 100 * saved.host_bytes
    bench.backend.unload()


def test_that_the_report_names_the_devices_of_the_server(demo_model: Path, rpc_server: RpcServerProcess) -> None:
    done = run(demo_model, TEXTS[:1], settings(), max_tokens=4, rpc_servers=(f"localhost:{rpc_server.port}",))
    (device,) = done.report.devices
    assert device.startswith("RPC")
    assert f"({rpc_server.name})" in device
    assert run(demo_model, TEXTS[:1], settings(), max_tokens=4).report.devices == ("CPU",)


def test_that_a_model_is_spread_over_two_servers_and_the_cpu(demo_model: Path, servers: list[RpcServerProcess]) -> None:
    names = tuple(server.name for server in servers)
    on_cpu = run(demo_model, TEXTS, settings(use_mtp=False))
    for devices, mode in (((), CheckpointMode.AUTO), *((("CPU",), mode) for mode in MODES)):
        spread = run(demo_model, TEXTS, settings(checkpoint=mode), rpc_servers=names, devices=devices)
        assert spread.tokens == on_cpu.tokens
        assert len(spread.report.devices) == 2 + len(devices)
        assert all(any(name in device for device in spread.report.devices) for name in names)


@pytest.mark.parametrize("name", ["step35", "gemma4"])
def test_that_chained_heads_and_an_assistant_draft_on_a_server_as_on_the_cpu(
    name: str, made_model: Callable[[str], Path], rpc_server: RpcServerProcess
) -> None:
    files = {"draft_path": str(made_model("gemma4-assistant"))} if name == "gemma4" else {}
    here = run(made_model(name), token_prompts(2), settings(), max_tokens=48, **files)
    there = run(made_model(name), token_prompts(2), settings(), max_tokens=48, rpc_servers=(rpc_server.name,), **files)
    assert there.tokens == here.tokens
    assert [there.drafts(slot) for slot in (0, 1)] == [here.drafts(slot) for slot in (0, 1)]
    memory = {use.kind: use for use in there.report.memory}
    assert memory["kv"].device_bytes > 0
    assert (memory["draft"].device_bytes > 0) == (name == "step35")


def test_that_counts_of_graph_runs_are_those_of_the_cpu(demo_model: Path, rpc_server: RpcServerProcess) -> None:
    rollback = settings(checkpoint=CheckpointMode.ROLLBACK)  # a way that is the same wherever it is measured
    on_cpu = run(demo_model, TEXTS, rollback)
    on_server = run(demo_model, TEXTS, rollback, rpc_servers=(rpc_server.name,))
    assert on_server.counts == on_cpu.counts


def test_that_a_server_may_be_named_while_no_layer_is_put_on_devices(
    demo_model: Path, rpc_server: RpcServerProcess
) -> None:
    on_cpu = run(demo_model, TEXTS[:1], settings())
    asked = run(demo_model, TEXTS[:1], settings(), rpc_servers=(rpc_server.name,), n_gpu_layers=0, use_mmap=False)
    assert asked.tokens == on_cpu.tokens


def test_that_the_room_on_this_machine_does_not_matter_to_a_model_on_a_server(
    demo_model: Path, rpc_server: RpcServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftscope.engine.native.available_bytes", lambda: 1 << 20)
    bench = Bench()
    with pytest.raises(EngineError, match="are free"):
        bench.load(demo_model, settings(), use_mmap=False)
    with pytest.raises(EngineError, match="are free"):
        bench.load(demo_model, settings(), use_mmap=False, n_gpu_layers=0, rpc_servers=(rpc_server.name,))
    bench.load(demo_model, settings(), use_mmap=False, rpc_servers=(rpc_server.name,))
    bench.backend.unload()


def test_that_the_same_server_serves_load_after_load(demo_model: Path, rpc_server: RpcServerProcess) -> None:
    bench = Bench()
    for _ in range(3):
        report = bench.load(demo_model, settings(), rpc_servers=(rpc_server.name, rpc_server.name))
        assert len(report.devices) == 1
        bench.backend.configure(settings(n_slots=2))
    bench.backend.unload()


def test_that_a_server_that_is_gone_between_two_loads_is_named_and_can_come_back(
    demo_model: Path, rpc_server: RpcServerProcess
) -> None:
    bench = Bench()
    bench.load(demo_model, settings(), rpc_servers=(rpc_server.name,))
    bench.backend.unload()
    rpc_server.kill()
    with pytest.raises(EngineError) as caught:
        bench.load(demo_model, settings(), rpc_servers=(rpc_server.name,))
    assert caught.value.code is ErrorCode.RPC_FAILED
    rpc_server.restart()
    bench.load(demo_model, settings(), rpc_servers=(rpc_server.name,))
    bench.submit(SlotTask(0, Prompt(), GREEDY, 4), TEXTS[0])
    assert len(bench.finish()[0].tokens) == 4
    bench.backend.unload()


def test_that_a_server_that_comes_back_with_other_devices_is_refused(
    demo_model: Path, rpc_server: RpcServerProcess
) -> None:
    bench = Bench()
    bench.load(demo_model, settings(), rpc_servers=(rpc_server.name,))
    bench.backend.unload()
    rpc_server.restart(n_devices=2)
    with pytest.raises(EngineError, match="with other devices") as caught:
        bench.load(demo_model, settings(), rpc_servers=(rpc_server.name,))
    assert "Restart the engine" in caught.value.hint


def test_that_more_devices_than_llama_has_room_for_are_refused(demo_model: Path) -> None:
    server = RpcServerProcess(n_devices=16)
    try:
        with pytest.raises(EngineError, match="on 16 devices"):
            Bench().load(demo_model, settings(), rpc_servers=(server.name,))
    finally:
        server.close()


def test_that_a_server_is_free_again_after_a_refused_load(
    demo_model: Path, made_models: Path, rpc_server: RpcServerProcess
) -> None:
    bench = Bench()
    for broken in (made_models / "truncated.gguf", made_models / "vocabulary-only.gguf"):
        with pytest.raises(EngineError):
            bench.load(broken, settings(), rpc_servers=(rpc_server.name,))
    with pytest.raises(EngineError, match="no device named"):
        bench.load(demo_model, settings(), rpc_servers=(rpc_server.name,), devices=("CUDA7",))
    bench.load(demo_model, settings(), rpc_servers=(rpc_server.name,))
    bench.backend.unload()


def test_that_a_library_without_rpc_says_so() -> None:
    with pytest.raises(EngineError, match="built without RPC") as caught:
        ask_before_load(("127.0.0.1:1",), RpcProtocol(0, 0), lambda _fraction, _stage: True)
    assert caught.value.code is ErrorCode.RPC_FAILED
    assert ask_before_load((), RpcProtocol(0, 0), lambda _fraction, _stage: True) == []


def test_that_the_system_watches_the_connection(demo_model: Path, rpc_server: RpcServerProcess) -> None:
    bench = Bench()
    bench.load(demo_model, settings(), rpc_servers=(rpc_server.name,))
    deadline_s = time.monotonic() + 5
    while _keep_alive_options(rpc_server.port) != [(1, 10, 5, 3)]:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    bench.backend.unload()
    assert _keep_alive_options(rpc_server.port) == []


def _keep_alive_options(port: int) -> list[tuple[int, ...]]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208 (an iterator would stay open)
        try:
            if stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
                with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                    if connection.getpeername()[1:2] == (port,):
                        tcp = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                        options = [connection.getsockopt(socket.IPPROTO_TCP, option) for option in tcp]
                        found.append((connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *options))
        except OSError:
            continue
    return found


def test_that_a_cancel_takes_effect_within_a_step(demo_model: Path, rpc_server: RpcServerProcess) -> None:
    bench = Bench()
    bench.load(demo_model, settings(n_slots=4), rpc_servers=(rpc_server.name,))
    for slot, text in enumerate(TEXTS):
        bench.submit(SlotTask(slot, Prompt(), GREEDY, 1000, (), True), text)
    for _ in range(5):
        bench.backend.step()
    bench.backend.cancel(())
    started_s = time.monotonic()
    assert not bench.backend.step()
    assert time.monotonic() - started_s < 1.0
    assert {result.stop for result in bench.backend.take_results()} == {"cancelled"}
    bench.submit(SlotTask(0, Prompt(), GREEDY, 4), TEXTS[0])
    assert bench.finish()[0].tokens == run(demo_model, TEXTS[:1], settings(), max_tokens=4).tokens[0]
    bench.backend.unload()


def test_that_cow_gives_way_to_device_where_its_unified_context_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spare states of cow need 32 MiB more than the server may still take, those of device do not."""
    monkeypatch.setenv(
        "MALLOC_MMAP_THRESHOLD_", "65536"
    )  # else the server's heap has room that its limit does not count
    model = make_hybrid("qwen35", HybridShape(delta_heads=(1, 64, 128))).write(tmp_path / "large-states.gguf")
    expected = run(model, token_prompts(4), settings(use_mtp=False, n_ctx=256), max_tokens=30)
    with contextlib.closing(RpcServerProcess()) as server:
        bench = Bench()
        bench.load(model, settings(n_slots=1, n_ctx=256, checkpoint=CheckpointMode.DEVICE), rpc_servers=(server.name,))
        pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (100 << 20)
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        way = bench.backend.configure(settings(n_slots=4, n_ctx=256, checkpoint=CheckpointMode.COW)).way_back
        for slot, prompt in enumerate(token_prompts(4)):
            bench.submit(SlotTask(slot, Prompt(), GREEDY, 30, (), True), prompt)
        tokens = [result.tokens for result in bench.finish()]
        bench.backend.unload()
    assert (way.asked, way.granted) == (CheckpointMode.COW, "device")
    assert "could not make a context for cow. Next best" in way.why
    assert tokens == expected.tokens
