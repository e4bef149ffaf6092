"""Trace files for tests, whole ones and such as no writer makes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from draftscope.engine.events import Records
from draftscope.engine.probes import ArrayKind, SideArray, empty_probes
from draftscope.trace.tracefile import TraceWriter
from tests.trace.synthetic import PIECES, make_records

HEADER = {"program": "draftscope test", "settings": {"n_slots": 4, "stop": ["END"]}, "prompt": "a secret prompt"}
RESULT = {"slot": 2, "text": "a secret text", "tokens": [101], "stop": "max_tokens", "draft_n": 7}
LOG = [(5, "info", "a secret line"), (6, "error", "another one")]
MEMORY = [(5, "keys", 4096, 1 << 40), (6, "keys", 8192, 0)]


def write(path: Path, records: Records | None = None, *, with_text: bool = True, n_parts: int = 7) -> Path:
    """A whole file with something of everything."""
    with TraceWriter(path, HEADER, with_text=with_text) as writer:
        for part in np.array_split(make_records(20) if records is None else records, n_parts):
            writer.append(part)
        writer.add_pieces(PIECES)
        writer.add_results([RESULT])
        writer.add_log(LOG)
        writer.add_memory(MEMORY)
        writer.append_arrays(make_arrays())
    return path


def make_arrays() -> list[SideArray]:
    """Two probes with arrays of every kind."""
    random, arrays = np.random.default_rng(3), []
    for t_start_ns in (1000, 2000):
        result = empty_probes(1)
        result["t_start_ns"], result["slot"], result["restored_top"], result["restored_rms"] = t_start_ns, 1, 101, 0.5
        arrays += [
            SideArray(t_start_ns, ArrayKind.RESULT, result),
            SideArray(t_start_ns, ArrayKind.ROWS, random.random((3, 64), np.float32)),
            SideArray(t_start_ns, ArrayKind.FINGERPRINTS, random.integers(0, 99, (5, 2))),
            SideArray(t_start_ns, ArrayKind.DRAFT_TOKENS, random.integers(0, 99, (3, 4), np.int32)),
            SideArray(t_start_ns, ArrayKind.TOP_TOKENS, random.integers(0, 99, 6, np.int32)),
            SideArray(t_start_ns, ArrayKind.TOP_LOGITS, random.random((3, 6), np.float32)),
            SideArray(t_start_ns, ArrayKind.TOP_PROBABILITIES, random.random((3, 6), np.float32)),
            SideArray(t_start_ns, ArrayKind.LAYERS, random.random((4, 2, 2))),
        ]
    return arrays


def alter(path: Path, *statements: str) -> Path:
    """Do to a file what no writer does."""
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path
