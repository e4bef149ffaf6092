"""A child process that aborts as libllama does when one of its checks fails."""

from __future__ import annotations

import os


def main(arguments: list[str]) -> None:
    """Say something and abort."""
    assert not arguments
    os.write(2, b"assertion failed\n")
    os.abort()
