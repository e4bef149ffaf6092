"""Reading a trace file, wherever it comes from: everything in it is checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from draftscope.trace.errors import TraceCancelled
from draftscope.trace.pieces import PieceTable
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile.database import opened
from draftscope.trace.tracefile.lock import is_being_recorded
from draftscope.trace.tracefile.source import Source

CUT_OFF = "The recording was cut off: what came in its last tenth of a second, and how its tasks ended, may be missing."


def read_trace(
    path: Path | str,
    progress: Callable[[float], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """Read a trace file, also one whose recording was cut off, and one that is being recorded.

    The file is not changed, nor what lies beside it. Of a damaged one as much is read as can be; ``Trace.missing`` says
    what could not.

    Args:
        progress: called with the fraction of the records that have been read, in [0, 1].
        cancelled: asked now and then.
    Raises:
        TraceError: there is no such file, it is no trace, nothing of it can be read, or a newer version wrote it.
        TraceCancelled: ``cancelled`` said so.
    """
    path = Path(path)
    with opened(path, cancelled) as database:
        database.execute("BEGIN")
        source = Source(database)
        trace = _read(source, progress, cancelled)
        database.execute("ROLLBACK")
    if not trace.is_complete and not is_being_recorded(path):
        trace.missing.append(CUT_OFF)
    return trace


def _read(source: Source, progress: Callable[[float], object] | None, cancelled: Callable[[], bool] | None) -> Trace:
    header, results = source.run_and_results()
    trace = Trace(header=header, results=results)
    trace.is_complete = source.is_complete
    trace.pieces = PieceTable(source.pieces())
    trace.log, trace.memory = source.log(), source.memory()
    n_all = max(source.n_records(), 1)

    def done(n: int) -> None:
        if cancelled is not None and cancelled():
            raise TraceCancelled
        if progress is not None:
            progress(min(n / n_all, 1.0))

    for records in source.records(done=done):
        trace.store.append(records)
    trace.store.append_arrays(source.arrays())
    trace.missing = source.lost
    return trace
