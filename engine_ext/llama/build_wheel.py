"""Build llama-cpp-python once, with our patch series, and keep the wheel in a cache outside the checkout.

The wheel is keyed by everything that decides its content: pinned version and hash of the sdist, every patch, the
CMake flags, the Python platform and the features of this CPU (ggml compiles for the machine it is built on). A wheel
with the same key is never built again.

Run by ``make``; by hand: ``python build_wheel.py`` prints the path of the wheel. Needs pip >= 23, git and a C++17
compiler; standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

VERSION = "0.3.36"
SDIST_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
CMAKE_ARGS = "-DGGML_RPC=ON"
PATCHES = Path(__file__).parent / "patches"


class BuildError(Exception):
    """The wheel could not be built; the message says at which step and what to do."""


def cache_root() -> Path:
    """Folder of the wheels: ``$DRAFTSCOPE_CACHE``, else ``draftscope`` in the user's cache folder."""
    if override := os.environ.get("DRAFTSCOPE_CACHE"):
        return Path(override)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "draftscope"


def cpu_features() -> str:
    """What ``-march=native`` depends on: the CPU's flag list where Linux tells it, else the processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return " ".join(sorted(line.split(":", 1)[1].split()))
    return platform.processor()


def patch_files(patched: bool) -> list[Path]:
    """The series in the order in which it applies; empty for the stock package."""
    return sorted(PATCHES.glob("*.patch")) if patched else []


def wheel_key(patched: bool) -> str:
    """16 hex digits that name one wheel: equal keys mean equal content."""
    digest = hashlib.sha256()
    for part in (VERSION, SDIST_SHA256, CMAKE_ARGS, sysconfig.get_platform(), cpu_features()):
        digest.update(part.encode() + b"\0")
    for patch in patch_files(patched):
        digest.update(patch.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def run(step: str, command: list[str], **options: object) -> None:
    """Run one build step with its output on stderr.

    Raises:
        BuildError: the command failed; names the step.
    """
    result = subprocess.run(command, stdout=sys.stderr, **options)  # type: ignore[call-overload]
    if result.returncode != 0:
        raise BuildError(f"{step} failed: '{' '.join(command)}' ended with status {result.returncode}.")


def fetch_sdist(folder: Path) -> Path:
    """Download the pinned sdist through pip unless it is there, and check its hash.

    Raises:
        BuildError: the download failed, or the file is not the one that was pinned.
    """
    sdist = folder / f"llama_cpp_python-{VERSION}.tar.gz"
    if not sdist.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python"]
        run("Downloading the sdist", [*command, f"llama-cpp-python=={VERSION}", "--dest", str(folder)])
    found = hashlib.sha256(sdist.read_bytes()).hexdigest()
    if found != SDIST_SHA256:
        sdist.unlink()
        raise BuildError(f"{sdist.name} has sha256 {found}, expected {SDIST_SHA256}; it was deleted. Try again.")
    return sdist


def check_targets(patch: Path, source: Path) -> None:
    """Make sure that the files that a patch changes are there: for want of context, git would make them.

    Raises:
        BuildError: names the patch and the file.
    """
    for line in patch.read_text(encoding="utf-8").splitlines():
        if line.startswith("--- a/") and not (source / line.removeprefix("--- a/")).is_file():
            raise BuildError(f"{patch.name} changes {line.removeprefix('--- a/')}, which this source does not have.")


def unpack(sdist: Path, folder: Path, patched: bool) -> Path:
    """Unpack the sdist into ``folder`` and apply the series; returns the source tree.

    Raises:
        BuildError: a patch does not fit.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        # Python 3.11.2 of Debian 12 has no filters; the archive's hash is pinned.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        archive.extractall(folder)
    source = folder / f"llama_cpp_python-{VERSION}"
    for patch in patch_files(patched):
        check_targets(patch, source)
        command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", str(patch.resolve())]
        run(f"Applying {patch.name}", command, cwd=source, env=os.environ | {"GIT_CEILING_DIRECTORIES": str(folder)})
    return source


@contextlib.contextmanager
def only_one_builder(root: Path) -> Iterator[None]:
    """Hold the cache's lock, so that two checkouts never build the same wheel side by side."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(patched: bool = True) -> Path:
    """Return the wheel of the current key, building it if the cache lacks it.

    Args:
        patched: with our series; False builds the stock package with the same flags, for the tests of fewer modes.
    Raises:
        BuildError: a step failed; nothing is left under the key.
    """
    root = cache_root()
    target = root / "wheels" / wheel_key(patched)
    with only_one_builder(root):
        if found := sorted(target.glob("*.whl")):
            return found[0]
        kind = "patched" if patched else "stock"
        print(f"Building the {kind} llama-cpp-python {VERSION} (once, 6 to 15 minutes) ...", file=sys.stderr)
        started = time.monotonic()
        source = unpack(fetch_sdist(root), root / "source", patched)
        staging = root / "staging"
        shutil.rmtree(staging, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--wheel-dir", str(staging)]
        # A fixed build folder lets ccache, where installed, reuse the objects of the other variant.
        command += ["-C", f"build-dir={root / 'objects'}", str(source)]
        run("Compiling llama.cpp", command, env=os.environ | {"CMAKE_ARGS": CMAKE_ARGS})
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        staging.rename(target)
        for folder in (root / "source", root / "objects"):
            shutil.rmtree(folder, ignore_errors=True)
        print(f"Built in {time.monotonic() - started:.0f} s: {target}", file=sys.stderr)
        return next(iter(sorted(target.glob("*.whl"))))


def main() -> int:
    """Print the wheel's path (or its key); 1 with a sentence on stderr when the build failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--stock", action="store_true", help="without our patches")
    parser.add_argument("--key", action="store_true", help="print the key of the wheel and build nothing")
    options = parser.parse_args()
    try:
        print(wheel_key(not options.stock) if options.key else build(not options.stock))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
