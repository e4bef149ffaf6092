"""The records of a trace: the contract between the C++ core, the stores and every file format.

The core writes fixed 64-byte records into a ring in memory that the reader created (``engine/ring.py`` reads it). One
dtype serves every kind of record; ``COLUMNS`` says what each column means and in which unit, and ``KINDS`` what the
general columns mean for each kind. File schemas, CSV headers and the format page are made from these two tables.

Times are int64 nanoseconds of the monotonic clock (``time.monotonic_ns`` in Python, ``steady_clock`` in C++).
Standard library and numpy only: a saved trace opens where no engine is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NewType

import numpy as np
from numpy.typing import NDArray

SlotId = NewType("SlotId", int)
RoundId = NewType("RoundId", int)

ENGINE_TRACK = SlotId(-1)
"""The slot of records that belong to a decode shared by all slots."""

NO_ROUND = RoundId(-1)
"""The round of records outside any round (prompt, load)."""


class Kind(IntEnum):
    """What a record is about."""

    SPAN = 1
    ROUND = 2
    TOKEN = 3
    SAVE = 4
    RESTORE = 5
    FALLBACK = 6
    SLOT = 7
    OPERATION = 8
    ROW = 9


class Phase(IntEnum):
    """What a span spent its time on; also the operation that the ring's header names."""

    IDLE = 0
    PROMPT = 1
    DRAFT = 2
    SAVE = 3
    VERIFY = 4
    ACCEPT = 5
    RESTORE = 6
    REPLAY = 7
    CATCH_UP = 8
    LOAD = 9
    PROBE = 10


class Origin(IntEnum):
    """How a token came to be: sampled from the target, accepted from the draft, or drafted and rejected."""

    SAMPLED = 0
    ACCEPTED = 1
    REJECTED = 2


class Mechanism(IntEnum):
    """How the target goes back after a rejected draft."""

    NONE = 0
    KV_REMOVAL = 1
    ROLLBACK = 2
    COW = 3
    DEVICE = 4
    HOST = 5


class SlotState(IntEnum):
    """What a slot is doing: idle -> prompt -> generating -> done (-> prompt of the next task)."""

    IDLE = 0
    PROMPT = 1
    GENERATING = 2
    DONE = 3


class StopReason(IntEnum):
    """Why a slot's task ended."""

    NONE = 0
    END_OF_GENERATION = 1
    MAX_TOKENS = 2
    STOP_STRING = 3
    CANCELLED = 4
    CONTEXT_FULL = 5
    FAILED = 6


class FallbackReason(IntEnum):
    """Why another way back than the chosen one was taken, or a slot had to be prefilled again."""

    NONE = 0
    NOT_GRANTED = 1
    BEYOND_REACH = 2
    REFUSED = 3
    NO_MEMORY = 4
    RESTORE_FAILED = 5
    POSITION_MISMATCH = 6
    CANNOT_UNIFY = 7


class Operation(IntEnum):
    """What was done to a slot as a whole, outside of rounds or between them."""

    SUBMIT = 1
    CANCEL = 2
    RELEASE = 3
    CLEAR = 4
    PROMPT_SAVE = 5
    PROMPT_RESTORE = 6
    CACHE_STORE = 7
    CACHE_TAKE = 8
    SLOT_SAVE = 9
    SLOT_RESTORE = 10
    SHIFT = 11
    REWIND = 12
    FORK = 13
    STATE_REFUSED = 14
    PROMPT_EVICT = 15


