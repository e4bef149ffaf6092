"""The program as it is started, in a real window on a virtual screen."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tools import required_tool

START = [sys.executable, "-c", "import sys; from draftscope.main import main; sys.exit(main(sys.argv[1:]))"]


@pytest.fixture
def screen() -> Iterator[dict[str, str]]:
    """The environment of a virtual screen."""
    server_program, _ = required_tool("Xvfb"), required_tool("xdotool")
    read, write = os.pipe()
    server = subprocess.Popen(
        [server_program, "-displayfd", str(write), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as pipe:
        number = pipe.readline().strip()
    environment = {name: value for name, value in os.environ.items() if name != "WAYLAND_DISPLAY"}
    yield environment | {
        "DISPLAY": f":{number}",
        "QT_QPA_PLATFORM": "xcb",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    server.terminate()
    server.wait(10)


@pytest.fixture
def start(screen: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts the program on the screen; what still runs after the test is ended."""
    processes: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*START, *arguments], env=screen, stderr=subprocess.PIPE)
        processes.append(process)
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def xdotool(screen: dict[str, str], *arguments: str) -> str:
    """What xdotool answers; '' when it found nothing."""
    result = subprocess.run(["xdotool", *arguments], env=screen, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def window_named(screen: dict[str, str], name: str, limit_s: float = 20.0) -> str:
    """The id of the visible window whose title matches; waits for it."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if found := xdotool(screen, "search", "--onlyvisible", "--name", name):
            return found.splitlines()[0]
        time.sleep(0.05)
    raise AssertionError(f"There is no window named {name!r}.")


def test_the_demo_runs_by_keyboard_and_the_program_ends_cleanly(
    screen: dict[str, str], start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = start()
    window = window_named(screen, "^Draftscope$")
    xdotool(screen, "windowfocus", "--sync", window, "key", "--clearmodifiers", "ctrl+d")
    window_named(screen, "^draftscope-demo.gguf")
    time.sleep(0.5)
    xdotool(screen, "windowfocus", "--sync", window, "key", "--clearmodifiers", "ctrl+q")
    assert process.wait(15) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_a_second_start_hands_over_its_file_and_ends(
    screen: dict[str, str], start: Callable[..., subprocess.Popen[bytes]], demo_model: Path
) -> None:
    first = start()
    window_named(screen, "^Draftscope$")
    assert start(str(demo_model)).wait(15) == 0
    window_named(screen, "^draftscope-demo.gguf")
    assert first.poll() is None


def test_the_window_ends_by_itself_when_told_to(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    assert start("--exit-after", "0.2").wait(20) == 0
