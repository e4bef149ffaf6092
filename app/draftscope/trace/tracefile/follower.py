"""Following a file that is being recorded: what has come since the last look."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftscope.engine.events import Records, empty_records
from draftscope.engine.probes import ArrayKind, SideArray
from draftscope.trace.tracefile.database import opened
from draftscope.trace.tracefile.lock import is_being_recorded
from draftscope.trace.tracefile.planes import joined
from draftscope.trace.tracefile.source import Source


@dataclass(slots=True)
class TracePart:
    """What has come since the last look.

    Attributes:
        records: new ones, in order of arrival.
        pieces: bytes of all tokens known by now.
        header, results: all of them as they are by now.
        log, memory: new ones.
        arrays: new results of probes and side arrays.
        is_complete: the recording says that all is there; more may come after that, until ``is_ended``.
        is_ended: nobody records into the file any more; there is nothing to follow.
    """

    records: Records = field(default_factory=empty_records)
    pieces: dict[int, bytes] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    results: list[dict[str, Any]] = field(default_factory=list)
    log: list[tuple[int, str, str]] = field(default_factory=list)
    memory: list[tuple[int, str, int, int]] = field(default_factory=list)
    arrays: list[SideArray] = field(default_factory=list)
    is_complete: bool = False
    is_ended: bool = False


class TraceFollower:
    """Reads on in a trace file. Each look is a connection of its own, for reading: the writer never waits for it.

    Attributes:
        n_records: records of the file up to which all were handed out.
        missing: sentences on what could not be read.
    """

    def __init__(self, path: Path | str) -> None:
        self.n_records = 0
        self.missing: list[str] = []
        self._path = Path(path)
        self._n_log = 0
        self._n_memory = 0
        self._n_probes = 0
        self._n_arrays = 0

    def poll(self) -> TracePart:
        """What has come since the last call; at the first, all that there is.

        Raises:
            TraceError: the file is gone, or cannot be read.
        """
        is_ended = not is_being_recorded(self._path)  # asked before the look, so that what came last is in it
        with opened(self._path) as database:
            database.execute("BEGIN")
            part = self._read(Source(database))
            database.execute("ROLLBACK")
        part.is_ended = is_ended
        return part

    def _read(self, source: Source) -> TracePart:
        part = TracePart(pieces=source.pieces(), log=source.log(self._n_log), memory=source.memory(self._n_memory))
        part.header, part.results = source.run_and_results()
        part.is_complete = source.is_complete
        batches = list(source.records(self.n_records))
        if batches:
            part.records = joined(batches)
        self.n_records = source.next_record
        part.arrays = source.arrays(self._n_probes, self._n_arrays)
        n_results = sum(array.kind is ArrayKind.RESULT for array in part.arrays)
        self._n_probes += n_results
        self._n_arrays += len(part.arrays) - n_results
        self._n_log += len(part.log)
        self._n_memory += len(part.memory)
        self.missing += [problem for problem in source.problems if problem not in self.missing]
        return part
