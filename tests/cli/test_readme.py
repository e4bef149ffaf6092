"""The README says what the program does: its commands parse, its links lead somewhere, its JSON keys are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from draftscope.cli.main import COMMANDS, make_parser
from tests.cli.conftest import Command

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

LINES = re.findall(r"^(?:\.venv/bin/)?draftscope (\w+.*)$", README, re.MULTILINE)
EXAMPLES = [line for line in LINES if line.split()[0] in COMMANDS]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_is_a_command_line(line: str) -> None:
    arguments = shlex.split(line.split(" > ")[0])
    assert make_parser(arguments[0]).parse_args(arguments).command == arguments[0]


@pytest.mark.parametrize("path", re.findall(r"\]\(((?!http|#)[^)]+)\)", README))
def test_every_link_leads_to_a_file(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("anchor", sorted(set(re.findall(r"\]\(#([^)]+)\)", README))))
def test_every_link_within_leads_to_a_heading(anchor: str) -> None:
    headings = re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    assert anchor in [heading.lower().replace(" ", "-") for heading in headings]


def test_the_keys_of_run_are_those_printed(fake_command: Command) -> None:
    section = README.split("### What `run --json` prints")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE))
    printed = fake_command("run", "fake:model", "--prompt", "a", "--max-tokens", "8", "--json").json
    assert set(rows) == set(printed)
    assert set(re.findall(r"`(\w+)`", rows["slots"])) == set(printed["slots"][0])
