"""What a probe of a restore says: the contract between the C++ core, the store and every file format.

After a restore three things can be stale: the pending row, the recurrent state and the companion. A probe measures
them, and what they do to the next draft. Its scalars are one row of ``PROBE_DTYPE``, its vectors are side arrays
(``ArrayKind``); both go through ``engine/array_ring.py`` and belong together by ``t_start_ns``, which no other probe
has.

Three pending rows are compared: *saved*, the row that belongs to the position; *restored*, the one that drafting went
on from; *without*, the one that would have been there had nobody saved and restored rows.
Standard library and numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Column


class ProbeLevel(StrEnum):
    """How much of every restore is measured; each level includes those before it."""

    OFF = "off"
    HIDDEN = "hidden"
    LOGITS = "logits"
    STATE = "state"


class Fault(StrEnum):
    """What a restore is made to do wrong, to see it caught."""

    NONE = "none"
    OMIT_HOOK = "omit_hook"
    ZERO_ROW = "zero_row"
    STALE_ROW = "stale_row"
    SKIP_LAYER = "skip_layer"
    COMPANION_BEHIND = "companion_behind"


FAULTS = tuple(Fault)
"""In the order of their numbers in ``fault``."""

LEVELS = tuple(ProbeLevel)
"""In the order of their numbers in ``level``."""


class RestoreKind(IntEnum):
    """What a restore was for."""

    REJECTION = 1
    PROMPT = 2
    CACHE = 3
    SLOT = 4
    FORK = 5
    REWIND = 6


class StateStatus(IntEnum):
    """How the recurrent state after a restore compares with the one before the save.

    A native rollback saves nothing: there it is compared with decoding the same tokens anew, in three ways. ROUNDING:
    none of them gives the same bits, and no part of the state is further from the nearest than they are from each other
    (``state_scatter``), or than a step of half precision, in which F16 models are computed, of its largest value.
    """

    NOT_PROBED = 0
    EQUAL = 1
    DIFFERS = 2
    UNKNOWN_LAYOUT = 3
    NO_RECURRENT_LAYERS = 4
    NO_REFERENCE = 5
    ROUNDING = 6


class ArrayKind(IntEnum):
    """What a side array holds; axes in its docstring line, E row width, k draft length, U tokens, L recurrent layers.

    RESULT: one row of ``PROBE_DTYPE``. ROWS: float32 (3, E), pending rows saved, restored and without. FINGERPRINTS:
    int64 (R, 2), positions of recent rows of the slot and their digests. DRAFT_TOKENS: int32 (3, k), drafted from these
    rows; -1 where there is none. TOP_TOKENS: int32 (U,), the likeliest tokens of the first draft step of any of the
    three; TOP_LOGITS and TOP_PROBABILITIES: float32 (3, U). LAYERS: float64 (L, 2, 2), conv and delta-net part of each
    recurrent layer, max |d| and rms; NaN where a part could not be compared.
    """

    RESULT = 0
    ROWS = 1
    FINGERPRINTS = 2
    DRAFT_TOKENS = 3
    TOP_TOKENS = 4
    TOP_LOGITS = 5
    TOP_PROBABILITIES = 6
    LAYERS = 7


SAVED, RESTORED, WITHOUT = range(3)
"""Rows of the arrays that compare three."""

UNKNOWN_POSITION = -1
"""A row that is none of the slot's known ones."""

ZERO_ROW = -2
"""A row of zeros."""

_OF_ROW = "the row that drafting went on from"
_OF_WITHOUT = "the row that would be there without the hook"

