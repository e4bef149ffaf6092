"""The script that builds llama.cpp: its key, its cache, what it refuses, and the patch series. Nothing is compiled."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from engine_ext.llama import build_wheel

LLAMA = Path(build_wheel.__file__).parent
PATCHES = sorted((LLAMA / "patches").iterdir())
HUNK = re.compile(r"@@ -\d+(?:,(?P<removed>\d+))? \+\d+(?:,(?P<added>\d+))? @@.*")

_run = build_wheel.run


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and no command may run."""

    def refuse(step: str, _command: list[str], **_options: object) -> None:
        pytest.fail(f"ran a command: {step}")

    monkeypatch.setattr(build_wheel, "run", refuse)
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def own_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the series that a test may change."""
    folder = shutil.copytree(LLAMA / "patches", tmp_path / "patches")
    monkeypatch.setattr(build_wheel, "PATCHES", folder)
    return folder


def test_one_byte_of_a_patch_changes_the_key_of_the_patched_wheel_alone(own_patches: Path) -> None:
    patched, stock = build_wheel.wheel_key(patched=True), build_wheel.wheel_key(patched=False)
    patch = next(own_patches.glob("*.patch"))
    patch.write_bytes(patch.read_bytes() + b"\n")
    assert build_wheel.wheel_key(patched=True) != patched
    assert build_wheel.wheel_key(patched=False) == stock


def test_another_patch_changes_the_key(own_patches: Path) -> None:
    key = build_wheel.wheel_key(patched=True)
    (own_patches / "0999-another.patch").write_bytes(b"--- a/x\n+++ b/x\n")
    assert build_wheel.wheel_key(patched=True) != key


def test_patched_and_stock_wheels_have_different_keys() -> None:
    assert build_wheel.wheel_key(patched=True) != build_wheel.wheel_key(patched=False)


@pytest.mark.parametrize("constant", ["VERSION", "SDIST_SHA256", "CMAKE_ARGS"])
def test_what_is_built_and_how_is_in_the_key(monkeypatch: pytest.MonkeyPatch, constant: str) -> None:
    key = build_wheel.wheel_key(patched=True)
    monkeypatch.setattr(build_wheel, constant, "another")
    assert build_wheel.wheel_key(patched=True) != key


def test_the_processor_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_wheel, "cpu_features", lambda: "avx2 f16c")
    key = build_wheel.wheel_key(patched=True)
    monkeypatch.setattr(build_wheel, "cpu_features", lambda: "avx2")
    assert build_wheel.wheel_key(patched=True) != key


def test_a_package_with_a_wrong_hash_is_refused_and_deleted(own_cache: Path) -> None:
    sdist = own_cache / f"llama_cpp_python-{build_wheel.VERSION}.tar.gz"
    sdist.write_bytes(b"not what was pinned")
    with pytest.raises(build_wheel.BuildError, match=r"has sha256 [0-9a-f]{64}, expected [0-9a-f]{64}; it was deleted"):
        build_wheel.fetch_sdist(own_cache)
    assert not sdist.exists()


def test_the_pinned_package_is_taken_from_the_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdist = own_cache / f"llama_cpp_python-{build_wheel.VERSION}.tar.gz"
    sdist.write_bytes(b"what was pinned")
    monkeypatch.setattr(build_wheel, "SDIST_SHA256", hashlib.sha256(b"what was pinned").hexdigest())
    assert build_wheel.fetch_sdist(own_cache) == sdist


@pytest.mark.parametrize("patched", [True, False])
def test_a_wheel_with_the_same_key_is_not_built_again(own_cache: Path, patched: bool) -> None:
    wheel = own_cache / "wheels" / build_wheel.wheel_key(patched) / "llama_cpp_python.whl"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    assert build_wheel.build(patched) == wheel


def test_a_build_that_fails_leaves_nothing_under_its_key_and_says_why(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_folder: Path) -> Path:
        raise build_wheel.BuildError("Downloading the sdist failed.")

    monkeypatch.setattr(build_wheel, "fetch_sdist", fail)
    monkeypatch.setattr("sys.argv", ["build_wheel.py"])
    assert build_wheel.main() == 1
    assert capsys.readouterr().err.endswith("Downloading the sdist failed.\n")
    assert not (own_cache / "wheels").exists()


def test_a_step_that_fails_is_named() -> None:
    with pytest.raises(build_wheel.BuildError, match=r"^Compiling failed: 'false' ended with status 1\.$"):
        _run("Compiling", ["false"])


def _made_sdist(folder: Path, text: str) -> Path:
    sdist = folder / f"llama_cpp_python-{build_wheel.VERSION}.tar.gz"
    member = tarfile.TarInfo(f"llama_cpp_python-{build_wheel.VERSION}/vendor/source.cpp")
    member.size = len(text)
    with tarfile.open(sdist, "w:gz") as archive:
        archive.addfile(member, io.BytesIO(text.encode()))
    return sdist


def test_patches_are_applied_to_the_patched_tree_alone(
    tmp_path: Path, own_patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(own_patches)
    own_patches.mkdir()
    patch = "--- a/vendor/source.cpp\n+++ b/vendor/source.cpp\n@@ -1,0 +2 @@\n+second\n"
    (own_patches / "0001-a-line.patch").write_text(patch)
    sdist = _made_sdist(tmp_path, "first\nthird\n")
    monkeypatch.setattr(build_wheel, "run", _run)
    patched = build_wheel.unpack(sdist, tmp_path / "patched", patched=True)
    stock = build_wheel.unpack(sdist, tmp_path / "stock", patched=False)
    assert (patched / "vendor" / "source.cpp").read_text() == "first\nsecond\nthird\n"
    assert (stock / "vendor" / "source.cpp").read_text() == "first\nthird\n"


def test_a_patch_that_does_not_apply_ends_the_build_with_its_name(
    tmp_path: Path, own_patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_wheel, "run", _run)
    shutil.rmtree(own_patches)
    own_patches.mkdir()
    patch = "--- a/vendor/source.cpp\n+++ b/vendor/source.cpp\n@@ -1 +1 @@\n-one version\n+patched\n"
    (own_patches / "0000-of-another-version.patch").write_text(patch)
    with pytest.raises(build_wheel.BuildError, match=r"^Applying 0000-of-another-version\.patch failed: "):
        build_wheel.unpack(_made_sdist(tmp_path, "another version\n"), tmp_path / "source", patched=True)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_patch_is_a_diff_without_context_on_the_vendored_source(patch: Path) -> None:
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.patch", patch.name)
    left = {"-": 0, "+": 0}
    n_hunks = 0
    for line in patch.read_text().splitlines():
        if not any(left.values()) and line.startswith(("--- a/", "+++ b/")):
            assert line[6:].startswith("vendor/llama.cpp/")
        elif hunk := HUNK.fullmatch(line):
            assert not any(left.values()), "the hunk before is shorter than it says"
            left = {"-": int(hunk["removed"] or 1), "+": int(hunk["added"] or 1)}
            n_hunks += 1
        else:
            assert left.get(line[:1], 0) > 0, f"neither a removed nor an added line of its hunk: {line!r}"
            left[line[:1]] -= 1
    assert n_hunks and not any(left.values())


def test_patches_are_numbered_in_their_order() -> None:
    assert [int(patch.name[:4]) for patch in PATCHES] == list(range(len(PATCHES)))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_patch_is_described_with_a_test_that_exists(patch: Path) -> None:
    row = next(line for line in (LLAMA / "README.md").read_text().splitlines() if line.startswith(f"| `{patch.stem}`"))
    file, test = re.search(r"`(tests/\S+\.py)`: `(test_\w+)`", row).groups()  # type: ignore[union-attr]
    assert f"def {test}(" in (LLAMA.parents[1] / file).read_text()
