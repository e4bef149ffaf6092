"""What tells a model file from every other, in milliseconds: states of one model are poison to another.

The weights themselves would take a minute to read for a large model. So hashed are what decides the shape of a state
(architecture, layers, widths, vocabulary, the name, shape and type of every tensor), the size of the files, and bytes
of 32 tensors from all over the model, by which models of one shape differ, such as two trainings of the same base.
Name, paths and chat template are left out: they may change without harm to a state.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from draftscope.engine.gguf import GgufFile
from draftscope.engine.model_file import inspect_model, open_model

N_SAMPLES = 32
SAMPLE_BYTES = 4096


def fingerprint(path: str | os.PathLike[str]) -> str:
    """64 hex digits for a model file, all parts of a split one together.

    Raises:
        EngineError: BAD_FILE, as ``inspect_model``.
    """
    facts = inspect_model(path)
    digest = hashlib.sha256()
    shape = (facts.architecture, facts.n_layer, facts.n_embd, facts.n_vocab, facts.size_bytes)
    digest.update(repr(shape).encode())
    with open_model(path) as parts:
        for part in parts:
            for tensor in part.tensors:
                digest.update(repr((tensor.name, tensor.shape, tensor.type_name, tensor.n_bytes)).encode())
        for sample in _samples(parts):
            digest.update(sample)
    return digest.hexdigest()


def _samples(parts: Sequence[GgufFile]) -> list[bytes]:
    tensors = [(part.path, tensor) for part in parts for tensor in part.tensors]
    step = max(1, len(tensors) // N_SAMPLES)
    return [_start(path, tensor.offset, tensor.n_bytes) for path, tensor in tensors[::step]]


def _start(path: Path, offset: int, n_bytes: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(min(n_bytes, SAMPLE_BYTES))
