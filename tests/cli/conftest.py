"""The command line as a function, on the native engine or on the scripted one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from draftscope.cli import main
from draftscope.engine.client import make_client


@dataclass(frozen=True, slots=True)
class Told:
    """What a command printed, and how it ended."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


Command = Callable[..., Told]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process: ``command("run", "demo", "--json")``."""

    def run(*arguments: object) -> Told:
        exit_code = main.run([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return Told(exit_code, output.out, output.err)

    return run


@pytest.fixture
def fake_command(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The same on the fake engine, in this process."""

    def make_fake(backend: str, *, in_process: bool) -> Any:
        return make_client("fake:0", in_process=True)

    for name in ("run", "chat", "bench"):
        monkeypatch.setattr(f"draftscope.cli.{name}.make_client", make_fake)
    return command
