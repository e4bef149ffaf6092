"""``draftscope run --rpc`` on the real engine and a server of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from draftscope.cli.failure import ExitCode
from draftscope.engine.events import Kind
from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile import read_trace
from tests.models.rpc_server import RpcServerProcess

GREEDY = ("--slots", "4", "--max-tokens", "48", "--temp", "0", "--json")


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "draftscope.cli.main", "run", "demo", *arguments]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(*arguments), capture_output=True, text=True, timeout=120)


def test_a_run_on_a_server_gives_the_tokens_of_the_cpu(rpc_server: RpcServerProcess) -> None:
    local = json.loads(_run(*GREEDY).stdout)
    for more in ((), ("--no-mtp",), ("--checkpoint", "device"), ("--in-process",)):
        done = _run(*GREEDY, *more, "--rpc", rpc_server.name)
        assert done.returncode == ExitCode.DONE, done.stderr
        output = json.loads(done.stdout)
        assert [slot["tokens"] for slot in output["slots"]] == [slot["tokens"] for slot in local["slots"]], more
        assert rpc_server.name in output["model"]["devices"][0]
        assert output["settings"]["model"]["rpc_servers"] == [rpc_server.name]


def test_a_server_that_is_not_there_fails_the_run_and_is_named() -> None:
    done = _run(*GREEDY, "--rpc", "127.0.0.1:1")
    assert done.returncode == ExitCode.RUN_FAILED
    assert json.loads(done.stdout)["error"]["code"] == "rpc_failed"
    assert "There is no RPC server at 127.0.0.1:1" in done.stderr.splitlines()[0]


@pytest.mark.parametrize("mode", ["auto", "device"])
def test_a_server_lost_in_a_run_is_named_and_the_trace_is_kept(
    rpc_server: RpcServerProcess, tmp_path: Path, mode: str
) -> None:
    trace = tmp_path / "run.dscope"
    arguments = ("--max-tokens", "1900", "--ignore-eos", "--json", "--checkpoint", mode, "--rpc", rpc_server.name)
    process = subprocess.Popen(
        _command(*arguments, "--trace", str(trace)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline_s = time.monotonic() + 60
        while _n_rounds(trace) < 20 and time.monotonic() < deadline_s:
            time.sleep(0.02)
        rpc_server.kill()
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == ExitCode.ENGINE_DIED
    error = json.loads(out)["error"]
    assert error["code"] == "engine_died"
    assert f"The connection to the RPC server {rpc_server.name} was lost" in error["message"]
    assert error["hint"] == (
        "What was recorded until then is kept in the trace, where one was asked for. Start the server and run it again."
    )
    assert err.splitlines()[0] == f"draftscope: {error['message']}"
    assert _n_rounds(trace) >= 20


def _n_rounds(trace: Path) -> int:
    try:
        return len(read_trace(trace).store.kind(Kind.ROUND))
    except TraceError:
        return 0


def test_help_says_whom_a_server_trusts_and_what_a_lost_one_ends() -> None:
    told = _run("--help").stdout
    assert "only in a network that you trust" in " ".join(told.split())
    assert "a lost RPC server then ends" in " ".join(told.split())
