"""Where the program finds what it brings along, and where it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.base import paths


def test_that_the_bundled_model_is_a_gguf_file() -> None:
    with paths.demo_model().open("rb") as file:
        assert file.read(4) == b"GGUF"


def test_that_an_installed_program_reads_its_own_resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "draftscope"
    (package / "resources").mkdir(parents=True)
    monkeypatch.setattr(paths, "_PACKAGE", package)
    assert paths.resource("icons", "run.svg") == package / "resources" / "icons" / "run.svg"


def test_that_a_checkout_reads_the_resources_at_its_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path / "app" / "draftscope")
    assert paths.resource("prompts") == tmp_path / "resources" / "prompts"


def test_that_folders_of_the_user_follow_xdg_and_are_not_made_by_asking(own_user_folders: Path) -> None:
    assert paths.user_data_dir() == own_user_folders / "xdg_data_home" / "draftscope"
    assert paths.user_cache_dir() == own_user_folders / "xdg_cache_home" / "draftscope"
    assert not paths.user_data_dir().exists()
