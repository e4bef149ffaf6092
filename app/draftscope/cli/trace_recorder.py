"""Writes the trace file of a run while it goes on, with a header from which the run can be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from draftscope import __version__
from draftscope.cli.failure import UsageError
from draftscope.cli.plan import Plan
from draftscope.cli.run_summary import settings_of
from draftscope.engine.codec import as_plain
from draftscope.engine.events import Records
from draftscope.engine.protocol import ModelReport, Prompt, SlotResult
from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile import TraceWriter


class TraceRecorder:
    """A trace writer that lets a run go on when the file cannot be written any more; ``error`` then says why."""

    def __init__(self, writer: TraceWriter) -> None:
        self.error: TraceError | None = None
        self._writer = writer
        self._results: list[dict[str, Any]] = []

    def append(self, records: Records) -> None:
        """Write records."""
        with self._keeping_error():
            self._writer.append(records)

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Write the bytes of tokens."""
        with self._keeping_error():
            self._writer.add_pieces(pieces)

    def add_result(self, index: int, prompt: Prompt, result: SlotResult) -> None:
        """Keep the result of a task, with the prompt that it started from, for the end of the file."""
        self._results.append({"prompt": index, "prompt_content": as_plain(prompt)} | as_plain(result))

    def close(self) -> None:
        """Write the results and end the file."""
        with self._keeping_error():
            self._writer.add_results(self._results)
        with self._keeping_error():
            self._writer.close()

    @contextlib.contextmanager
    def _keeping_error(self) -> Iterator[None]:
        try:
            yield
        except TraceError as error:
            self.error = self.error or error


@contextlib.contextmanager
def recording(path: Path | None, plan: Plan, model: ModelReport) -> Iterator[TraceRecorder | None]:
    """A recorder for the run, or None where no trace is asked for. Closed whatever happens in between.

    Raises:
        UsageError: the file cannot be written.
    """
    if path is None:
        yield None
        return
    header = {
        "program": f"draftscope {__version__}",
        "engine": model.engine,
        "model": as_plain(model),
        "settings": settings_of(plan),
    }
    try:
        writer = TraceWriter(path, header)
    except TraceError as error:
        raise UsageError(str(error), "Choose another file for --trace.") from error
    recorder = TraceRecorder(writer)
    try:
        yield recorder
    finally:
        recorder.close()