class Reuse(IntEnum):
    """What a prompt found in its slot, and why nothing of it was reused where nothing was.

    NONE: the slot was empty. KEPT: the prompt goes on from what is there. TAIL_DROPPED: what differs was dropped.
    RESTORED: a prompt checkpoint was. CACHED: the prompt cache had it. NOTHING_COMMON: the first token differs.
    NO_CHECKPOINT: the memory cannot drop a tail, and no prompt checkpoint lies within the common part. TURNED_OFF: the
    task said so. REFUSED: a state was refused, and the prompt processed from its beginning. SHIFTED: after a context
    shift.
    """

    NONE = 0
    KEPT = 1
    TAIL_DROPPED = 2
    RESTORED = 3
    CACHED = 4
    NOTHING_COMMON = 5
    NO_CHECKPOINT = 6
    TURNED_OFF = 7
    REFUSED = 8
    SHIFTED = 9


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a record: numpy type code, unit ('' when it is a count or an id) and meaning."""

    name: str
    dtype: str
    unit: str
    meaning: str


COLUMNS = (
    Column("sequence", "<u8", "", "running number within the ring; a gap is where records were dropped"),
    Column("t_start_ns", "<i8", "ns", "start on the monotonic clock"),
    Column("duration_ns", "<i8", "ns", "length; 0 for a moment"),
    Column("round", "<i4", "", "round of the run, counted over all slots from 0; -1 outside a round"),
    Column("slot", "<i2", "", "slot (= sequence id in both contexts); -1 for a decode shared by all slots"),
    Column("kind", "<u1", "", "Kind"),
    Column("code", "<u1", "", "what exactly, by kind"),
    Column("position", "<i4", "", "position in the slot's sequence, by kind"),
    Column("token", "<i4", "", "token id; -1 when the record is not about one token"),
    Column("n", "<i4", "", "first count, by kind"),
    Column("m", "<i4", "", "second count, by kind"),
    Column("value", "<f8", "", "measurement, by kind; NaN when there is none"),
    Column("size_bytes", "<i8", "B", "bytes held or moved; 0 when the record is not about memory"),
)

RECORD_DTYPE = np.dtype([(column.name, column.dtype) for column in COLUMNS])
"""One record; packed, 64 bytes, little endian."""

Records = NDArray[np.void]
"""A one-dimensional array of ``RECORD_DTYPE``."""


@dataclass(frozen=True, slots=True)
class KindColumns:
    """What the general columns mean for one kind of record; '' where a column is not used."""

    code: str
    position: str
    token: str
    n: str
    m: str
    value: str
    size_bytes: str


KINDS = {
    Kind.SPAN: KindColumns(
        code="Phase",
        position="engine track: draft step from 0 (DRAFT) or 0; slot track: first position that the slot brought",
        token="",
        n="tokens in the batch: of all slots on the engine track, of this slot on its own track",
        m="engine track: graph runs of the decode; slot track: replayed tokens among n, of ACCEPT the accepted ones",
        value="",
        size_bytes="",
    ),
    Kind.ROUND: KindColumns(
        code="Mechanism that served this slot",
        position="tokens in the slot after the round",
        token="",
        n="tokens drafted",
        m="tokens accepted",
        value="tokens per second of the slot so far, prompt excluded",
        size_bytes="",
    ),
    Kind.TOKEN: KindColumns(
        code="Origin",
        position="position of the token in the slot's sequence (of a rejected one: where it would have stood)",
        token="token id",
        n="draft position from 1; 0 for a sampled token",
        m="token that the target chose in its place (REJECTED only), else -1",
        value="probability before sampling settings: by the target for SAMPLED, by the draft for the others",
        size_bytes="",
    ),
    Kind.SAVE: KindColumns("Mechanism", "position saved", "", "epoch", "", "", "bytes of the saved state"),
    Kind.RESTORE: KindColumns(
        "Mechanism", "position restored", "", "epoch", "tokens to decode again", "", "bytes of the restored state"
    ),
    Kind.FALLBACK: KindColumns("FallbackReason", "position", "", "Mechanism asked for", "Mechanism used", "", ""),
    Kind.SLOT: KindColumns("SlotState", "tokens in the slot", "", "StopReason", "tokens generated", "", ""),
    Kind.OPERATION: KindColumns(
        code="Operation",
        position="tokens in the slot after it",
        token="",
        n="tokens kept, reused or forgotten",
        m="Reuse (SUBMIT and the operations on states)",
        value="SUBMIT: tokens that the slot had in memory and the prompt begins with; NaN where nobody compared",
        size_bytes="bytes moved",
    ),
    Kind.ROW: KindColumns(
        code="Fault that was injected into the restore before",
        position="position whose hidden row the draft of this round must start from",
        token="",
        n="position whose row it does start from, by its digest; -1 unknown, -2 a row of zeros",
        m="rows that wait for the draft context, this one included",
        value="",
        size_bytes="",
    ),
}
"""Meaning of ``code``, ``position``, ``token``, ``n``, ``m``, ``value`` and ``size_bytes`` by kind."""


def empty_records(n: int = 0) -> Records:
    """Allocate ``n`` zeroed records."""
    return np.zeros(n, dtype=RECORD_DTYPE)
