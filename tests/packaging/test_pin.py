"""One version of llama-cpp-python everywhere: what is built, what is required, what is looked for, what is said."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from draftscope import __version__
from draftscope.engine.library import LLAMA_CPP_PYTHON
from engine_ext.llama import build_wheel

ROOT = Path(__file__).parents[2]
PINNED = f"llama-cpp-python =={build_wheel.VERSION}"


def test_the_engine_expects_the_version_that_is_built() -> None:
    assert build_wheel.VERSION == LLAMA_CPP_PYTHON


def test_the_package_requires_the_version_that_is_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert PINNED in project["build-system"]["requires"]
    assert PINNED in project["project"]["dependencies"]


@pytest.mark.parametrize(
    "file",
    [
        "README.md",
        "ARCHITECTURE.md",
        "engine_ext/CMakeLists.txt",
        "engine_ext/llama/README.md",
        "app/draftscope/engine/architectures.py",
        "resources/models/recipe/requirements.txt",
    ],
)
def test_words_and_files_name_the_version_that_is_built(file: str) -> None:
    named = re.findall(r"llama-cpp-python[ =]*\**(\d+\.\d+\.\d+)", (ROOT / file).read_text())
    assert named
    assert set(named) == {build_wheel.VERSION}


def test_the_changelog_knows_the_version_of_the_program() -> None:
    assert f"## {__version__} " in (ROOT / "CHANGELOG.md").read_text()
