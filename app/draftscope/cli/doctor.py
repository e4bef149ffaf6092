"""``draftscope doctor``: what is installed, which devices there are, what is missing, and what to do about it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import draftscope
from draftscope.base import paths, startup
from draftscope.base.units import bytes_text
from draftscope.cli.failure import ExitCode
from draftscope.cli.rpc_option import add_rpc_option
from draftscope.engine.codec import as_plain
from draftscope.engine.errors import EngineError
from draftscope.engine.host_memory import available_bytes
from draftscope.engine.inquiry import ask_engine
from draftscope.engine.rpc import RpcProtocol, RpcServer, ask_servers

_PACKAGES = ("PySide6-Essentials", "pyqtgraph", "numpy", "llama-cpp-python")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``is_needed``: without it Draftscope does not work as a whole."""

    topic: str
    is_ok: bool
    is_needed: bool
    text: str
    todo: str = ""


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("doctor", help="what is installed, which devices there are, what is missing")
    add_rpc_option(parser, "ask a llama.cpp RPC server for its devices, too; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(options: argparse.Namespace) -> int:
    """Look at everything and print it; 1 when something needed is missing."""
    engine, engine_findings = examine_engine()
    servers, server_findings = examine_servers(options.rpc, engine)
    findings = [*examine_python(), *engine_findings, *server_findings, *examine_desktop(), *examine_files()]
    is_well = all(finding.is_ok or not finding.is_needed for finding in findings)
    if options.json:
        print(json.dumps(_as_json(findings, engine, servers, is_well), indent=2))
    else:
        print(_as_text(findings, engine, servers, is_well))
    return int(ExitCode.DONE if is_well else ExitCode.RUN_FAILED)


def examine_python() -> Iterator[Finding]:
    """Python and the packages that Draftscope needs."""
    sentence = startup.check_python_and_pyside()
    text = f"Python {platform.python_version()} at {sys.executable}"
    yield Finding("python", not sentence, True, text, sentence or "")
    for name in _PACKAGES:
        version = _version_of(name)
        if version:
            yield Finding("package", True, True, f"{name} {version}")
        else:
            yield Finding("package", False, True, f"{name} is not installed.", f"Install it: pip install {name}")
    if version := _version_of("pyarrow"):
        yield Finding("package", True, False, f"pyarrow {version}")
    else:
        text = "pyarrow is not installed, so nothing is exported to Parquet."
        yield Finding("package", False, False, text, "Install it: pip install 'draftscope[parquet]'")


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def examine_engine() -> tuple[dict[str, Any] | None, list[Finding]]:
    """The engine's facts (None when it does not run) and what they mean."""
    try:
        facts = ask_engine()
    except EngineError as error:
        notes = "".join(f"\n    {line}" for line in getattr(error, "__notes__", ()))
        return None, [Finding("engine", False, True, error.message + notes, error.hint)]
    _correct_host_memory(facts)
    findings = [Finding("engine", True, True, f"{facts['version']} ({facts['library']})")]
    findings.append(_drafting(facts["missing_symbols"], facts["missing_family_symbols"]))
    if facts["is_patched"]:
        text = f"libllama carries Draftscope's patches: {', '.join(facts['patches']) or '0001, of an older series'}."
        findings.append(Finding("patches", True, False, text))
    else:
        text = "libllama is unpatched: it works, with fewer ways back."
        findings.append(Finding("patches", False, False, text, "'make' in a checkout builds the patched one."))
    return facts, findings


def _drafting(missing: Sequence[str], missing_of_families: Sequence[str]) -> Finding:
    """Whether libllama has what all MTP layers need, and what chained heads and assistants need beside it."""
    if missing:
        text = f"libllama lacks {', '.join(missing)}."
        return Finding("drafting", False, True, text, "Nothing can be drafted with this build.")
    if missing_of_families:
        text = f"libllama lacks {', '.join(missing_of_families)}."
        todo = "Single heads draft; chained heads draft one token a round, and assistants none."
        return Finding("drafting", False, False, text, todo)
    return Finding("drafting", True, True, "libllama has every function that drafting needs.")


def _correct_host_memory(facts: dict[str, Any]) -> None:
    """Say what the system still gives: ggml calls all memory of the CPU free."""
    available = available_bytes()
    for device in facts["devices"]:
        if device["name"] == "CPU" and available is not None:
            device["free_bytes"] = min(available, device["total_bytes"])


def examine_servers(names: Sequence[str], engine: dict[str, Any] | None) -> tuple[list[RpcServer], list[Finding]]:
    """The RPC servers that were asked for and answered, and what is to say about each of them."""
    if engine is None:
        return [], []
    protocol = RpcProtocol(*engine["rpc_protocol"])
    if protocol == (0, 0):
        todo = "Install a llama-cpp-python that was built with CMAKE_ARGS=-DGGML_RPC=ON."
        return [], [Finding("RPC", False, bool(names), "libggml has no RPC: it can use no RPC servers.", todo)]
    servers: list[RpcServer] = []
    findings = [
        Finding("RPC", True, False, f"libggml speaks version {protocol.major}.{protocol.minor} of its protocol.")
    ]
    for name in dict.fromkeys(names):
        try:
            servers += ask_servers([name], protocol)
        except EngineError as error:
            findings.append(Finding("RPC server", False, True, error.message, error.hint))
        else:
            findings.append(Finding("RPC server", True, True, f"{name} answers, in version {servers[-1].version}."))
    return servers, findings


def examine_desktop() -> Iterator[Finding]:
    """What the window needs beside Python packages."""
    missing = startup.missing_system_libraries()
    for sentence in missing:
        yield Finding("system library", False, True, sentence)
    if not missing:
        yield Finding("system library", True, True, "All system libraries that Qt needs are there.")
    no_display = startup.missing_display()
    if no_display:
        yield Finding("display", False, False, no_display, "The command line works without one.")
    else:
        yield Finding("display", True, False, "There is one for the window.")


def examine_files() -> Iterator[Finding]:
    """The bundled model, and the folders that Draftscope writes."""
    model = paths.demo_model()
    if model.is_file():
        yield Finding("demo model", True, True, f"{model} ({bytes_text(model.stat().st_size)})")
    else:
        yield Finding("demo model", False, True, f"The bundled model {model} is missing.", "Install Draftscope again.")
    for topic, folder in (("settings folder", paths.user_data_dir()), ("cache folder", paths.user_cache_dir())):
        nearest = next(place for place in (folder, *folder.parents) if place.exists())
        is_ok = os.access(nearest, os.W_OK)
        yield Finding(topic, is_ok, True, str(folder), "" if is_ok else f"Make {nearest} writable for this user.")


def _as_json(
    findings: Iterable[Finding], engine: dict[str, Any] | None, servers: Sequence[RpcServer], is_well: bool
) -> dict[str, Any]:
    return {
        "is_well": is_well,
        "draftscope": draftscope.__version__,
        "system": platform.platform(),
        "packages": {name: _version_of(name) for name in _PACKAGES},
        "engine": engine,
        "rpc_servers": as_plain(tuple(servers)),
        "findings": [asdict(finding) for finding in findings],
    }


def _as_text(
    findings: Iterable[Finding], engine: dict[str, Any] | None, servers: Sequence[RpcServer], is_well: bool
) -> str:
    lines = [f"Draftscope {draftscope.__version__} on {platform.platform()}", ""]
    for finding in findings:
        mark = "ok" if finding.is_ok else "MISSING" if finding.is_needed else "note"
        lines.append(f"{mark:8}{finding.topic:16}{finding.text}")
        if finding.todo:
            lines.append(f"{'':24}{finding.todo}")
    lines += ["", "devices"]
    for device in engine["devices"] if engine else ():
        memory = f"{bytes_text(device['free_bytes'])} free of {bytes_text(device['total_bytes'])}"
        lines.append(f"{'':8}{device['name']:16}{device['description']}, {memory}")
    for server in servers:
        for number, remote in enumerate(server.devices):
            memory = f"{bytes_text(remote.free_bytes)} free of {bytes_text(remote.total_bytes)}"
            lines.append(f"{'':8}{'RPC':16}device {number} of {server.name}, {memory}")
    if not engine or not engine["devices"]:
        lines.append(f"{'':8}none could be asked for")
    lines += ["", "All is well." if is_well else "Something needed is missing: see the lines above."]
    return "\n".join(lines)
