"""The facts of model files in words, and which dropped files can be opened."""

from __future__ import annotations

from pathlib import Path

from draftscope.base.paths import demo_model
from draftscope.engine.model_file import inspect_model
from draftscope.engine.protocol import ContextSettings
from draftscope.window.dropped_files import pick_dropped
from draftscope.window.model_facts import FactRow, model_facts


def rows(path: Path, context: ContextSettings | None = None) -> dict[str, FactRow]:
    """The facts by name."""
    return {row.name: row for row in model_facts(inspect_model(path), context or ContextSettings())}


def test_a_longer_context_or_draft_takes_more_memory_per_slot() -> None:
    short = rows(demo_model(), ContextSettings(n_ctx=512, n_draft_max=1))["Memory per slot"].value
    longer = rows(demo_model(), ContextSettings(n_ctx=2048, n_draft_max=1))["Memory per slot"].value
    deeper = rows(demo_model(), ContextSettings(n_ctx=512, n_draft_max=4))["Memory per slot"].value
    assert len({short, longer, deeper}) == 3


def test_mtp_layers_are_told_with_their_kind_and_type() -> None:
    mtp = rows(demo_model())["MTP layers"]
    assert mtp.tone == "ok"
    assert "Q8_0" in mtp.value


def test_a_model_without_mtp_says_that_tokens_come_one_by_one(dense_model: Path) -> None:
    facts = rows(dense_model)
    assert facts["MTP layers"].value.startswith("none")
    assert facts["MTP layers"].tone == "warn"
    assert facts["Ways back"].value == "kv removal"


def test_what_cannot_run_says_why(vocab_only_model: Path) -> None:
    facts = rows(vocab_only_model)
    assert facts["Cannot run"].tone == "bad"
    assert "vocabulary" in facts["Cannot run"].value


def test_chained_heads_are_counted(random_step35: Path) -> None:
    assert rows(random_step35)["MTP layers"].value.startswith("3, one head for each draft step")


def test_the_first_of_several_models_is_opened_and_the_others_are_told(tmp_path: Path) -> None:
    for name in ("a.txt", "b.gguf", "c.bin"):
        (tmp_path / name).write_bytes(b"GGUF" if name != "a.txt" else b"text")
    picked = pick_dropped(sorted(tmp_path.iterdir()))
    assert picked.model == tmp_path / "b.gguf"
    assert picked.problem is not None
    assert "Of 3 files only b.gguf" in picked.problem.message
    assert pick_dropped([tmp_path / "c.bin"]).model == tmp_path / "c.bin"


def test_folders_and_nothing_say_so(tmp_path: Path) -> None:
    folder = pick_dropped([tmp_path])
    assert folder.problem is not None
    assert "is a folder" in folder.problem.message
    nothing = pick_dropped([])
    assert nothing.problem is not None
    assert nothing.model is None
