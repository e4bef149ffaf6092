"""Fixtures with the paths of models: the bundled one, and those that the tests make for themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.models.make_random import cached_models
from tests.models.rpc_server import RpcServerProcess

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """The bundled model."""
    return _ROOT / "resources" / "models" / "draftscope-demo.gguf"


@pytest.fixture(scope="session")
def made_models() -> Path:
    """The folder of all made models."""
    return cached_models(_ROOT / "build")


@pytest.fixture(scope="session")
def made_model(made_models: Path) -> Callable[[str], Path]:
    """Path of a made model by its name, of ``families.MAKERS`` or ``hostile.HOSTILE``."""
    return lambda name: made_models / f"{name}.gguf"


@pytest.fixture(scope="session")
def random_qwen35(made_models: Path) -> Path:
    """Hybrid; one MTP head; rollback by llama.cpp itself."""
    return made_models / "qwen35.gguf"


@pytest.fixture(scope="session")
def random_qwen3next(made_models: Path) -> Path:
    """Hybrid with experts; one MTP head; rollback with our patch only."""
    return made_models / "qwen3next.gguf"


@pytest.fixture(scope="session")
def random_glm4moe(made_models: Path) -> Path:
    """Attention and experts; one MTP head."""
    return made_models / "glm4moe.gguf"


@pytest.fixture(scope="session")
def random_step35(made_models: Path) -> Path:
    """Attention with sliding windows; three chained MTP heads."""
    return made_models / "step35.gguf"


@pytest.fixture(scope="session")
def random_hy_v3(made_models: Path) -> Path:
    """Attention and experts; two chained MTP heads, whose hidden rows are taken before outputs are selected."""
    return made_models / "hy_v3.gguf"


@pytest.fixture(scope="session")
def random_qwen35moe(made_models: Path) -> Path:
    """Hybrid with experts; one MTP head; rollback by llama.cpp itself."""
    return made_models / "qwen35moe.gguf"


@pytest.fixture(scope="session")
def random_gemma4(made_models: Path) -> tuple[Path, Path]:
    """The target, and its MTP head as a second file."""
    return made_models / "gemma4.gguf", made_models / "gemma4-assistant.gguf"


@pytest.fixture(scope="session")
def dense_model(made_models: Path) -> Path:
    """Attention only; no MTP."""
    return made_models / "dense.gguf"


@pytest.fixture(scope="session")
def vocab_only_model(made_models: Path) -> Path:
    """A vocabulary without weights."""
    return made_models / "vocabulary-only.gguf"


@pytest.fixture(scope="session")
def no_tokenizer_model(made_models: Path) -> Path:
    """Weights without a tokenizer."""
    return made_models / "no-tokenizer.gguf"


@pytest.fixture(scope="session")
def mtp_without_tensors_model(made_models: Path) -> Path:
    """qwen35 whose metadata claims an MTP layer that is not there."""
    return made_models / "mtp-without-tensors.gguf"


@pytest.fixture(scope="session")
def draft_only_model(made_models: Path) -> Path:
    """The MTP layers of a qwen35 model, without token embeddings."""
    return made_models / "draft-only.gguf"


@pytest.fixture(scope="session")
def two_mtp_layers_model(made_models: Path) -> Path:
    """qwen35 with two MTP layers, of which llama.cpp drives one."""
    return made_models / "two-mtp-layers.gguf"


@pytest.fixture(scope="session")
def truncated_model(made_models: Path) -> Path:
    """A model whose last kilobyte is missing."""
    return made_models / "truncated.gguf"


@pytest.fixture
def rpc_server() -> Iterator[RpcServerProcess]:
    """llama.cpp's RPC server on the CPU, in a process that is killed at the end."""
    server = RpcServerProcess()
    yield server
    server.close()
