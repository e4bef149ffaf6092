"""Writes the trace file of a run while it goes on, with a header from which the run can be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import draftscope
from draftscope.cli.failure import WrongUse
from draftscope.cli.plan import Plan
from draftscope.cli.run_summary import settings_of
from draftscope.engine.events import Records
from draftscope.engine.protocol import ModelReport, SlotResult, as_plain
from draftscope.trace.tracefile import TraceError, TraceWriter


class TraceRecorder:
    """A trace writer that collects the results of the tasks for its end."""

    def __init__(self, writer: TraceWriter, plan: Plan) -> None:
        self._writer = writer
        self._plan = plan
        self._results: list[dict[str, Any]] = []

    def append(self, records: Records) -> None:
        """Write records."""
        self._writer.append(records)

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Write the bytes of tokens."""
        self._writer.add_pieces(pieces)

    def add_result(self, prompt: int, result: SlotResult) -> None:
        """Keep the result of a task with the prompt that it started from."""
        plain = {"prompt": prompt, "prompt_content": as_plain(self._plan.prompts[prompt])}
        self._results.append(plain | as_plain(result))

    def close(self) -> None:
        """Write the results and end the file."""
        self._writer.add_results(self._results)
        self._writer.close()


@contextlib.contextmanager
def recording(path: Path | None, plan: Plan, model: ModelReport) -> Iterator[TraceRecorder | None]:
    """A recorder for the run, or None where no trace is asked for. Closed whatever happens in between.

    Raises:
        WrongUse: the file cannot be written.
    """
    if path is None:
        yield None
        return
    header = {
        "program": f"draftscope {draftscope.__version__}",
        "engine": model.engine,
        "model": as_plain(model),
        "settings": settings_of(plan),
    }
    try:
        writer = TraceWriter(path, header)
    except (OSError, TraceError) as error:
        raise WrongUse(f"The trace {path} cannot be written: {error}", "Name another file.") from error
    recorder = TraceRecorder(writer, plan)
    try:
        yield recorder
    finally:
        recorder.close()
