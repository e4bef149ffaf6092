"""``draftscope desktop``: what is written and removed, and that the desktop's own tools agree with it."""

from __future__ import annotations

import configparser
import re
import shutil
import sqlite3
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from draftscope.cli import desktop
from draftscope.cli.desktop_entries import MODEL_TYPE, TRACE_TYPE, data_home, desktop_entry, desktop_paths, quoted
from draftscope.cli.failure import ExitCode
from draftscope.trace.tracefile.schema import APPLICATION_ID
from tests.cli.conftest import Command
from tests.tools import required_tool

NAMESPACE = {"mime": "http://www.freedesktop.org/standards/shared-mime-info"}
AWKWARD = '/opt/My "AI" `tools`/50% \\ $HOME/draftscope-gui'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own, in which somebody else's file lies."""
    folder = tmp_path / "data"
    (folder / "applications").mkdir(parents=True)
    (folder / "applications" / "other.desktop").write_text("[Desktop Entry]\n")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    return folder


@pytest.fixture
def _no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)


def exec_of(entry: str) -> str:
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(entry)
    return parser["Desktop Entry"]["Exec"]


@pytest.mark.usefixtures("_no_tools")
def test_install_writes_entry_types_and_icons_and_says_so(command: Command, home: Path) -> None:
    told = command("desktop", "--install")
    assert told.exit_code == ExitCode.DONE
    written = desktop_paths(home)
    assert [line.removeprefix("Wrote ") for line in told.out.splitlines() if line.startswith("Wrote")] == [
        str(path) for path in written
    ]
    entry = (home / "applications" / "draftscope.desktop").read_text()
    assert f"MimeType={MODEL_TYPE};{TRACE_TYPE};\n" in entry
    assert (home / "icons/hicolor/256x256/apps/draftscope.png").read_bytes().startswith(b"\x89PNG")
    ET.parse(home / "icons/hicolor/scalable/apps/draftscope.svg")
    assert "Left out update-mime-database" in told.out


@pytest.mark.usefixtures("_no_tools")
def test_uninstall_removes_all_that_was_written_and_nothing_else(command: Command, home: Path) -> None:
    before = sorted(path for path in home.rglob("*") if path.is_file())
    command("desktop", "--install")
    told = command("desktop", "--uninstall", "--json")
    assert told.json["removed"] == [str(path) for path in desktop_paths(home)]
    assert sorted(path for path in home.rglob("*") if path.is_file()) == before


@pytest.mark.usefixtures("home")
def test_uninstall_of_nothing_says_so(command: Command) -> None:
    told = command("desktop", "--uninstall")
    assert told.exit_code == ExitCode.DONE
    assert told.out.startswith("Nothing of Draftscope is installed in ")


@pytest.mark.usefixtures("_no_tools")
def test_installing_twice_leaves_one_installation(command: Command, home: Path) -> None:
    first = command("desktop", "--install", "--json").json
    assert command("desktop", "--install", "--json").json == first
    assert len([path for path in home.rglob("*") if path.is_file()]) == len(first["installed"]) + 1


@pytest.mark.parametrize("options", [(), ("--install", "--uninstall")])
@pytest.mark.usefixtures("home")
def test_one_of_install_and_uninstall_is_needed(command: Command, options: tuple[str, ...]) -> None:
    assert command("desktop", *options).exit_code == ExitCode.WRONG_USE


@pytest.mark.usefixtures("_no_tools")
def test_a_folder_that_cannot_be_written_is_named(command: Command, home: Path) -> None:
    (home / "mime").write_text("a file where a folder should be")
    told = command("desktop", "--install")
    assert told.exit_code == ExitCode.RUN_FAILED
    assert str(home / "mime") in told.err


