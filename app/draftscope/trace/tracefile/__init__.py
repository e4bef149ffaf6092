"""The native file, ``.dscope``: one SQLite database a run, that a person can query and that survives a crash."""

from draftscope.trace.errors import TraceError
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile.reader import read_trace
from draftscope.trace.tracefile.writer import TraceWriter

__all__ = ["Trace", "TraceError", "TraceWriter", "read_trace"]
