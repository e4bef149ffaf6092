"""Results and side arrays of probes as rows of ``probes`` and ``arrays``, and back, with everything checked."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from draftscope.engine.probes import PROBE_COLUMNS, ArrayKind, Probes, SideArray, empty_probes
from draftscope.trace.tracefile.planes import deflate, inflate

TEXT_ARRAYS = frozenset(
    {
        ArrayKind.ROWS,
        ArrayKind.FINGERPRINTS,
        ArrayKind.DRAFT_TOKENS,
        ArrayKind.TOP_TOKENS,
        ArrayKind.TOP_LOGITS,
        ArrayKind.TOP_PROBABILITIES,
    }
)
"""Arrays that whoever has the model can turn into text.

Token ids by its vocabulary, hidden rows by its output layer, logits and probabilities by what they are of each token.
A digest cannot be turned back, but the digests of a slot's first rows can be guessed token by token: one decode for
each token of the vocabulary at each position. Differences of layers, two numbers for thousands of values, stay.
"""

_TEXT_COLUMNS = ("saved_top", "restored_top", "without_top")

_FORMS = {
    ArrayKind.ROWS: ("<f4", (3, None)),
    ArrayKind.FINGERPRINTS: ("<i8", (None, 2)),
    ArrayKind.DRAFT_TOKENS: ("<i4", (3, None)),
    ArrayKind.TOP_TOKENS: ("<i4", (None,)),
    ArrayKind.TOP_LOGITS: ("<f4", (3, None)),
    ArrayKind.TOP_PROBABILITIES: ("<f4", (3, None)),
    ArrayKind.LAYERS: ("<f8", (None, 2, 2)),
}
"""dtype and shape of the arrays of each kind; None is any length."""

_MOST_VALUES = 1 << 24
_KIND_OF = {kind.name.lower(): kind for kind in _FORMS}


def probe_rows(probes: Probes, *, with_text: bool) -> list[tuple[Any, ...]]:
    """The columns of ``PROBE_COLUMNS``, a tuple a probe; without text no token is named."""
    rows = probes.reshape(-1).copy()
    if not with_text:
        for name in _TEXT_COLUMNS:
            rows[name] = -1
    return [tuple(row) for row in rows.tolist()]


def probe_of(row: tuple[Any, ...]) -> Probes:
    """The probe in a row: (1,).

    Raises:
        ValueError: it holds what no probe can measure.
    """
    probe = empty_probes(1)
    for column, value in zip(PROBE_COLUMNS, row, strict=True):
        if "f" in column.dtype:
            if not (value is None or isinstance(value, int | float)):
                raise ValueError(f"{column.name} is no number")
            probe[column.name] = math.nan if value is None else value
        else:
            limits = np.iinfo(column.dtype)
            if not isinstance(value, int) or not limits.min <= value <= limits.max:
                raise ValueError(f"{column.name} is {value!r:.40}")
            probe[column.name] = value
    return probe


def array_row(array: SideArray) -> tuple[Any, ...]:
    """(t_start_ns, kind, dtype, shape, array) of a side array."""
    values = np.ascontiguousarray(array.values)
    dtype, shape = values.dtype.newbyteorder("<").str, json.dumps(values.shape)
    return array.t_start_ns, array.kind.name.lower(), dtype, shape, deflate(values)


def array_of(t_start_ns: object, kind: object, dtype: object, shape: object, blob: object) -> SideArray:
    """The side array in a row.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(kind, str) or kind not in _KIND_OF:
        raise ValueError(f"its kind is {kind!r:.40}")
    expected, form = _FORMS[_KIND_OF[kind]]
    axes = json.loads(shape) if isinstance(shape, str) else None
    if axes is None or dtype != expected or not _fits(axes, form) or not isinstance(t_start_ns, int):
        raise ValueError(f"{kind} of dtype {dtype!r:.20} and shape {shape!r:.40} is not possible")
    data = inflate(blob, math.prod(axes) * np.dtype(expected).itemsize)
    return SideArray(t_start_ns, _KIND_OF[kind], np.frombuffer(data, expected).reshape(axes).copy())


def _fits(axes: Any, form: tuple[int | None, ...]) -> bool:
    if not isinstance(axes, list) or len(axes) != len(form):
        return False
    if not all(isinstance(n, int) and 0 <= n <= _MOST_VALUES for n in axes) or math.prod(axes) > _MOST_VALUES:
        return False
    return all(wanted is None or n == wanted for n, wanted in zip(axes, form, strict=True))
