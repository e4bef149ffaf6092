"""Checks before Qt is imported: it ends the whole process, with a misleading message, when a library is missing."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import socket
import sys
from collections.abc import Mapping

SYSTEM_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-shape.so.0": "libxcb-shape0",
}
"""Shared libraries that Qt loads, and the Debian package that has each."""

_INSTALL_PYSIDE = "pip install 'PySide6-Essentials>=6.8,<6.12'"
_FIRST_X_PORT = 6000


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def missing_packages(libraries: Mapping[str, str] = SYSTEM_LIBRARIES) -> tuple[str, ...]:
    """Debian packages of the libraries that cannot be loaded; empty when all is there or this is not Linux."""
    if sys.platform != "linux":
        return ()
    return tuple(package for library, package in libraries.items() if not _can_load(library))


def missing_system_libraries(libraries: Mapping[str, str] = SYSTEM_LIBRARIES) -> tuple[str, ...]:
    """Nothing, or one sentence that names what is missing and the command that installs it."""
    packages = missing_packages(libraries)
    if not packages:
        return ()
    names = ", ".join(library for library, package in libraries.items() if package in packages)
    command = f"sudo apt-get install {' '.join(packages)}"
    return (f"The window needs system libraries that are not installed: {names}. On Debian: {command}",)


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_python_and_pyside(python: tuple[int, int] | None = None, pyside: str | None = None) -> str | None:
    """A sentence when this Python and this PySide6 do not go together, else None. The arguments are for tests.

    PySide6 6.12.0 gives back None once too often: on Python 3.11, where None is counted, live plotting ends the
    process within seconds.
    """
    python = python or sys.version_info[:2]
    version = pyside or _version_of("PySide6-Essentials") or _version_of("PySide6")
    if version is None:
        return f"PySide6 is not installed, so there is no window. Install it: {_INSTALL_PYSIDE}"
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers >= (6, 12) and python < (3, 12):
        return (
            f"PySide6 {version} crashes Python {python[0]}.{python[1]} within seconds of live plotting. "
            f"Install an older one: {_INSTALL_PYSIDE}"
        )
    if numbers < (6, 8):
        return f"PySide6 {version} is too old. Install a newer one: {_INSTALL_PYSIDE}"
    return None


def missing_display(environment: Mapping[str, str] | None = None) -> str | None:
    """A sentence when there is no screen to open a window on, else None.

    A display that is named but does not answer counts as none: Qt would end the process over it.
    """
    environment = os.environ if environment is None else environment
    platform = environment.get("QT_QPA_PLATFORM", "")
    is_drawn_elsewhere = bool(platform) and not platform.startswith(("xcb", "wayland"))
    if sys.platform != "linux" or environment.get("WAYLAND_DISPLAY") or is_drawn_elsewhere:
        return None
    display = environment.get("DISPLAY")
    if not display:
        return "There is no display (neither DISPLAY nor WAYLAND_DISPLAY is set), so no window can be opened."
    if not _answers(display):
        return f"The display {display} (from DISPLAY) does not answer, so no window can be opened."
    return None


def _answers(display: str) -> bool:
    """Whether an X server takes connections at ``[host]:number[.screen]``. A name of another form is left to Qt."""
    host, _, rest = display.rpartition(":")
    number = rest.partition(".")[0]
    if not number.isdigit():
        return True
    if host in ("", "unix"):
        path = f"/tmp/.X11-unix/X{number}"
        return any(_connects(socket.AF_UNIX, address) for address in (path, f"\0{path}"))
    if "/" in host:  # a socket of its own, such as XQuartz has
        return True
    try:
        socket.create_connection((host.strip("[]"), _FIRST_X_PORT + int(number)), timeout=2).close()
    except (OSError, OverflowError):
        return False
    return True


def _connects(family: int, address: str) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        return connection.connect_ex(address) == 0
