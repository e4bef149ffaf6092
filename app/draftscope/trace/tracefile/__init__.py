"""The native file, ``.dscope``: one SQLite database a run, that a person can query and that survives a crash."""

from draftscope.trace.errors import TraceError
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile.copying import copy_trace, finish_recording, remove_trace
from draftscope.trace.tracefile.facts import TraceFacts, read_facts
from draftscope.trace.tracefile.follower import TraceFollower, TracePart
from draftscope.trace.tracefile.head import is_trace_file
from draftscope.trace.tracefile.lock import is_being_recorded
from draftscope.trace.tracefile.reader import read_trace
from draftscope.trace.tracefile.writer import TraceWriter

__all__ = [
    "Trace",
    "TraceError",
    "TraceFacts",
    "TraceFollower",
    "TracePart",
    "TraceWriter",
    "copy_trace",
    "finish_recording",
    "is_being_recorded",
    "is_trace_file",
    "read_facts",
    "read_trace",
    "remove_trace",
]
