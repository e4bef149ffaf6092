"""What is checked before Qt is imported."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from draftscope.base import startup

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Qt's libraries and displays are looked for on Linux")


def test_a_missing_library_is_named_with_the_command_that_installs_it() -> None:
    libraries = {"libc.so.6": "libc6", "libnothing.so.9": "libnothing9", "libnone.so.1": "libnone1"}
    (sentence,) = startup.missing_system_libraries(libraries)
    assert "libnothing.so.9, libnone.so.1" in sentence
    assert sentence.endswith("sudo apt-get install libnothing9 libnone1")
    assert "libc6" not in sentence


def test_nothing_is_said_when_every_library_is_there() -> None:
    assert startup.missing_system_libraries({"libc.so.6": "libc6"}) == ()


def test_that_every_library_that_qt_asks_of_the_system_is_looked_for() -> None:
    # Those of the plug-in for X11 that no other package of the list brings along.
    spec = __import__("importlib.util").util.find_spec("PySide6")
    plugin = Path(spec.submodule_search_locations[0]) / "Qt" / "plugins" / "platforms" / "libqxcb.so"
    listing = subprocess.run(["ldd", plugin], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"^\s(lib(?:xcb-(?:cursor|icccm|keysyms|shape)|xkbcommon-x11)\.so\.\d+)", listing, re.M))
    assert len(needed) == 5
    assert needed <= set(startup.SYSTEM_LIBRARIES)


@pytest.mark.parametrize("pyside", ["6.12.0", "6.12.1", "6.13.0", "7.0.0"])
def test_a_pyside_that_crashes_python_311_is_refused(pyside: str) -> None:
    sentence = startup.check_python_and_pyside((3, 11), pyside)
    assert sentence is not None
    assert f"PySide6 {pyside} crashes Python 3.11" in sentence
    assert "pip install 'PySide6-Essentials>=6.8,<6.12'" in sentence


def test_that_the_same_pyside_is_taken_where_none_is_not_counted() -> None:
    assert startup.check_python_and_pyside((3, 12), "6.12.0") is None


@pytest.mark.parametrize("pyside", ["6.8.0", "6.8.0.2", "6.11.1"])
def test_a_pyside_that_works_is_taken(pyside: str) -> None:
    assert startup.check_python_and_pyside((3, 11), pyside) is None


def test_an_old_pyside_is_refused() -> None:
    assert "6.7.3 is too old" in (startup.check_python_and_pyside((3, 11), "6.7.3") or "")


def test_a_missing_pyside_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_version_of", lambda package: None)
    assert "PySide6 is not installed" in (startup.check_python_and_pyside() or "")


def test_that_no_display_is_noticed() -> None:
    assert "neither DISPLAY nor WAYLAND_DISPLAY" in (startup.missing_display({}) or "")
    assert "neither DISPLAY nor WAYLAND_DISPLAY" in (startup.missing_display({"QT_QPA_PLATFORM": "xcb"}) or "")


def test_that_a_display_that_does_not_answer_is_noticed() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        number = unused.getsockname()[1] - startup._FIRST_X_PORT
        if number < 0:
            pytest.skip("the system gave a port below those of X servers")
        sentence = startup.missing_display({"DISPLAY": f"127.0.0.1:{number}"})
    assert sentence is not None
    assert f"127.0.0.1:{number}" in sentence


def test_that_a_display_that_answers_is_taken() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        number = server.getsockname()[1] - startup._FIRST_X_PORT
        if number < 0:
            pytest.skip("the system gave a port below those of X servers")
        assert startup.missing_display({"DISPLAY": f"127.0.0.1:{number}.0"}) is None


@pytest.mark.parametrize(
    "environment", [{"WAYLAND_DISPLAY": "wayland-0"}, {"QT_QPA_PLATFORM": "offscreen"}, {"DISPLAY": "/tmp/launch/x:0"}]
)
def test_that_other_ways_to_a_screen_are_left_to_qt(environment: dict[str, str]) -> None:
    assert startup.missing_display(environment) is None


def test_that_the_checks_do_not_import_qt() -> None:
    code = (
        "import sys; from draftscope.base import startup as s; s.check_python_and_pyside(); "
        "s.missing_system_libraries(); s.missing_display(); sys.exit('PySide6' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
