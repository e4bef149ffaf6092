"""Writes the trace file of a run while it goes on, with a header from which the run can be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from draftscope.cli.failure import UsageError
from draftscope.cli.plan import Plan
from draftscope.cli.run_summary import settings_of
from draftscope.engine.codec import as_plain
from draftscope.engine.events import Records
from draftscope.engine.probes import SideArray
from draftscope.engine.protocol import LogLine, MemoryUse, ModelReport, Prompt, SlotResult
from draftscope.engine.run_header import model_file_facts, run_header
from draftscope.trace.errors import TraceError
from draftscope.trace.tracefile import TraceWriter


class TraceRecorder:
    """A trace writer that lets a run go on when the file cannot be written any more; ``error`` then says why."""

    def __init__(self, writer: TraceWriter) -> None:
        self.error: TraceError | None = None
        self._writer = writer

    def append(self, records: Records) -> None:
        """Write records."""
        with self._keeping_error():
            self._writer.append(records)

    def append_arrays(self, arrays: Iterable[SideArray]) -> None:
        """Write what probes measured."""
        with self._keeping_error():
            self._writer.append_arrays(arrays)

    def add_pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Write the bytes of tokens."""
        with self._keeping_error():
            self._writer.add_pieces(pieces)

    def add_log(self, line: LogLine) -> None:
        """Write a line of the engine's log."""
        with self._keeping_error():
            self._writer.add_log([(line.t_ns, line.level, line.text)])

    def add_memory(self, t_ns: int, memory: Iterable[MemoryUse]) -> None:
        """Write how much memory was in use at a moment."""
        with self._keeping_error():
            self._writer.add_memory((t_ns, use.kind, use.host_bytes, use.device_bytes) for use in memory)

    def add_result(self, index: int, prompt: Prompt, result: SlotResult) -> None:
        """Write the result of a task, with the prompt that it started from."""
        with self._keeping_error():
            self._writer.add_results([{"prompt": index, "prompt_content": as_plain(prompt)} | as_plain(result)])

    def close(self) -> None:
        """End the file."""
        with self._keeping_error():
            self._writer.close()

    @contextlib.contextmanager
    def _keeping_error(self) -> Iterator[None]:
        try:
            yield
        except TraceError as error:
            self.error = self.error or error


@contextlib.contextmanager
def recording(
    path: Path | None, plan: Plan, model: ModelReport, *, with_text: bool = True
) -> Iterator[TraceRecorder | None]:
    """A recorder for the run, or None where no trace is asked for. Closed whatever happens in between.

    Raises:
        UsageError: the file cannot be written.
    """
    if path is None:
        yield None
        return
    header = run_header(model, settings_of(plan)) | model_file_facts(plan.model.path, plan.model.draft_path)
    try:
        writer = TraceWriter(path, header, with_text=with_text)
    except TraceError as error:
        raise UsageError(str(error), "Choose another file for --trace.") from error
    recorder = TraceRecorder(writer)
    recorder.add_memory(header["clock"]["monotonic_ns"], model.memory)
    try:
        yield recorder
    finally:
        recorder.close()
