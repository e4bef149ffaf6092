"""Following a recording: every record comes once and in order, and the writer does not notice."""

import time

import numpy as np
import pytest

from draftscope.engine.probes import ArrayKind
from draftscope.trace.tracefile import TraceError, TraceFollower, TraceWriter
from tests.trace.files import HEADER, LOG, MEMORY, RESULT, make_arrays, write
from tests.trace.synthetic import PIECES, make_many, make_records


def test_a_recording_is_followed_while_it_goes_on_and_after_chunks_were_put_together(tmp_path):
    records, path = make_many(30_000), tmp_path / "x.dscope"
    parts = []
    with TraceWriter(path, HEADER) as writer:
        follower = TraceFollower(path)
        for start in range(0, len(records), 700):
            writer.append(records[start : start + 700])
            if start % 2100 == 0:
                time.sleep(0.06)  # so that chunks of several sizes are there
                part = follower.poll()
                parts.append(part.records)
                assert not part.is_ended and not part.is_complete
    part = follower.poll()
    parts.append(part.records)
    assert part.is_ended and part.is_complete
    assert sum(len(part) > 0 for part in parts) > 3
    assert np.concatenate(parts)["sequence"].tolist() == records["sequence"].tolist()
    assert len(follower.poll().records) == 0 and follower.missing == []


def test_everything_else_comes_once_too(tmp_path):
    path, arrays = tmp_path / "x.dscope", make_arrays()
    with TraceWriter(path, HEADER) as writer:
        writer.append(make_records(2))
        writer.add_log(LOG[:1])
        writer.append_arrays(arrays[:8])
        follower = TraceFollower(path)
        deadline = time.monotonic() + 10
        first = follower.poll()
        while len(first.records) == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
            first = follower.poll()
        writer.add_log(LOG[1:])
        writer.add_memory(MEMORY)
        writer.add_pieces(PIECES)
        writer.add_results([RESULT])
        writer.append_arrays(arrays[8:])
    second = follower.poll()
    assert (first.header, first.log, first.results, first.pieces) == (HEADER, LOG[:1], [], {})
    assert (second.log, second.memory, second.pieces, second.results) == (LOG[1:], MEMORY, PIECES, [RESULT])
    for part, t_start_ns in ((first, 1000), (second, 2000)):
        assert {array.kind for array in part.arrays} == set(ArrayKind)
        assert {array.t_start_ns for array in part.arrays} == {t_start_ns}


def test_a_file_that_is_whole_has_nothing_to_follow(tmp_path):
    follower = TraceFollower(write(tmp_path / "x.dscope"))
    part = follower.poll()
    assert part.is_ended and part.is_complete and len(part.records) == len(make_records(20))
    (tmp_path / "x.dscope").unlink()
    with pytest.raises(TraceError, match="no file"):
        follower.poll()


def test_a_recording_ends_in_one_file_also_while_it_is_followed(tmp_path):
    path = tmp_path / "x.dscope"
    writer = TraceWriter(path, HEADER)
    follower = TraceFollower(path)
    for _ in range(20):
        writer.append(make_records(2))
        follower.poll()
    writer.close()
    assert follower.poll().is_complete
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
