"""What a room brings into a process when it is imported: the walls that a list of imports cannot show."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "app" / "draftscope"


def loaded_by(*modules: str) -> set[str]:
    """Names of all modules in a fresh interpreter that imported these."""
    code = f"import {', '.join(modules)}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_that_a_trace_opens_with_nothing_of_the_engine_but_the_records() -> None:
    loaded = loaded_by("draftscope.trace.tracefile", "draftscope.trace.acceptance", "draftscope.trace.export.chrome")
    of_engine = {name for name in loaded if name.startswith("draftscope.engine.")}
    assert of_engine == {"draftscope.engine.events", "draftscope.engine.probes"}
    assert not {"llama_cpp", "PySide6", "pyqtgraph"} & loaded


@pytest.mark.parametrize("command", ["run", "info", "export", "doctor", "desktop"])
def test_that_no_command_loads_qt_or_the_library_in_its_own_process(command: str) -> None:
    loaded = loaded_by("draftscope.main", f"draftscope.cli.{command}")
    assert not {"llama_cpp", "draftscope.engine._core", "PySide6", "pyqtgraph"} & loaded


def test_that_every_panel_is_under_the_contract_of_independence() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (listed,) = (contract["modules"] for contract in contracts if contract["type"] == "independence")
    files = (PACKAGE / "panels").glob("*.py")
    panels = {path.stem for path in files if re.search(r"^class \w+\(.*\bPanel\)", path.read_text(), re.MULTILINE)}
    assert {f"draftscope.panels.{name}" for name in panels} == set(listed)


def test_that_only_the_engine_names_the_extension() -> None:
    # import-linter sees no imports of what is compiled.
    files = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if "._core" in path.read_text()}
    assert files == {"engine"}
