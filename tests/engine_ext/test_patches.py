"""Our patches of llama.cpp, each against libllama alone: right with the patch, and wrong or aborting without it."""

from __future__ import annotations

from draftscope.engine.native import engine_facts
from engine_ext.llama.build_wheel import patch_files


def test_that_the_library_names_its_patches() -> None:
    assert engine_facts().patches == tuple(patch.stem for patch in patch_files(True))
