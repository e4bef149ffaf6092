"""The libraries beneath: ``llama_cpp``'s libllama and our C++ core, loaded together; their log and their facts.

Importing this module loads both; it raises ``EngineError`` (code ENGINE_MISSING) with a sentence when one is missing or
of another version than the core was built for. Nothing else imports ``llama_cpp`` or the extension.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from draftscope.engine.errors import EngineError, ErrorCode

LLAMA_CPP_PYTHON = "0.3.36"
"""The version whose libllama the core is written for; staging functions of others differ."""

_log = logging.getLogger("draftscope.llama")


def _import_core() -> Any:
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # ggml's abort otherwise starts a debugger
    try:
        import llama_cpp
    except (ImportError, RuntimeError, OSError) as error:
        raise EngineError(
            ErrorCode.ENGINE_MISSING,
            f"The package llama-cpp-python could not be loaded: {error}.",
            f"Install llama-cpp-python {LLAMA_CPP_PYTHON}; 'make' in a checkout does.",
        ) from error
    if llama_cpp.__version__ != LLAMA_CPP_PYTHON:
        raise EngineError(
            ErrorCode.ENGINE_MISSING,
            f"llama-cpp-python {llama_cpp.__version__} is installed; this Draftscope needs {LLAMA_CPP_PYTHON}.",
            f"Install it: pip install llama-cpp-python=={LLAMA_CPP_PYTHON}",
        )
    try:
        return importlib.import_module("draftscope.engine._core")
    except ImportError as error:
        raise EngineError(
            ErrorCode.ENGINE_MISSING,
            f"The engine core could not be loaded: {error}.",
            "Build it against the installed llama-cpp-python: 'make' in a checkout does.",
        ) from error


core = _import_core()
"""The extension module."""

_GGML_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_GGML_CONTINUES = 5


class LlamaLog:
    """Joins libllama's log texts to lines and gives them to ``logging``; several threads call it one at a time."""

    def __init__(self) -> None:
        self._open = ""
        self._level = logging.INFO
        self.last_error = ""
        self.is_cancelling = False

    def __call__(self, level: int, text: bytes) -> None:
        """Take a piece of text at a level of ggml's."""
        if level != _GGML_CONTINUES:
            self._level = _GGML_LEVELS.get(level, logging.INFO)
        *lines, self._open = (self._open + text.decode("utf-8", "replace")).split("\n")
        for line in lines:
            if line.strip():
                # A decode that is cancelled ends with errors in libllama's eyes; they are none.
                _log.log(logging.DEBUG if self.is_cancelling else self._level, "%s", line.rstrip())
                if self._level == logging.ERROR:
                    self.last_error = line.strip()


llama_log = LlamaLog()
"""What libllama logs, of the whole process."""

core.set_log_sink(llama_log)


@contextlib.contextmanager
def with_llamas_words() -> Iterator[None]:
    """Add to the hint of a failure what libllama itself logged about it."""
    llama_log.last_error = ""
    llama_log.is_cancelling = False  # a cancel that came while nothing was decoded is over
    try:
        yield
    except EngineError as error:
        if not llama_log.last_error or error.code not in (
            ErrorCode.BAD_FILE,
            ErrorCode.BAD_GRAMMAR,
            ErrorCode.OUT_OF_MEMORY,
        ):
            raise
        hint = f"{error.hint} llama.cpp says: {llama_log.last_error}".strip()
        raise EngineError(error.code, error.message, hint) from error


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device that a model can be put on; sizes in bytes."""

    name: str
    description: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is installed: which libllama, which of our patches it carries, what it lacks, and its devices.

    ``missing_symbols``: without these nothing is drafted; ``missing_family_symbols``: without these chained heads draft
    one token a round, and assistants none. ``rpc_protocol``: major and minor version; (0, 0) without an RPC backend.
    """

    library: str
    version: str
    is_patched: bool
    patches: tuple[str, ...]
    missing_symbols: tuple[str, ...]
    missing_family_symbols: tuple[str, ...]
    rpc_protocol: tuple[int, ...]
    devices: tuple[DeviceFacts, ...]
    system: str


def engine_facts() -> EngineFacts:
    """Ask the loaded library. Initialises its backends, which on broken drivers may end the process: ask in a child."""
    return EngineFacts(
        library=core.library_path(),
        version=core.library_version(),
        is_patched=core.grants_rollback("qwen3next"),
        patches=tuple(core.patches()),
        missing_symbols=tuple(core.missing_symbols()),
        missing_family_symbols=tuple(core.missing_family_symbols()),
        rpc_protocol=tuple(core.rpc_protocol()),
        devices=tuple(DeviceFacts(*device) for device in core.devices()),
        system=core.system_description(),
    )
