"""What a desktop needs to know of Draftscope: the texts of its menu entry and of its file types, and where they go.

Follows the desktop entry, icon theme and shared MIME info specifications of freedesktop.org. All places lie in the
user's data folder, so nothing here needs another user's rights.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from string import Template
from xml.sax.saxutils import escape

from draftscope.base.paths import resource
from draftscope.trace.tracefile.schema import APPLICATION_ID

MODEL_TYPE = "application/x-gguf"
TRACE_TYPE = "application/x-draftscope-trace"

_ENTRY = Template("""\
[Desktop Entry]
Type=Application
Version=1.1
Name=Draftscope
GenericName=Speculative decoding inspector
Comment=See what multi-token prediction does in llama.cpp
Exec=$command %f
Icon=draftscope
Terminal=false
Categories=Development;
Keywords=GGUF;llama.cpp;MTP;speculative;LLM;
MimeType=$types;
StartupNotify=true
StartupWMClass=draftscope
""")

_MIME_PACKAGE = Template("""\
<?xml version="1.0" encoding="UTF-8"?>
<mime-info xmlns="http://www.freedesktop.org/standards/shared-mime-info">
  <mime-type type="$model_type">
    <comment>GGUF model</comment>
    <icon name="draftscope"/>
    <magic priority="60">
      <match type="string" offset="0" value="GGUF"/>
    </magic>
    <glob pattern="*.gguf"/>
  </mime-type>
  <mime-type type="$trace_type">
    <comment>Draftscope trace</comment>
    <icon name="draftscope"/>
    <sub-class-of type="application/vnd.sqlite3"/>
    <magic priority="60">
      <match type="string" offset="0" value="SQLite format 3\\0">
        <match type="big32" offset="68" value="$application_id"/>
      </match>
    </magic>
    <glob pattern="*.dscope"/>
  </mime-type>
</mime-info>
""")


@dataclass(frozen=True, slots=True)
class DesktopFile:
    """A file of the installation: where it goes, and its bytes."""

    path: Path
    content: bytes


def data_home() -> Path:
    """``$XDG_DATA_HOME``; where that is unset, or not absolute as the specification demands, ``~/.local/share``."""
    folder = Path(os.environ.get("XDG_DATA_HOME", ""))
    return folder if folder.is_absolute() else Path.home() / ".local" / "share"


def desktop_files(command: list[str], home: Path) -> list[DesktopFile]:
    """All files under the data folder ``home``, for a program that ``command`` starts.

    Raises:
        FileNotFoundError: the program was installed without its icons.
        ValueError: the command cannot be written into a desktop entry.
    """
    contents = (
        desktop_entry(command).encode(),
        mime_package().encode(),
        resource("icons", "draftscope.svg").read_bytes(),
        resource("icons", "draftscope-256.png").read_bytes(),
    )
    return [DesktopFile(path, content) for path, content in zip(desktop_paths(home), contents, strict=True)]


def desktop_paths(home: Path) -> list[Path]:
    """Where the files go: menu entry (named as the window tells the desktop), file types, icons."""
    icons = home / "icons" / "hicolor"
    return [
        home / "applications" / "draftscope.desktop",
        home / "mime" / "packages" / "draftscope.xml",
        icons / "scalable" / "apps" / "draftscope.svg",
        icons / "256x256" / "apps" / "draftscope.png",
    ]


def desktop_entry(command: list[str]) -> str:
    """The menu entry's text.

    Raises:
        ValueError: an argument holds a control character, or the program's path an equals sign; the Exec key of an
            entry can carry neither. Or a path is not UTF-8, as the entry has to be.
    """
    if "=" in command[0]:
        raise ValueError(f"{command[0]} holds an equals sign.")
    if "%" in command[0]:
        # GLib 2.74 looks for the program before it undoes the doubling of percent signs, and drops the entry.
        command = ["/usr/bin/env", *command]
    line = " ".join(quoted(argument) for argument in command)
    return _ENTRY.substitute(command=line, types=f"{MODEL_TYPE};{TRACE_TYPE}")


def mime_package() -> str:
    """The text of the package of file types: GGUF models and traces, by content first and then by name."""
    return _MIME_PACKAGE.substitute(
        model_type=escape(MODEL_TYPE), trace_type=escape(TRACE_TYPE), application_id=f"0x{APPLICATION_ID:08x}"
    )


def quoted(argument: str) -> str:
    """An argument as the Exec key wants it.

    Three rules lie over each other: within double quotes a backslash stands before quotes, backticks, dollars and
    backslashes; a percent sign, which would start a field code, is doubled; then every backslash is
    doubled once more, since the value is a string and strings have escapes of their own.

    Raises:
        ValueError: the argument holds a control character.
    """
    if any(ord(character) < 32 or ord(character) == 127 for character in argument):
        raise ValueError(f"{argument!r} holds a control character.")
    escaped = "".join(f"\\{character}" if character in '"`$\\' else character for character in argument)
    return '"' + escaped.replace("%", "%%").replace("\\", "\\\\") + '"'
