"""``draftscope doctor``: findings, exit codes, and an engine that dies while it is asked."""

from __future__ import annotations

import copy

import pytest

from draftscope.base import startup
from draftscope.cli import doctor
from draftscope.cli.failure import ExitCode
from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.inquiry import ask_engine
from tests.cli.conftest import Command
from tests.models.rpc_server import RpcServerProcess

FACTS = {
    "library": "/lib/libllama.so",
    "version": "1",
    "is_patched": True,
    "patches": ["0001-one", "0002-another"],
    "missing_symbols": [],
    "missing_family_symbols": [],
    "rpc_protocol": [7, 0],
    "devices": [{"name": "CPU", "description": "a processor", "total_bytes": 2**31, "free_bytes": 2**31}],
    "system": "x",
}


@pytest.fixture
def _well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ask_engine", lambda: copy.deepcopy(FACTS))
    monkeypatch.setattr(doctor, "available_bytes", lambda: 2**30)
    monkeypatch.setattr(startup, "missing_system_libraries", lambda: [])


@pytest.mark.usefixtures("_well")
def test_all_is_well_where_nothing_is_missing(command: Command) -> None:
    told = command("doctor")
    assert told.exit_code == ExitCode.DONE
    assert "CPU" in told.out
    assert "1.00 GiB free of 2.00 GiB" in told.out
    assert "patches: 0001-one, 0002-another." in told.out
    assert told.out.endswith("All is well.\n")


@pytest.mark.usefixtures("_well")
def test_findings_come_as_json(command: Command) -> None:
    output = command("doctor", "--json").json
    assert output["is_well"]
    assert output["engine"]["library"] == FACTS["library"]
    assert output["engine"]["devices"][0]["free_bytes"] == 2**30
    assert {finding["topic"] for finding in output["findings"]} >= {"python", "package", "engine", "demo model"}


@pytest.mark.usefixtures("_well")
def test_something_needed_that_is_missing_fails_with_what_to_do(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "libxcb-cursor.so.0 is missing; install it: apt-get install libxcb-cursor0"
    monkeypatch.setattr(startup, "missing_system_libraries", lambda: [sentence])
    told = command("doctor")
    assert told.exit_code == ExitCode.RUN_FAILED
    assert sentence in told.out


@pytest.mark.usefixtures("_well")
def test_an_unpatched_library_is_only_a_note(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ask_engine", lambda: FACTS | {"is_patched": False})
    told = command("doctor")
    assert told.exit_code == ExitCode.DONE
    assert "unpatched" in told.out


@pytest.mark.usefixtures("_well")
def test_functions_that_only_some_families_need_are_a_note(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = FACTS | {"missing_family_symbols": ["llama_get_ctx_other"]}
    monkeypatch.setattr(doctor, "ask_engine", lambda: facts)
    told = command("doctor")
    assert told.exit_code == ExitCode.DONE
    (finding,) = [line for line in told.out.splitlines() if "llama_get_ctx_other" in line]
    assert finding.startswith("note")
    assert "assistants none" in told.out


def test_an_engine_that_is_missing_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise EngineError(ErrorCode.ENGINE_MISSING, "There is no llama-cpp-python.", "Install it.")

    monkeypatch.setattr(doctor, "ask_engine", refuse)
    told = command("doctor")
    assert told.exit_code == ExitCode.RUN_FAILED
    assert "There is no llama-cpp-python." in told.out
    assert "Install it." in told.out


@pytest.mark.usefixtures("_well")
def test_the_devices_of_a_server_are_listed_when_asked_for(command: Command, rpc_server: RpcServerProcess) -> None:
    assert rpc_server.name not in command("doctor").out
    told = command("doctor", "--rpc", rpc_server.name)
    assert told.exit_code == ExitCode.DONE
    assert f"{rpc_server.name} answers, in version 7.0.0." in told.out
    assert f"device 0 of {rpc_server.name}, " in told.out
    (server,) = command("doctor", "--rpc", rpc_server.name, "--json").json["rpc_servers"]
    assert server["name"] == rpc_server.name
    assert server["devices"][0]["total_bytes"] > 0


@pytest.mark.usefixtures("_well")
def test_a_server_that_is_asked_for_and_missing_fails_beside_one_that_answers(
    command: Command, rpc_server: RpcServerProcess
) -> None:
    told = command("doctor", "--rpc", "127.0.0.1:1", "--rpc", rpc_server.name)
    assert told.exit_code == ExitCode.RUN_FAILED
    assert "There is no RPC server at 127.0.0.1:1: Connection refused." in told.out
    assert f"{rpc_server.name} answers" in told.out


@pytest.mark.usefixtures("_well")
def test_a_library_without_rpc_is_a_note_unless_a_server_is_asked_for(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "ask_engine", lambda: copy.deepcopy(FACTS) | {"rpc_protocol": [0, 0]})
    assert command("doctor").exit_code == ExitCode.DONE
    told = command("doctor", "--rpc", "127.0.0.1:1")
    assert told.exit_code == ExitCode.RUN_FAILED
    assert "libggml has no RPC" in told.out


def test_an_engine_that_aborts_takes_nothing_with_it() -> None:
    with pytest.raises(EngineError, match=r"signal 6 \(SIGABRT\)") as caught:
        ask_engine("tests.cli.aborting_child")
    assert caught.value.code is ErrorCode.ENGINE_DIED
    assert caught.value.__notes__ == ["assertion failed"]


def test_the_real_engine_names_its_devices() -> None:
    facts = ask_engine()
    assert any(device["name"] == "CPU" for device in facts["devices"])
    assert facts["missing_symbols"] == []
    assert facts["rpc_protocol"] == [7, 0]


@pytest.mark.parametrize(("version", "is_ok"), [("26.0.1", True), (None, False)])
def test_parquet_is_told_but_not_needed(monkeypatch: pytest.MonkeyPatch, version: str | None, is_ok: bool) -> None:
    monkeypatch.setattr(doctor, "_version_of", lambda name: version if name == "pyarrow" else "1")
    (found,) = [finding for finding in doctor.examine_python() if "pyarrow" in finding.text]
    assert (found.is_ok, found.is_needed) == (is_ok, False)
    assert ("draftscope[parquet]" in found.todo) is not is_ok
