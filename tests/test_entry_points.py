"""What the two scripts do before there is a window."""

from __future__ import annotations

import subprocess
import sys

import pytest

from draftscope import main as module
from draftscope.main import WindowOptions, gui, main


def test_a_console_command_does_not_import_qt() -> None:
    code = (
        "import sys; from draftscope.main import main; main(['--version']);"
        "sys.exit(any(name.startswith(('PySide6', 'pyqtgraph')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("draftscope ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-such-option"], "no option --no-such-option"),
        (["a.gguf", "b.gguf"], "2 were named"),
        (["--exit-after", "soon"], "number of seconds"),
    ],
)
def test_wrong_use_of_the_window_is_told_with_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_a_window_that_cannot_be_opened_says_why_before_qt_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from draftscope.base import startup

    monkeypatch.setattr(startup, "missing_system_libraries", lambda: ("libEGL.so.1 is missing.",))
    monkeypatch.setattr(startup, "missing_display", lambda: "There is no display.")
    assert main([]) == 1
    assert capsys.readouterr().err == "libEGL.so.1 is missing.\nThere is no display.\n"


def test_the_desktop_script_shows_what_is_wrong_in_a_box(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(module, "_show_without_qt", shown.append)
    assert gui(["--nonsense"]) == 1
    assert shown == [capsys.readouterr().err.rstrip("\n")]


def test_files_and_options_reach_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[WindowOptions] = []

    def record(options: WindowOptions) -> int:
        opened.append(options)
        return 0

    monkeypatch.setattr(module, "open_window", record)
    monkeypatch.setattr(module, "_why_no_window", lambda: "")
    assert main(["model.gguf", "--exit-after", "2.5"]) == 0
    assert gui([]) == 0
    assert opened == [WindowOptions("model.gguf", 2.5), WindowOptions()]
