"""``draftscope desktop``: put Draftscope into this user's menu and make it open GGUF files, or take it out again."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from draftscope.cli.desktop_entries import DesktopFile, data_home, desktop_files, desktop_paths
from draftscope.cli.failure import ExitCode, UsageError

_TOOL_TIMEOUT_S = 60
_NAMES = ("draftscope-gui", "draftscope")

_EPILOG = """\
Everything goes into the user's data folder ($XDG_DATA_HOME, else ~/.local/share). Folders and the indexes that the
desktop keeps of them stay when Draftscope is taken out. Which program opens a file by default is left as it is.
"""


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """A tool of the desktop that reads the folder anew. ``exit_code`` is None where the tool is not installed."""

    tool: str
    exit_code: int | None
    message: str


def add_parser(subparsers: Any) -> None:
    """Declare the command's options."""
    parser = subparsers.add_parser("desktop", help="menu entry, icons and file types for this user", epilog=_EPILOG)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--install", action="store_true", help="write them for the Draftscope that runs this")
    action.add_argument("--uninstall", action="store_true", help="remove what --install wrote")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def run(options: argparse.Namespace) -> int:
    """Install or uninstall and say what was done. Raises what ``failure`` knows how to tell."""
    home = data_home()
    if options.install:
        files = _files(running_command(sys.argv), home)
        for file in files:
            _write(file)
        paths = [file.path for file in files]
    else:
        paths = _remove(desktop_paths(home))
    updates = update_indexes(home) if paths else []
    if options.json:
        word = "installed" if options.install else "removed"
        done = {word: [str(path) for path in paths], "updates": [asdict(update) for update in updates]}
        print(json.dumps({"data_home": str(home)} | done, indent=2))
    else:
        print(_as_text(options.install, paths, updates, home))
    return int(ExitCode.DONE)


def running_command(argv: Sequence[str]) -> list[str]:
    """How to start the window of the installation that runs now: absolute paths, links in them kept.

    The script without a console is preferred, since it shows in a box what keeps the window from opening. It stands
    beside the script that was called, or where this Python puts scripts; else Python itself has to start the package.

    Args:
        argv: the process's arguments, as in ``sys.argv``.
    """
    folders = [Path(sysconfig.get_path("scripts"))]
    called = Path(argv[0]).absolute()
    if called.name in _NAMES:
        folders.insert(0, called.parent)
    for folder in folders:
        for name in _NAMES:
            script = folder / name
            if script.is_file() and os.access(script, os.X_OK):
                return [str(script)]
    return [str(Path(sys.executable).absolute()), "-m", "draftscope"]


def update_indexes(home: Path) -> list[IndexUpdate]:
    """Let the desktop read its folders under ``home`` anew, with those of its tools that are installed."""
    commands = (
        ("update-desktop-database", str(home / "applications")),
        ("update-mime-database", str(home / "mime")),
        ("gtk-update-icon-cache", "--force", "--ignore-theme-index", "--quiet", str(home / "icons" / "hicolor")),
    )
    return [_update(list(command)) for command in commands]


def _files(command: list[str], home: Path) -> list[DesktopFile]:
    try:
        return desktop_files(command, home)
    except ValueError as error:
        message = f"The command {' '.join(command)!r} cannot be written into a desktop entry: {error}"
        raise UsageError(message, "Install Draftscope in a folder with a plainer name.") from error


def _write(file: DesktopFile) -> None:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    # The desktop watches these folders: it must never read half a file.
    part = file.path.with_name(f".{file.path.name}.{os.getpid()}")
    try:
        part.write_bytes(file.content)
        part.replace(file.path)
    finally:
        part.unlink(missing_ok=True)


def _remove(paths: Sequence[Path]) -> list[Path]:
    removed = []
    for path in paths:
        if path.is_file() or path.is_symlink():
            path.unlink()
            removed.append(path)
    return removed


def _update(command: list[str]) -> IndexUpdate:
    tool = command[0]
    if not Path(command[-1]).is_dir():
        return IndexUpdate(tool, 0, "There is nothing to read.")
    if shutil.which(tool) is None:
        return IndexUpdate(tool, None, "It is not installed; the desktop notices by itself, at the latest at login.")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TOOL_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return IndexUpdate(tool, 1, str(error))
    return IndexUpdate(tool, done.returncode, done.stderr.strip())


def _as_text(is_install: bool, paths: Sequence[Path], updates: Sequence[IndexUpdate], home: Path) -> str:
    if not paths:
        return f"Nothing of Draftscope is installed in {home}."
    lines = [f"{'Wrote' if is_install else 'Removed'} {path}" for path in paths]
    for update in updates:
        match update.exit_code:
            case 0:
                lines.append(f"Ran {update.tool}")
            case None:
                lines.append(f"Left out {update.tool}: {update.message}")
            case code:
                lines.append(f"{update.tool} failed with exit code {code}: {update.message}")
    if is_install:
        lines.append("Draftscope is in the menu, and the desktop knows GGUF models and Draftscope traces.")
    return "\n".join(lines)
