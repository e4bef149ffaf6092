"""Makes the tiny models of the tests, once for each state of the scripts that make them.

    python -m tests.models.make_random FOLDER

writes all of them into a folder. The tests use ``build/test-models/HASH``, where HASH is of these scripts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tests.models.families import MAKERS
from tests.models.hostile import HOSTILE

_SCRIPTS = ("tiny_tokenizer.py", "made_model.py", "families.py", "hostile.py", "make_random.py")


def make_all(folder: Path) -> None:
    """Write every model into a folder that exists."""
    for name, make in MAKERS.items():
        make().write(folder / f"{name}.gguf")
    for name, write in HOSTILE.items():
        write(folder / f"{name}.gguf")


def cached_models(build: Path) -> Path:
    """The folder with all models below ``build``; makes them when the scripts have changed since.

    Processes that make them at the same time do not disturb each other: whoever renames first wins.
    """
    digest = hashlib.sha256()
    for script in _SCRIPTS:
        digest.update((Path(__file__).parent / script).read_bytes())
    folder = build / "test-models" / digest.hexdigest()[:16]
    if folder.is_dir():
        return folder
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    fresh.mkdir(parents=True)
    make_all(fresh)
    try:
        fresh.rename(folder)
    except OSError:
        shutil.rmtree(fresh)
    return folder


def main() -> None:
    """Write all models into the folder that the command line names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make_all(folder)
    for path in sorted(folder.glob("*.gguf")):
        print(f"{path.stat().st_size:9} {path}")


if __name__ == "__main__":
    main()
