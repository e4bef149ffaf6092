"""What an export is made from: a fixed view of a trace that may go on growing."""

from __future__ import annotations

from typing import Any

import numpy as np

from draftscope.engine.events import Kind
from draftscope.trace.acceptance import DEFINITIONS
from draftscope.trace.export.layout import PROBE, ByKind
from draftscope.trace.json_text import without_text
from draftscope.trace.trace import Trace

OTHER_NAMES = {
    "draft_n": {"llama.cpp": "draft_n", "vLLM": "spec_decode_num_draft_tokens"},
    "draft_n_accepted": {"llama.cpp": "draft_n_accepted", "vLLM": "spec_decode_num_accepted_tokens"},
    "round": {"vLLM": "spec_decode_num_drafts counts those with a draft"},
    "tokens_per_second": {"llama.cpp": "predicted_per_second"},
}
"""What figures are called elsewhere, for readers of files; counts there are sums over rounds."""


class Source:
    """The records of a trace by kind as they were at one moment, and what is told beside them.

    Attributes:
        records: views, in order of arrival; what probes measured is among them.
        probes: what was measured of restores, ``PROBE_DTYPE``, in order of arrival; a view.
        arrays: side arrays of the probes.
        pieces: of the trace; may go on growing.
        with_text: whether prompts, outputs, token ids and what they stand for are written.
        n_records: how many records there are, of all kinds, without those of probes.
        n_rows: records and results of probes.
        t_zero_ns: start of the first record; 0 without records.
    """

    def __init__(self, trace: Trace, *, with_text: bool) -> None:
        self.probes = trace.store.probes
        self.records: ByKind = {kind: trace.store.kind(kind) for kind in Kind} | {PROBE: self.probes}
        self.arrays = trace.store.arrays()
        self.pieces = trace.pieces
        self.with_text = with_text
        self.n_rows = sum(len(records) for records in self.records.values())
        self.n_records = self.n_rows - len(self.probes)
        starts = [int(records["t_start_ns"].min()) for records in self.records.values() if len(records)]
        self.t_zero_ns = min(starts, default=0)
        self._trace = trace
        self._n_missing = trace.store.n_missing

    def slots(self) -> list[int]:
        """Slots that have records, rising; the engine track first."""
        return sorted({slot for records in self.records.values() for slot in np.unique(records["slot"]).tolist()})

    def n_of_slot(self, slot: int) -> int:
        """Records and results of probes of a slot."""
        return sum(int(np.count_nonzero(records["slot"] == slot)) for records in self.records.values())

    def about(self) -> dict[str, Any]:
        """What is known of the run, in JSON types; without text where that was asked for."""
        header, results = self._trace.header, self._trace.results
        return {
            "program": "Draftscope",
            "header": header if self.with_text else without_text(header),
            "definitions": DEFINITIONS,
            "other_names": OTHER_NAMES,
            "results": results if self.with_text else without_text(results),
            "has_text": self.with_text,
            "is_complete": self._trace.is_complete,
            "n_records": self.n_records,
            "n_missing_records": self._n_missing,
            "n_probes": len(self.probes),
            "clock": "monotonic",
            "t_zero_ns": self.t_zero_ns,
        }
