"""The entry points: decide between console and window, check what must be checked before Qt is imported, wire, run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from draftscope.window.main_window import MainWindow

WRONG_USE = 2
CANNOT_START = 1

_SWITCH_S = 0.001

DEMO = "demo"
"""The word that stands for the bundled model."""


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """What the window is started with. ``exit_after_s`` ends it by itself, for tests of the installed program."""

    file: str | None = None
    exit_after_s: float | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """The script ``draftscope``: a command of the console, or the window. Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    from draftscope.cli.main import is_command_line, run

    if is_command_line(arguments):
        return run(arguments)
    options = _window_options(arguments)
    if isinstance(options, str):
        print(options, file=sys.stderr)
        return WRONG_USE
    if problem := _why_no_window():
        print(problem, file=sys.stderr)
        return CANNOT_START
    return open_window(options)


def gui(argv: Sequence[str] | None = None) -> int:
    """The script ``draftscope-gui``, started without a console: what is wrong is said in a box if one can be shown."""
    options = _window_options(list(sys.argv[1:] if argv is None else argv))
    problem = options if isinstance(options, str) else _why_no_window()
    if problem:
        print(problem, file=sys.stderr)
        _show_without_qt(problem)
        return CANNOT_START
    assert isinstance(options, WindowOptions)
    return open_window(options)


def open_window(options: WindowOptions) -> int:
    """Open the window, or hand the file to the one that is open already; returns when it is closed."""
    from PySide6.QtWidgets import QApplication

    from draftscope.base.paths import user_data_dir
    from draftscope.window.single_instance import SingleInstance, hand_over, server_name

    data_dir = user_data_dir()
    app = QApplication.instance() or QApplication(["draftscope"])
    assert isinstance(app, QApplication)
    app.setApplicationName("draftscope")
    app.setApplicationDisplayName("Draftscope")
    app.setDesktopFileName("draftscope")
    name = server_name(data_dir)
    file = None if options.file in (None, DEMO) else Path(str(options.file)).expanduser()
    if hand_over(name, file):
        return 0
    instance = SingleInstance(name)
    window = make_window(app, data_dir / "settings.ini")
    instance.asked.connect(window.take_over)
    window.start()
    if file is not None:
        window.open_file(file)
    elif options.file == DEMO:
        window.commands.run_demo()
    if options.exit_after_s is not None:
        from PySide6.QtCore import QTimer

        QTimer.singleShot(round(options.exit_after_s * 1000), window.close)
    code = app.exec()
    instance.close()
    window.session.close()
    return code


def make_window(app: QApplication, settings_path: Path, backend: str = "native") -> MainWindow:
    """Build and wire everything: settings, colours, engine, session, window. The window is not shown yet."""
    from draftscope.base.paths import recordings_dir
    from draftscope.engine.client import make_client
    from draftscope.session.recorder import Recorder
    from draftscope.session.recordings import Recordings
    from draftscope.session.session import Session
    from draftscope.session.settings import Settings
    from draftscope.window.appearance import Appearance
    from draftscope.window.icons import program_icon
    from draftscope.window.main_window import MainWindow

    # The threads that record take the interpreter many times a commit, and would each time wait 5 ms for who draws.
    sys.setswitchinterval(_SWITCH_S)
    settings_path.parent.mkdir(parents=True, exist_ok=True)
    settings = Settings(settings_path)
    appearance = Appearance(app, settings.text("window/theme"))
    recordings = Recordings(recordings_dir(), settings.whole("recording/budget_mib") << 20)
    session = Session(make_client(backend), recorder=Recorder(recordings, settings))
    window = MainWindow(session, settings, appearance)
    app.setWindowIcon(program_icon())
    return window


def _window_options(arguments: list[str]) -> WindowOptions | str:
    """The options of the window, or a sentence that says what is wrong with them."""
    exit_after_s = None
    files = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--exit-after":
            try:
                exit_after_s = float(next(rest, ""))
            except ValueError:
                return "--exit-after needs a number of seconds."
        elif argument.startswith("-") and not Path(argument).exists():
            return f"There is no option {argument}. See 'draftscope --help'."
        else:
            files.append(argument)
    if len(files) > 1:
        return f"The window opens one file, but {len(files)} were named."
    return WindowOptions(files[0] if files else None, exit_after_s)


def _why_no_window() -> str:
    """Why Qt cannot be started, in sentences; '' when nothing speaks against it."""
    from draftscope.base.startup import check_python_and_pyside, missing_display, missing_system_libraries

    problems = [check_python_and_pyside(), *missing_system_libraries(), missing_display()]
    return "\n".join(problem for problem in problems if problem)


def _show_without_qt(problem: str) -> None:
    """A box drawn by Tk, where it is installed and there is a screen: else the words on stderr have to do."""
    try:
        import tkinter as tk
        from tkinter import messagebox

        root = tk.Tk()
    except Exception:  # no Tk, no display: any reason is as good as another
        return
    root.withdraw()
    messagebox.showerror("Draftscope", problem)
    root.destroy()


if __name__ == "__main__":
    sys.exit(main())
