"""Renders every panel, every dialog and the whole window, dark and light, with real data, to PNG files.

``python tests/screens/render.py [--out build/screens]``. The native engine runs the bundled demo; the fake engine is
used only for what the native one must not do: die. Prints the pictures' paths. Exit code 1 when something failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(argv: list[str] | None = None) -> int:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screens", help="folder for the pictures")
    parser.add_argument("--scene", action="append", default=[], help="only this scene; may be given several times")
    options = parser.parse_args(argv)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    sys.path.insert(0, str(ROOT))

    from PySide6.QtWidgets import QApplication

    from draftscope.window.appearance import Appearance
    from tests.screens import scenes
    from tests.screens.stage import Stage, check_fonts

    app = QApplication(sys.argv[:1])
    app.setApplicationName("draftscope")
    check_fonts()
    appearance = Appearance(app)
    options.out.mkdir(parents=True, exist_ok=True)
    n_pictures = 0
    with tempfile.TemporaryDirectory() as kept:
        for number, (backend, scene) in enumerate(scenes.SCENES):
            if options.scene and scene.__name__ not in options.scene:
                continue
            stage = Stage(app, appearance, options.out, Path(kept) / f"{number}.ini", backend)
            try:
                scene(stage)
            finally:
                stage.close()
            n_pictures += len(stage.pictures)
            print("\n".join(str(picture) for picture in stage.pictures), flush=True)
    print(f"{n_pictures} pictures in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
