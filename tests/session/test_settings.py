"""Settings: defaults, bounds, files, recent files."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray
from pytestqt.qtbot import QtBot

from draftscope.session.settings import BY_KEY, MAX_RECENT, ROWS, Settings


@pytest.fixture
def path(tmp_path: Path, qtbot: QtBot) -> Path:
    return tmp_path / "settings.ini"


def test_every_default_is_within_its_own_bounds() -> None:
    for row in ROWS:
        assert row.accept(row.default) == row.default, row.key
        assert row.description, row.key
    assert len(BY_KEY) == len(ROWS)


def test_values_come_back_from_the_file_in_their_types(path: Path) -> None:
    settings = Settings(path)
    settings.set("context/n_slots", 7)
    settings.set("sampling/temperature", 0.25)
    settings.set("model/use_mmap", False)
    settings.set("run/stop", "one\ntwo, three")
    settings.save()
    other = Settings(path)
    assert other.whole("context/n_slots") == 7
    assert other.number("sampling/temperature") == 0.25
    assert other.flag("model/use_mmap") is False
    assert other.text("run/stop") == "one\ntwo, three"


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("context/n_slots", 0, 1),
        ("context/n_slots", 1000, 64),
        ("context/n_slots", "many", 4),
        ("sampling/temperature", float("nan"), 0.8),
        ("context/checkpoint", "magic", "auto"),
        ("window/theme", "dark", "dark"),
    ],
)
def test_values_out_of_bounds_or_of_another_type_are_brought_in(
    path: Path, key: str, value: object, kept: object
) -> None:
    settings = Settings(path)
    settings.set(key, value)  # type: ignore[arg-type]
    assert settings.get(key) == kept


def test_a_damaged_file_gives_the_defaults(path: Path) -> None:
    path.write_text("[context]\nn_slots=banana\n[window]\ntheme=@Variant(broken\n")
    settings = Settings(path)
    assert settings.whole("context/n_slots") == 4
    assert settings.text("window/theme") == "system"


def test_a_change_is_told_once(path: Path) -> None:
    settings = Settings(path)
    told: list[str] = []
    settings.changed.connect(told.append)
    settings.set("run/max_tokens", 99)
    settings.set("run/max_tokens", 99)
    assert told == ["run/max_tokens"]


def test_recent_files_are_few_unique_and_newest_first(path: Path) -> None:
    settings = Settings(path)
    for number in range(MAX_RECENT + 3):
        settings.add_recent(f"/m/{number}.gguf")
    settings.add_recent("/m/5.gguf")
    assert len(settings.recent_files) == MAX_RECENT
    assert settings.recent_files[0] == "/m/5.gguf"
    settings.remove_recent("/m/5.gguf")
    assert "/m/5.gguf" not in settings.recent_files
    settings.save()
    assert Settings(path).recent_files == settings.recent_files
    settings.clear_recent()
    assert settings.recent_files == ()


def test_one_recent_file_comes_back_as_one(path: Path) -> None:
    settings = Settings(path)
    settings.add_recent("/m/a, b.gguf")
    settings.save()
    assert Settings(path).recent_files == ("/m/a, b.gguf",)


def test_a_layout_comes_back_and_a_missing_one_is_empty(path: Path) -> None:
    settings = Settings(path)
    settings.set_layout("docks", QByteArray(b"\x00\x01"))
    settings.save()
    assert Settings(path).layout("docks") == QByteArray(b"\x00\x01")
    assert settings.layout("geometry").isEmpty()


def test_a_draft_model_is_remembered_for_its_model_alone(path: Path) -> None:
    settings = Settings(path)
    settings.set_draft("/m/a.gguf", "/m/a, assistant.gguf")
    settings.set_draft("/m/b.gguf", "/m/b-assistant.gguf")
    settings.save()
    kept = Settings(path)
    assert kept.draft_of("/m/a.gguf") == "/m/a, assistant.gguf"
    assert kept.draft_of("/m/c.gguf") == ""
    kept.set_draft("/m/a.gguf", "")
    assert (kept.draft_of("/m/a.gguf"), kept.draft_of("/m/b.gguf")) == ("", "/m/b-assistant.gguf")
    for number in range(MAX_RECENT):
        kept.set_draft(f"/m/{number}.gguf", "/d.gguf")
    assert kept.draft_of("/m/b.gguf") == ""  # the oldest go
    kept.clear_recent()
    assert kept.draft_of("/m/0.gguf") == ""


def test_draft_models_that_a_file_has_wrong_are_forgotten(path: Path) -> None:
    for text in ("not json", "[1]"):
        path.write_text(f'[recent]\ndrafts="{text}"\n')
        assert Settings(path).draft_of("/m/a.gguf") == ""
