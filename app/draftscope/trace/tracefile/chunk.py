"""A chunk of records as a row of ``chunks``, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import RECORD_DTYPE, Kind, Origin, Records
from draftscope.trace.tracefile.planes import copied, pack, unpack

TOKEN_DTYPE = np.dtype([("token", "<i4"), ("chosen", "<i4")])
"""What of a TOKEN record is text: its token, and the one that the target chose in its place."""

_MOST_DRAFTED = 65_535
_LATEST_NS = 2**61
_MOST_NS = 2**63 - 1


PLANES, ROWS = range(2)
"""Forms of a blob of records: compressed byte planes, or the records as they are."""


def chunk_row(first: int, records: Records, *, with_text: bool) -> tuple[Any, ...]:
    """The row of ``chunks`` for records, of which ``first`` others came before."""
    is_token = records["kind"] == Kind.TOKEN
    tokens = pack(_tokens_of(records, is_token)) if with_text and is_token.any() else None
    times = _times(records)
    return first, len(records), *times, count_tokens(records), PLANES, pack(without_tokens(records)), tokens


def young_row(first: int, records: Records, *, with_text: bool) -> tuple[Any, ...]:
    """The same in a fraction of the time, for a chunk that is soon put together with others.

    Tokens stay in their records where the file may have them, and are not counted.
    """
    kept = records if with_text else without_tokens(records)
    return first, len(records), *_times(records), None, ROWS, kept.tobytes(), None


def _times(records: Records) -> tuple[int, int]:
    last = records[-1]
    return int(records[0]["t_start_ns"]), min(int(last["t_start_ns"]) + int(last["duration_ns"]), _MOST_NS)


def count_tokens(records: Records) -> int:
    """How many of the records are tokens that became text."""
    return int(np.count_nonzero((records["kind"] == Kind.TOKEN) & (records["code"] != Origin.REJECTED)))


def without_tokens(records: Records) -> Records:
    """A copy that names no token."""
    bare = copied(records)
    is_token = bare["kind"] == Kind.TOKEN
    bare["token"][is_token] = -1
    bare["m"][is_token & (bare["code"] == Origin.REJECTED)] = -1
    return bare


def _tokens_of(records: Records, is_token: NDArray[np.bool_]) -> NDArray[Any]:
    named = np.empty(int(np.count_nonzero(is_token)), TOKEN_DTYPE)
    named["token"], named["chosen"] = records["token"][is_token], records["m"][is_token]
    return named


def chunk_records(n: int, form: object, blob: object, tokens: object) -> Records:
    """The ``n`` records of a row of ``chunks``, with their tokens where it has them: (n,), owned by the caller.

    Raises:
        ValueError: it is damaged.
    """
    if form == ROWS:
        if not isinstance(blob, bytes) or len(blob) != n * RECORD_DTYPE.itemsize:
            raise ValueError("a blob has not the size that it should")
        return np.frombuffer(bytearray(blob), RECORD_DTYPE)
    records: Records = unpack(blob, RECORD_DTYPE, n)
    if tokens is not None:
        is_token = records["kind"] == Kind.TOKEN
        named = unpack(tokens, TOKEN_DTYPE, int(np.count_nonzero(is_token)))
        records["token"][is_token], records["m"][is_token] = named["token"], named["chosen"]
    return records


def is_possible(records: Records) -> NDArray[np.bool_]:
    """Which records an engine may have written: (K,). On others figures and pictures would run into trouble.

    Impossible: an unknown kind, a time out of range, a round that accepts more than it drafted or drafts too much.
    """
    kind, start, duration = records["kind"], records["t_start_ns"], records["duration_ns"]
    known = np.isin(kind, [int(kind) for kind in Kind])
    in_range = (start >= -_LATEST_NS) & (start <= _LATEST_NS) & (duration >= 0) & (duration <= _LATEST_NS)
    n, m = records["n"], records["m"]
    counts = (kind != Kind.ROUND) | ((m >= 0) & (m <= n) & (n <= _MOST_DRAFTED))
    return known & in_range & counts  # type: ignore[no-any-return]
