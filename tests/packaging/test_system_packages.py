"""The script that installs Debian packages, against a system that is made up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from draftscope.base.startup import SYSTEM_LIBRARIES

SCRIPT = Path(__file__).resolve().parents[2] / "packaging" / "system_packages.sh"


class System:
    """A Debian of our own: which packages are installed, who runs the script, and what apt-get was asked for."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.asked = folder / "asked"
        self.write("dpkg-query", f'grep -qx -- "$3" {folder}/installed && printf installed')
        self.write("apt-get", f'echo "$@" >> {self.asked}')
        self.write("python3", "exit 1")
        self.installed = folder / "installed"
        self.installed.touch()
        self.be("1000")

    def write(self, name: str, code: str) -> None:
        """A program of that name, in shell."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{code}\n")
        path.chmod(0o755)

    def be(self, user: str) -> None:
        """Who runs the script: 0 is root."""
        self.write("id", f"echo {user}")

    def run(self, *purposes: str) -> subprocess.CompletedProcess[str]:
        """Run the script there."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": os.environ.get("HOME", "/")}
        command = ["sh", str(SCRIPT), *purposes]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_that_a_user_is_told_the_command_and_nothing_is_installed(system: System) -> None:
    told = system.run("window")
    assert told.returncode == 1
    command = told.stderr.strip().splitlines()[-1]
    assert command.startswith("    sudo apt-get install ")
    assert set(SYSTEM_LIBRARIES.values()) <= set(command.split())
    assert not system.asked.exists()


def test_that_root_installs_what_is_missing_and_only_that(system: System) -> None:
    system.be("0")
    system.installed.write_text("xvfb\nfluxbox\n")
    told = system.run("test")
    assert told.returncode == 0, told.stderr
    install = system.asked.read_text().splitlines()[-1].split()
    assert install[0] == "install"
    assert "xdotool" in install
    assert not {"xvfb", "fluxbox"} & set(install)


def test_that_nothing_is_done_where_all_is_there(system: System) -> None:
    system.be("0")
    names = ("xvfb", "xdotool", "fluxbox", "desktop-file-utils", "shared-mime-info", "libglib2.0-bin")
    system.installed.write_text("".join(f"{name}\n" for name in names))
    told = system.run("test")
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    assert not system.asked.exists()


def test_that_a_library_renamed_by_a_newer_debian_counts(system: System) -> None:
    names = "".join(f"{name}\n" for name in SYSTEM_LIBRARIES.values() if name != "libglib2.0-0")
    system.installed.write_text(names + "libglib2.0-0t64\nfonts-dejavu-core\n")
    assert system.run("window").returncode == 0


def test_that_another_python_than_debians_brings_its_own_headers(system: System) -> None:
    system.installed.write_text("g++\ngit\nccache\n")
    assert "python3-dev" in system.run("build").stderr
    system.write("python3", "exit 0")
    assert system.run("build").returncode == 0


def test_an_unknown_purpose_is_refused(system: System) -> None:
    told = system.run("dance")
    assert told.returncode == 2
    assert "'dance'" in told.stderr