def test_a_tool_that_fails_is_told_and_the_installation_stands(
    command: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("update-desktop-database", "update-mime-database", "gtk-update-icon-cache"):
        script = tmp_path / name
        script.write_text("#!/bin/sh\necho out of ink >&2\nexit 3\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    told = command("desktop", "--install")
    assert told.exit_code == ExitCode.DONE
    assert "update-mime-database failed with exit code 3: out of ink" in told.out
    assert all(path.is_file() for path in desktop_paths(home))


def test_the_data_folder_is_the_default_one_where_the_variable_is_empty_or_relative(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative/folder"):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        assert data_home() == tmp_path / ".local" / "share"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert data_home() == tmp_path / ".local" / "share"


def test_the_script_beside_the_called_one_is_started(tmp_path: Path) -> None:
    for name in ("draftscope", "draftscope-gui"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert desktop.running_command([str(tmp_path / "draftscope")]) == [str(tmp_path / "draftscope-gui")]
    (tmp_path / "draftscope-gui").unlink()
    assert desktop.running_command([str(tmp_path / "draftscope")]) == [str(tmp_path / "draftscope")]


def test_python_starts_the_package_where_there_is_no_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))
    monkeypatch.setattr("sys.executable", "/opt/python/bin/python3")
    assert desktop.running_command(["-m"]) == ["/opt/python/bin/python3", "-m", "draftscope"]


def test_awkward_characters_of_a_path_are_quoted_for_exec() -> None:
    value = exec_of(desktop_entry([AWKWARD]))
    # The reader undoes it in this order: escapes of a string, quotes, field codes.
    as_string = value.replace("\\\\", "\\")
    start = '"/usr/bin/env" "'
    assert as_string.startswith(start) and as_string.endswith('" %f')
    unquoted = re.sub(r'\\(["`$\\])', r"\1", as_string[len(start) : -4])
    assert unquoted.replace("%%", "%") == AWKWARD


def test_each_argument_is_quoted_by_itself() -> None:
    assert exec_of(desktop_entry(["/a b/python", "-m", "draftscope"])) == '"/a b/python" "-m" "draftscope" %f'


@pytest.mark.parametrize("path", ["/opt/new\nline/draftscope", "/opt/a=b/draftscope", "/opt/\udcff/draftscope"])
@pytest.mark.usefixtures("_no_tools")
def test_a_path_that_no_entry_can_carry_is_refused_before_anything_is_written(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(desktop, "running_command", lambda _argv: [path])
    told = command("desktop", "--install")
    assert told.exit_code == ExitCode.WRONG_USE
    assert "cannot be written into a desktop entry" in told.err
    assert not any(file.exists() for file in desktop_paths(home))


def test_quoting_leaves_a_plain_path_readable() -> None:
    assert quoted("/usr/bin/draftscope") == '"/usr/bin/draftscope"'


@pytest.mark.usefixtures("_no_tools")
def test_types_are_known_by_content_and_by_name(command: Command, home: Path) -> None:
    command("desktop", "--install")
    types = ET.parse(home / "mime" / "packages" / "draftscope.xml").getroot().findall("mime:mime-type", NAMESPACE)
    names = {kind.get("type"): kind.find("mime:glob", NAMESPACE) for kind in types}
    assert {kind: glob.get("pattern") for kind, glob in names.items() if glob is not None} == {
        MODEL_TYPE: "*.gguf",
        TRACE_TYPE: "*.dscope",
    }
    matches = [match for kind in types for match in kind.iter(f"{{{NAMESPACE['mime']}}}match")]
    assert [(match.get("offset"), match.get("value")) for match in matches] == [
        ("0", "GGUF"),
        ("0", "SQLite format 3\\0"),
        ("68", f"{APPLICATION_ID:#010x}"),
    ]


def test_the_validator_of_desktop_entries_finds_no_fault(command: Command, home: Path) -> None:
    validator = required_tool("desktop-file-validate")
    command("desktop", "--install")
    done = subprocess.run(
        [validator, str(home / "applications" / "draftscope.desktop")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_desktop_starts_a_program_in_an_awkward_folder_with_the_file(
    command: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gio = required_tool("gio")
    script = tmp_path / AWKWARD.lstrip("/")
    script.parent.mkdir(parents=True)
    started = tmp_path / "started"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$0" "$@" > "{started}.part" && mv "{started}.part" "{started}"\n')
    script.chmod(0o755)
    monkeypatch.setattr(desktop, "running_command", lambda _argv: [str(script)])
    command("desktop", "--install")
    (tmp_path / "my model.gguf").write_bytes(b"GGUF")
    entry = home / "applications" / "draftscope.desktop"
    launched = subprocess.run(
        [gio, "launch", str(entry), str(tmp_path / "my model.gguf")], capture_output=True, text=True, check=False
    )
    assert launched.returncode == 0, launched.stderr
    deadline = time.monotonic() + 20
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert started.read_text().splitlines() == [str(script), str(tmp_path / "my model.gguf")]


def test_the_desktop_knows_models_and_traces_even_without_their_endings(
    command: Command, home: Path, tmp_path: Path
) -> None:
    gio, _ = required_tool("gio"), required_tool("update-mime-database")
    assert [update["exit_code"] for update in command("desktop", "--install", "--json").json["updates"]].count(1) == 0
    (tmp_path / "model").write_bytes(b"GGUF" + bytes(60))
    (tmp_path / "named.gguf").write_bytes(b"GGUF" + bytes(60))
    for name in ("trace", "named.dscope", "plain"):
        with sqlite3.connect(tmp_path / name) as database:
            if name != "plain":
                database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute("CREATE TABLE run (key, value)")
        database.close()
    found = {}
    for name in ("model", "named.gguf", "trace", "named.dscope", "plain"):
        words = [gio, "info", "-a", "standard::content-type", str(tmp_path / name)]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        found[name] = output.split("standard::content-type: ")[1].strip()
    assert (found["model"], found["named.gguf"]) == (MODEL_TYPE, MODEL_TYPE)
    assert (found["trace"], found["named.dscope"]) == (TRACE_TYPE, TRACE_TYPE)
    assert found["plain"] != TRACE_TYPE
    assert (home / "mime" / "application" / "x-gguf.xml").exists()
    command("desktop", "--uninstall")
    assert not (home / "mime" / "application" / "x-gguf.xml").exists()