PROBE_COLUMNS = (
    Column("t_start_ns", "<i8", "ns", "start of the probe on the monotonic clock; names it"),
    Column("duration_ns", "<i8", "ns", "time that all parts of the probe took"),
    Column("state_bytes", "<i8", "B", "bytes of recurrent state compared"),
    Column("restored_max_abs", "<f8", "", f"largest |difference| of {_OF_ROW} to the saved one, in activation units"),
    Column("restored_rms", "<f8", "", "root of the mean square of these differences"),
    Column("restored_cosine", "<f8", "", f"cosine of {_OF_ROW} and the saved one; NaN where one is zero"),
    Column("without_max_abs", "<f8", "", f"largest |difference| of {_OF_WITHOUT} to the saved one"),
    Column("without_rms", "<f8", "", "root of the mean square of these differences"),
    Column("without_cosine", "<f8", "", f"cosine of {_OF_WITHOUT} and the saved one; NaN where one is zero"),
    Column("restored_logit_max_abs", "<f8", "", f"largest |difference| of draft logits, from {_OF_ROW}"),
    Column("restored_kl", "<f8", "nat", f"KL divergence of the draft distribution from {_OF_ROW}, of the saved one's"),
    Column("without_logit_max_abs", "<f8", "", f"largest |difference| of draft logits, from {_OF_WITHOUT}"),
    Column("without_kl", "<f8", "nat", f"KL divergence of the draft distribution from {_OF_WITHOUT}"),
    Column("saved_top_p", "<f8", "", "probability of the likeliest first draft token, from the saved row"),
    Column("restored_top_p", "<f8", "", f"the same from {_OF_ROW}"),
    Column("without_top_p", "<f8", "", f"the same from {_OF_WITHOUT}"),
    Column("state_max_abs", "<f8", "", "largest |difference| of recurrent state, all layers"),
    Column("state_rms", "<f8", "", "root of the mean square of these differences"),
    Column("state_scatter", "<f8", "", "what decoding the same tokens anew differs by from itself; NaN: not needed"),
    Column("round", "<i4", "", "round of the run; -1 outside a round"),
    Column("position", "<i4", "", "positions that the target held after the restore"),
    Column("n_replay", "<i4", "", "tokens to decode again after it"),
    Column("row_position", "<i4", "", "position that the pending row belongs to; -1: nothing is drafted"),
    Column("restored_position", "<i4", "", f"position of {_OF_ROW}, by its digest; -1 unknown, -2 a row of zeros"),
    Column("without_position", "<i4", "", f"position of {_OF_WITHOUT}, by its digest"),
    Column("row_width", "<i4", "", "dimensions of a row"),
    Column("restored_n_differing", "<i4", "", "dimensions that differ in any bit"),
    Column("restored_worst", "<i4", "", "dimension that differs most; -1: none does"),
    Column("without_n_differing", "<i4", "", "dimensions that differ in any bit"),
    Column("without_worst", "<i4", "", "dimension that differs most; -1: none does"),
    Column("companion_n", "<i4", "", "positions that the MTP context held after the restore"),
    Column("companion_expected", "<i4", "", "positions that it should have held"),
    Column("companion_n_wrong", "<i4", "", "of these, made from another token or row than the slot has there"),
    Column("companion_first_wrong", "<i4", "", "the first such position; -1: none"),
    Column("n_vocab", "<i4", "", "logits of a draft step; 0: not probed"),
    Column("n_draft", "<i4", "", "tokens drafted from each row"),
    Column("restored_n_changed", "<i4", "", f"draft logits that differ in any bit, from {_OF_ROW}"),
    Column("without_n_changed", "<i4", "", f"draft logits that differ in any bit, from {_OF_WITHOUT}"),
    Column("saved_top", "<i4", "", "likeliest first draft token, from the saved row"),
    Column("restored_top", "<i4", "", f"the same from {_OF_ROW}"),
    Column("without_top", "<i4", "", f"the same from {_OF_WITHOUT}"),
    Column("restored_n_same", "<i4", "", "drafted tokens before the first that the saved row drafts otherwise"),
    Column("without_n_same", "<i4", "", "the same without the hook"),
    Column("n_followed", "<i4", "", "tokens of the slot that followed, as far as a draft reaches"),
    Column("saved_accepted", "<i4", "", "of the draft from the saved row, tokens that did follow; -1: unknown"),
    Column("restored_accepted", "<i4", "", f"of the draft from {_OF_ROW}"),
    Column("without_accepted", "<i4", "", f"of the draft from {_OF_WITHOUT}"),
    Column("n_layers", "<i4", "", "recurrent layers compared"),
    Column("n_layers_differing", "<i4", "", "layers that differ in any bit; after a native rollback, beyond rounding"),
    Column("worst_layer", "<i4", "", "recurrent layer that differs most, counted from 0; -1: none does"),
    Column("slot", "<i2", "", "slot"),
    Column("level", "<u1", "", "number of the ProbeLevel"),
    Column("kind", "<u1", "", "RestoreKind"),
    Column("mechanism", "<u1", "", "Mechanism that went back; NONE: a state was put back as a whole"),
    Column("fault", "<u1", "", "number of the Fault that was injected"),
    Column("state_status", "<u1", "", "StateStatus"),
    Column("worst_part", "<u1", "", "part of the layer that differs most: 0 conv, 1 delta-net"),
)

PROBE_DTYPE = np.dtype([(column.name, column.dtype) for column in PROBE_COLUMNS])
"""One probed restore; packed, little endian. Floats are NaN and numbers -1 where the level does not measure them."""

Probes = NDArray[np.void]
"""A one-dimensional array of ``PROBE_DTYPE``."""


def empty_probes(n: int = 0) -> Probes:
    """Allocate ``n`` rows in which nothing was measured."""
    probes = np.zeros(n, dtype=PROBE_DTYPE)
    for column in PROBE_COLUMNS:
        if "f" in column.dtype:
            probes[column.name] = np.nan
        elif column.dtype == "<i4" and column.name not in ("n_vocab", "row_width", "n_draft", "n_layers"):
            probes[column.name] = -1
    return probes


@dataclass(frozen=True, slots=True)
class SideArray:
    """One array of a probe; ``values`` as ``ArrayKind`` says, owned by whoever has it."""

    t_start_ns: int
    kind: ArrayKind
    values: NDArray[Any]
