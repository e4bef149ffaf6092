"""Programs of the system that tests need."""

from __future__ import annotations

import shutil

import pytest


def required_tool(name: str) -> str:
    """Where a program is. On Debian, where ``make test`` installs all of them, a missing one fails the test.

    Elsewhere nobody can be asked for a package of that name, so the test is skipped.
    """
    found = shutil.which(name)
    if found is not None:
        return found
    if shutil.which("dpkg-query") is not None:
        pytest.fail(f"{name} is not installed: run 'packaging/system_packages.sh test'")
    pytest.skip(f"{name} is not installed")
