"""Where things are: files that come with the program, and the user's folders."""

from __future__ import annotations

from pathlib import Path

import platformdirs

_PACKAGE = Path(__file__).resolve().parents[1]
_APP = "draftscope"


def resource(*parts: str) -> Path:
    """A file or folder that comes with the program.

    Installed it lies in the package; in a checkout, in ``resources`` at its top. The path need not exist.
    """
    installed = _PACKAGE / "resources"
    root = installed if installed.is_dir() else _PACKAGE.parents[1] / "resources"
    return root.joinpath(*parts)


def demo_model() -> Path:
    """The bundled model."""
    return resource("models", "draftscope-demo.gguf")


def user_data_dir() -> Path:
    """The user's folder for settings and traces; not made here."""
    return Path(platformdirs.user_data_dir(_APP, appauthor=False))


def recordings_dir() -> Path:
    """Where the window records runs to, one file a run; not made here."""
    return user_data_dir() / "recordings"


def user_cache_dir() -> Path:
    """The user's folder for what can be made again; not made here."""
    return Path(platformdirs.user_cache_dir(_APP, appauthor=False))
