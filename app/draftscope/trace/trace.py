"""A whole trace, as files and exports see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from draftscope.trace.pieces import PieceTable
from draftscope.trace.store import TraceStore


@dataclass(slots=True)
class Trace:
    """A run: what it was made with, its records, its tokens' bytes, and the results of its tasks.

    Attributes:
        header: JSON types: program, engine, model, settings, machine; whatever the writer knew.
        results: one dict a task, as the protocol's ``SlotResult`` in plain form.
        is_complete: False when the recording was cut off (the writer died or the machine stopped), or goes on.
        log: lines of the engine and of the session: (t_ns, level, text).
        memory: bytes in use over time: (t_ns, kind, host_bytes, device_bytes).
        missing: sentences on what of the file could not be read.
    """

    header: dict[str, Any] = field(default_factory=dict)
    store: TraceStore = field(default_factory=TraceStore)
    pieces: PieceTable = field(default_factory=PieceTable)
    results: list[dict[str, Any]] = field(default_factory=list)
    is_complete: bool = True
    log: list[tuple[int, str, str]] = field(default_factory=list)
    memory: list[tuple[int, str, int, int]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
