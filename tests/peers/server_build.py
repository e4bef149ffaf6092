"""Builds llama-server from the source package that the pinned llama-cpp-python was built from, once.

The source is unpatched; build type, CMake flags and processor are those of the wheels, so what differs is what drives
the library. The server and its libraries lie in the cache of the wheels, in ``peers/KEY``, and a server with the same
key is never built again. Needs CMake; Ninja and ccache are used where they are installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from pathlib import Path

from engine_ext.llama.build_wheel import (
    CMAKE_ARGS,
    BuildError,
    cache_root,
    fetch_sdist,
    only_one_builder,
    run,
    unpack,
    wheel_key,
)

SERVER = "llama-server"
_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    "-DCMAKE_INSTALL_RPATH=$ORIGIN",
    # Left out: what generates no tokens, and the assets of its page, which would be downloaded.
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)


def server_key() -> str:
    """16 hex digits that name one build: those of the unpatched wheel, and the flags of the server."""
    return hashlib.sha256("\0".join((wheel_key(patched=False), *_FLAGS)).encode()).hexdigest()[:16]


def build_server() -> Path:
    """Return the executable of the current key, building it if the cache lacks it.

    Raises:
        BuildError: a step failed; nothing is left under the key.
    """
    root = cache_root()
    target = root / "peers" / server_key()
    with only_one_builder(root):
        if not (target / SERVER).exists():
            _build(root, target)
    return target / SERVER


def _build(root: Path, target: Path) -> None:
    print(f"Building {SERVER} (once, 5 to 15 minutes) ...", file=sys.stderr)
    started = time.monotonic()
    # The folder of the wheels' source: ccache then takes their objects where it has them.
    source = unpack(fetch_sdist(root), root / "source", patched=False) / "vendor" / "llama.cpp"
    objects = root / "objects"
    shutil.rmtree(objects, ignore_errors=True)
    cmake = _program("cmake")
    if cmake is None:
        raise BuildError("There is no cmake: install it, or run 'make .venv/stamps/app'.")
    generator = ["-G", "Ninja"] if _program("ninja") else []
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(root), "PATH": _search_path()}
    configure = [cmake, "-S", str(source), "-B", str(objects), *generator, *_FLAGS, *CMAKE_ARGS.split()]
    run("Configuring llama.cpp", configure, env=environment)
    compile_it = [cmake, "--build", str(objects), "--target", SERVER, "--parallel", str(os.cpu_count() or 1)]
    run(f"Compiling {SERVER}", ["nice", "-n", "5", *compile_it], env=environment)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    (objects / "bin").rename(target)
    for folder in (root / "source", objects):
        shutil.rmtree(folder, ignore_errors=True)
    print(f"Built in {time.monotonic() - started:.0f} s: {target}", file=sys.stderr)


def _search_path() -> str:
    """The system's programs, then those of this Python environment, which brings a CMake for the core."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))


def _program(name: str) -> str | None:
    return shutil.which(name, path=_search_path())
