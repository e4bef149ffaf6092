"""What a trace says about its run beside the records: what is needed to repeat it, and to compare it with another."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from draftscope import __version__
from draftscope.engine.codec import as_plain
from draftscope.engine.errors import EngineError
from draftscope.engine.fingerprint import fingerprint
from draftscope.engine.model_file import inspect_model
from draftscope.engine.protocol import ModelReport

_CPU_INFO = Path("/proc/cpuinfo")


def run_header(model: ModelReport, settings: dict[str, Any]) -> dict[str, Any]:
    """Program, engine, model, settings with seeds, machine, and the moment; reads no file of the model's.

    Args:
        settings: JSON types: what was asked for.
    """
    return {
        "program": f"draftscope {__version__}",
        "engine": model.engine,
        "build": {
            "draftscope": __version__,
            "is_patched": model.is_patched,
            "patches": list(model.patches),
            "library": model.library,
        },
        "model": as_plain(model),
        "settings": settings,
        "machine": machine() | {"devices": list(model.devices)},
        "clock": clock(),
    }


def clock() -> dict[str, Any]:
    """One moment on the clock of the records and on that of the day."""
    now_ns = time.time_ns()
    return {
        "monotonic_ns": time.monotonic_ns(),
        "unix_ns": now_ns,
        "utc": datetime.fromtimestamp(now_ns / 1e9, UTC).isoformat(timespec="milliseconds"),
    }


def machine() -> dict[str, Any]:
    """The machine, without its name."""
    return {
        "system": platform.platform(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "n_processors": os.cpu_count() or 0,
        "memory_bytes": _memory_bytes(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        with _CPU_INFO.open(encoding="utf-8", errors="replace") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        return ""


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no such call
        return 0


def model_file_facts(path: str, draft_path: str = "") -> dict[str, Any]:
    """Fingerprint and metadata of a model's files, for the header; empty for what is no file. Reads them: milliseconds.

    Arrays of the metadata (vocabularies) are told by their length.
    """
    facts: dict[str, Any] = {}
    for name, file in (("model_file", path), ("draft_file", draft_path)):
        try:
            if file:
                metadata = dict(inspect_model(file).metadata)
                facts[name] = {"fingerprint": fingerprint(file), "metadata": metadata}
        except (EngineError, OSError):
            continue  # the engine has another name for it, or it is gone by now
    return facts
