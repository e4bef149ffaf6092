"""The fingerprint tells models apart that only their weights tell apart, and not copies of one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from draftscope.engine.errors import EngineError
from draftscope.engine.fingerprint import fingerprint
from draftscope.engine.gguf import open_gguf


def test_a_copy_under_another_name_has_the_same_fingerprint(demo_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "other name.gguf"
    shutil.copy(demo_model, copy)
    assert fingerprint(copy) == fingerprint(demo_model)
    assert len(fingerprint(copy)) == 64


def test_other_weights_in_the_same_shape_have_another_fingerprint(demo_model: Path, tmp_path: Path) -> None:
    tuned = tmp_path / "tuned.gguf"
    shutil.copy(demo_model, tuned)
    with open_gguf(tuned) as file:
        first = file.tensors[0]
    with tuned.open("r+b") as data:
        data.seek(first.offset)
        before = data.read(1)
        data.seek(first.offset)
        data.write(bytes([before[0] ^ 1]))
    assert fingerprint(tuned) != fingerprint(demo_model)


def test_what_is_no_model_has_none(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(EngineError):
        fingerprint(path)
