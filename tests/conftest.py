"""What all tests share: models, an offscreen Qt, user folders of their own, and nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Before anything imports Qt. Tests of a real window start one in a process of its own.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("GGML_NO_BACKTRACE", "1")
# Of other locales than UTF-8 ones Qt complains, in a warning and on stderr.
os.environ["LC_ALL"] = "C.UTF-8"

# Shells start what they put into the background deaf to Ctrl-C, and it stays so in all processes behind.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Built by 'make test'; found here when pytest is called by hand afterwards.
_STOCK_SITE = Path(__file__).resolve().parents[1] / "build" / "stock-site"
if _STOCK_SITE.is_dir():
    os.environ.setdefault("DRAFTSCOPE_STOCK_SITE", str(_STOCK_SITE))

pytest_plugins = ["tests.models.fixtures"]

hypothesis.settings.register_profile("deterministic", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("deterministic")


@pytest.fixture(autouse=True)
def own_user_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings, caches and data of the user who runs the tests are neither read nor written."""
    home = tmp_path_factory.mktemp("home")
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        folder = home / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    return home


def _children() -> set[int]:
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 (an iterator would stay open)
        try:
            found |= {int(pid) for pid in Path(f"/proc/self/task/{task}/children").read_text().split()}
        except OSError:  # the thread has ended meanwhile
            continue
    return found


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a thread or a child process running."""
    threads, children = set(threading.enumerate()), _children()
    yield
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        new_threads = [thread for thread in threading.enumerate() if thread not in threads and thread.is_alive()]
        new_children = _children() - children
        if not new_threads and not new_children:
            return
        time.sleep(0.02)
    names = [thread.name for thread in new_threads] + [_command_of(pid) for pid in new_children]
    pytest.fail(f"left running: {', '.join(names)}")


def _command_of(pid: int) -> str:
    try:
        return f"process {pid}: {Path(f'/proc/{pid}/cmdline').read_bytes().replace(bytes(1), b' ').decode()[:120]}"
    except OSError:
        return f"process {pid}"
