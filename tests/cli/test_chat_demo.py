"""``draftscope chat demo`` on the real engine, through a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftscope.cli.failure import ExitCode

CHAT = [sys.executable, "-m", "draftscope.cli.main", "chat", "demo"]
LONG = ("--max-tokens", "1900", "--ignore-eos")


def _turns(lines: str, *options: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*CHAT, "--max-tokens", "48", "--json", *options], input=lines, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == ExitCode.DONE, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_three_turns_an_edit_of_the_first_and_another_answer(tmp_path: Path) -> None:
    kept = tmp_path / "talk.json"
    lines = "Quote Psalm 23:1.\nQuote Genesis 1:1.\nWhat does the Python function read do?\n"
    lines += "/edit 1 Quote Job 3:3.\n/regenerate\n"
    one, two, three, edited, again = _turns(lines, "--save", str(kept))
    assert all(turn["text"] and turn["draft_n"] > 0 for turn in (one, two, three, edited, again))
    roles = [message["role"] for message in three["messages"]]
    assert roles == ["user", "assistant"] * 3
    assert one["n_prompt"] < two["n_prompt"] < three["n_prompt"]
    assert [message["content"] for message in edited["messages"]] == ["Quote Job 3:3.", edited["text"]]
    assert again["messages"][0] == edited["messages"][0]
    assert again["text"] != edited["text"]
    assert json.loads(kept.read_text())["messages"] == again["messages"]
    (fresh,) = _turns("Quote Job 3:3.\n")
    assert fresh["tokens"] == edited["tokens"]


def test_drafting_changes_no_answer() -> None:
    lines = "Quote Psalm 23:1.\nQuote Genesis 1:1.\n"
    plain, drafted = (_turns(lines, "--temp", "0", *options) for options in (("--no-mtp",), ()))
    assert [turn["tokens"] for turn in drafted] == [turn["tokens"] for turn in plain]
    assert plain[0]["draft_n"] == 0 < drafted[0]["draft_n"]


def test_a_grammar_forms_every_answer() -> None:
    turns = _turns("Who?\nAnd who else?\n", "--grammar", 'root ::= "Moses" | "Aaron"')
    assert {turn["text"] for turn in turns} <= {"Moses", "Aaron"}
    assert len(turns) == 2


class Terminal:
    """A chat at a terminal of its own."""

    def __init__(self, *options: str) -> None:
        self._terminal, end = pty.openpty()
        environment = os.environ | {"TERM": "dumb"}
        self.process = subprocess.Popen([*CHAT, *options], stdin=end, stdout=end, stderr=end, env=environment)
        os.close(end)
        self.seen = ""

    def wait_for(self, text: str, limit_s: float = 60.0) -> None:
        """Read until this text has come after all that was waited for before."""
        if not self._comes(text, limit_s):
            raise AssertionError(f"{text!r} did not come; there was {self.seen!r}.")

    def interrupt(self, text: str) -> None:
        """Send SIGINT until this text comes: one that arrives just before Python waits for input is noticed late."""
        for _ in range(20):
            self.process.send_signal(signal.SIGINT)
            if self._comes(text, 1.0):
                return
        raise AssertionError(f"{text!r} did not come; there was {self.seen!r}.")

    def _comes(self, text: str, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while text not in self.seen:
            if not select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))[0]:
                return False
            self.seen += os.read(self._terminal, 4096).decode("utf-8", "replace")
        self.seen = self.seen.partition(text)[2]
        return True

    def write(self, line: str) -> None:
        """Type a line."""
        os.write(self._terminal, f"{line}\n".encode())

    def close(self) -> None:
        """End what still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    shown = Terminal(*LONG)
    yield shown
    shown.close()


def test_ctrl_c_stops_the_answer_and_not_the_program(terminal: Terminal) -> None:
    terminal.wait_for("> ")
    terminal.write("Quote Psalm 23:1.")
    terminal.wait_for("And ")  # the answer comes as it is generated
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("stopped]")
    terminal.wait_for("> ")
    terminal.interrupt("/quit ends the program")
    terminal.write("/nonsense")
    terminal.wait_for("There is no command /nonsense.")
    terminal.write("/stats")
    terminal.wait_for("stopped\r\n")
    terminal.write("/quit")
    assert terminal.process.wait(20) == ExitCode.DONE


def test_ctrl_d_ends_the_program(terminal: Terminal) -> None:
    terminal.wait_for("> ")
    os.write(terminal._terminal, b"\x04")
    assert terminal.process.wait(20) == ExitCode.DONE
