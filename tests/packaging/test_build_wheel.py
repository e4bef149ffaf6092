"""The script that builds llama.cpp, without building it: keys, hashes, patches, cache."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from engine_ext.llama import build_wheel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(folder))
    return folder


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A series of one patch of our own."""
    folder = tmp_path / "patches"
    folder.mkdir()
    (folder / "0001-words.patch").write_text("--- a/words.txt\n+++ b/words.txt\n@@ -2,0 +3 @@\n+three\n")
    monkeypatch.setattr(build_wheel, "PATCHES", folder)
    return folder


def make_sdist(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    sdist = folder / f"llama_cpp_python-{build_wheel.VERSION}.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"llama_cpp_python-{build_wheel.VERSION}/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return sdist


def refuse_to_run(step: str, command: list[str], **options: object) -> None:
    pytest.fail(f"{step} was started: {command}")


def test_that_a_byte_in_a_patch_changes_the_key_of_the_patched_wheel_alone(patches: Path) -> None:
    before = build_wheel.wheel_key(True), build_wheel.wheel_key(False)
    patch = patches / "0001-words.patch"
    patch.write_bytes(patch.read_bytes().replace(b"three", b"threE"))
    after = build_wheel.wheel_key(True), build_wheel.wheel_key(False)
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_that_another_patch_changes_the_key(patches: Path) -> None:
    before = build_wheel.wheel_key(True)
    (patches / "0002-more.patch").write_text("")
    assert build_wheel.wheel_key(True) != before


@pytest.mark.parametrize("name", ["VERSION", "SDIST_SHA256", "CMAKE_ARGS"])
def test_that_what_is_built_and_how_changes_the_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_wheel.wheel_key(False)
    monkeypatch.setattr(build_wheel, name, "other")
    assert build_wheel.wheel_key(False) != before


def test_that_another_processor_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_wheel.wheel_key(False)
    monkeypatch.setattr(build_wheel, "cpu_features", lambda: "abacus")
    assert build_wheel.wheel_key(False) != before


def test_a_source_package_with_another_hash_is_refused_and_deleted(cache: Path) -> None:
    sdist = make_sdist(cache, {"words.txt": "evil\n"})
    with pytest.raises(build_wheel.BuildError, match=r"sha256 [0-9a-f]{64}, expected 832db069"):
        build_wheel.fetch_sdist(cache)
    assert not sdist.exists()


def test_that_a_source_package_that_is_there_is_not_downloaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdist = make_sdist(cache, {"words.txt": "one\n"})
    monkeypatch.setattr(build_wheel, "SDIST_SHA256", hashlib.sha256(sdist.read_bytes()).hexdigest())
    monkeypatch.setattr(build_wheel, "run", refuse_to_run)
    assert build_wheel.fetch_sdist(cache) == sdist


@pytest.mark.parametrize("is_patched", [True, False])
def test_that_the_series_is_applied_to_the_patched_variant_alone(
    patches: Path, cache: Path, is_patched: bool, tmp_path: Path
) -> None:
    sdist = make_sdist(cache, {"words.txt": "one\ntwo\nfour\n"})
    source = build_wheel.unpack(sdist, tmp_path / "source", is_patched)
    words = (source / "words.txt").read_text().split()
    assert words == (["one", "two", "three", "four"] if is_patched else ["one", "two", "four"])


def test_that_patches_apply_in_a_cache_inside_of_another_repository(patches: Path, tmp_path: Path) -> None:
    # git apply leaves out, without a word, files that lie outside of the folder it is called from.
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    sdist = make_sdist(tmp_path / "cache", {"words.txt": "one\ntwo\nfour\n"})
    source = build_wheel.unpack(sdist, tmp_path / "cache" / "source", True)
    assert "three" in (source / "words.txt").read_text()


def test_a_patch_of_a_file_that_is_not_there_is_refused(patches: Path, cache: Path, tmp_path: Path) -> None:
    sdist = make_sdist(cache, {"other.txt": "one\n"})
    with pytest.raises(build_wheel.BuildError, match=r"0001-words\.patch changes words\.txt, which this source"):
        build_wheel.unpack(sdist, tmp_path / "source", True)


def test_a_patch_that_does_not_fit_is_named(patches: Path, cache: Path, tmp_path: Path) -> None:
    (patches / "0001-words.patch").write_text("--- a/words.txt\n+++ b/words.txt\n@@ -2 +2 @@\n-two\n+three\n")
    sdist = make_sdist(cache, {"words.txt": "one\nTWO\n"})
    with pytest.raises(build_wheel.BuildError, match=r"Applying 0001-words\.patch failed"):
        build_wheel.unpack(sdist, tmp_path / "source", True)


def test_that_our_patch_adds_qwen3next_to_the_architectures_that_step_back(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = [patch for patch in build_wheel.patch_files(True) if patch.stem == "0001-native-rollback-for-qwen3next"]
    monkeypatch.setattr(build_wheel, "patch_files", lambda _patched: series)
    lines = [f"// {number}" for number in range(1, 1200)]
    lines[1125] = "        case LLM_ARCH_QWEN35:"
    path = "vendor/llama.cpp/src/llama-arch.cpp"
    files = dict.fromkeys((path, "vendor/llama.cpp/src/llama.cpp"), "\n".join(lines) + "\n")
    source = build_wheel.unpack(make_sdist(cache, files), tmp_path / "source", True)
    assert (source / path).read_text().splitlines()[1125:1128] == [
        lines[1125],
        "        case LLM_ARCH_QWEN3NEXT:",
        "// 1127",
    ]


def test_a_wheel_in_the_cache_is_not_built_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_wheel, "run", refuse_to_run)
    wheels = [cache / "wheels" / build_wheel.wheel_key(is_patched) / "x.whl" for is_patched in (True, False)]
    for wheel in wheels:
        wheel.parent.mkdir(parents=True)
        wheel.touch()
    assert [build_wheel.build(True), build_wheel.build(False)] == wheels


def test_a_build_that_fails_leaves_nothing_under_its_key(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdist = make_sdist(cache, {"words.txt": "one\n"})
    monkeypatch.setattr(build_wheel, "SDIST_SHA256", hashlib.sha256(sdist.read_bytes()).hexdigest())

    def fail(step: str, command: list[str], **options: object) -> None:
        raise build_wheel.BuildError(f"{step} failed.")

    monkeypatch.setattr(build_wheel, "run", fail)
    with pytest.raises(build_wheel.BuildError, match=r"Compiling llama\.cpp failed"):
        build_wheel.build(False)
    assert not list((cache / "wheels").glob("*"))


def test_a_step_that_fails_is_named_with_its_command() -> None:
    with pytest.raises(build_wheel.BuildError, match=r"Sleeping failed: '.* -c exit\(3\)' ended with status 3\."):
        build_wheel.run("Sleeping", [sys.executable, "-c", "exit(3)"])


def test_that_the_script_prints_a_key_and_tells_failures_in_a_sentence(cache: Path) -> None:
    script = ROOT / "engine_ext" / "llama" / "build_wheel.py"
    told = subprocess.run([sys.executable, script, "--key"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == build_wheel.wheel_key(True)
    make_sdist(cache, {"words.txt": "evil\n"})
    told = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (1, "")
    assert "expected 832db069" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("patch", build_wheel.patch_files(True), ids=lambda path: path.stem)
def test_that_each_patch_has_no_context_and_is_explained(patch: Path) -> None:
    lines = patch.read_text().splitlines()
    assert {line[:1] for line in lines} <= {"-", "+", "@"}
    assert f"`{patch.stem}`" in (ROOT / "engine_ext" / "llama" / "README.md").read_text()


def test_that_an_empty_cache_variable_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAFTSCOPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert build_wheel.cache_root() == Path.home() / ".cache" / "draftscope"


def test_that_one_pin_stands_everywhere() -> None:
    stated = [build_wheel.VERSION]
    for name in ("pyproject.toml", "engine_ext/CMakeLists.txt", "engine_ext/llama/README.md"):
        text = (ROOT / name).read_text()
        stated += re.findall(r"llama-cpp-python(?: ==|\s+)(\d+\.\d+\.\d+)", text.replace("\n", " "))
    assert len(stated) >= 4
    assert set(stated) == {build_wheel.VERSION}


def test_that_the_cache_is_where_the_environment_says(cache: Path) -> None:
    assert build_wheel.cache_root() == cache == Path(os.environ["DRAFTSCOPE_CACHE"])
