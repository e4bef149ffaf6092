"""NPZ: what probes of restores measured, as numpy arrays.

``keys`` inside tells what every array holds. ``probes`` has a row a probed restore; every other key holds one array a
probe, one after the other along the first axis, those that are smaller filled up with NaN or -1; beside it
``<key>_t_start_ns`` names the probe of each, and ``<key>_shape`` its own shape. Without text, arrays from which the
model tells tokens are left out. Nothing is pickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from draftscope.engine.probes import PROBE_COLUMNS, ArrayKind, Probes, SideArray
from draftscope.trace.export.source import Source
from draftscope.trace.export.target import replacing_file
from draftscope.trace.export.watch import Cancelled, Progress, Watch
from draftscope.trace.json_text import to_json
from draftscope.trace.trace import Trace
from draftscope.trace.tracefile.probe_rows import TEXT_ARRAYS

_COMPRESSION = 1
"""Saved, restored and would-have-been rows are often the same, which the quickest level finds."""

_TOKENS = ("saved_top", "restored_top", "without_top")

MEANINGS = {
    ArrayKind.ROWS: "pending rows of hidden values, axes (saved, restored, without) and width of a row",
    ArrayKind.FINGERPRINTS: "recent rows of the slot, axes row and (position, digest)",
    ArrayKind.DRAFT_TOKENS: "tokens drafted from the rows, axes (saved, restored, without) and draft position; "
    "-1 where there is none",
    ArrayKind.TOP_TOKENS: "the likeliest tokens of the first draft step of any of the three rows",
    ArrayKind.TOP_LOGITS: "their logits, axes (saved, restored, without) and token",
    ArrayKind.TOP_PROBABILITIES: "their probabilities, axes (saved, restored, without) and token",
    ArrayKind.LAYERS: "differences of recurrent state, axes layer, (conv, delta-net) and (max |d|, rms)",
}
"""What the arrays of each kind hold."""


class _Stack(NamedTuple):
    """The arrays of one kind, to be written as one."""

    key: str
    kind: ArrayKind
    arrays: Sequence[SideArray]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of arrays, and the largest length of each axis."""
        return len(self.arrays), *np.max(self.shapes, axis=0).tolist()

    @property
    def shapes(self) -> NDArray[np.int64]:
        """The shape of each array: int64 (N, axes)."""
        return np.array([array.values.shape for array in self.arrays], np.int64)

    def filled(self) -> Iterator[NDArray[Any]]:
        """Each array, filled up to the largest shape."""
        full = self.shape[1:]
        for array in self.arrays:
            values = np.full(full, np.nan if array.values.dtype.kind == "f" else -1, array.values.dtype)
            values[tuple(slice(n) for n in array.values.shape)] = array.values
            yield values


def export_npz(
    trace: Trace,
    path: Path | str,
    *,
    with_text: bool = True,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> None:
    """Write results and side arrays of all probes; arguments and errors as ``export_chrome``'s."""
    source = Source(trace, with_text=with_text)
    stacks = _stacks(source)
    watch = Watch(1 + sum(len(stack.arrays) for stack in stacks), progress, cancelled)
    probes = _probes(source)
    with (
        replacing_file(Path(path)) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION) as archive,
    ):
        watch.check()
        _write(archive, "keys", _keys(stacks, probes))
        _write(archive, "about", np.array(to_json(source.about())))
        _write(archive, "probes", probes)
        watch.add(1)
        for stack in stacks:
            _write(archive, f"{stack.key}_t_start_ns", np.array([array.t_start_ns for array in stack.arrays]))
            _write(archive, f"{stack.key}_shape", stack.shapes)
            _write_stack(archive, stack, watch)
        watch.check()


def _stacks(source: Source) -> list[_Stack]:
    kinds = [kind for kind in MEANINGS if source.with_text or kind not in TEXT_ARRAYS]
    by_kind = {kind: [array for array in source.arrays if array.kind is kind] for kind in kinds}
    return [_Stack(kind.name.lower(), kind, arrays) for kind, arrays in by_kind.items() if arrays]


def _probes(source: Source) -> Probes:
    if source.with_text:
        return source.probes
    kept = np.dtype([(column.name, column.dtype) for column in PROBE_COLUMNS if column.name not in _TOKENS])
    probes = np.empty(len(source.probes), kept)
    for name in kept.names or ():
        probes[name] = source.probes[name]
    return probes


def _keys(stacks: Sequence[_Stack], probes: Probes) -> NDArray[np.str_]:
    """Rows of key and meaning; columns of ``probes`` as ``probes.<name>``."""
    rows = [("about", "JSON: header, definitions and results of the run"), ("probes", "a row a probed restore")]
    rows += [(f"probes.{one.name}", _meaning(one)) for one in PROBE_COLUMNS if one.name in (probes.dtype.names or ())]
    for stack in stacks:
        rows += [
            (stack.key, MEANINGS[stack.kind]),
            (f"{stack.key}_t_start_ns", "the probe that each belongs to"),
            (f"{stack.key}_shape", "the shape of each; what is beyond it is filled up with NaN or -1"),
        ]
    return np.array(rows)


def _meaning(column: Any) -> str:
    return f"{column.meaning} ({column.unit})" if column.unit else str(column.meaning)


def _write(archive: zipfile.ZipFile, key: str, values: NDArray[Any]) -> None:
    with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, np.asarray(values, order="C"), allow_pickle=False)


def _write_stack(archive: zipfile.ZipFile, stack: _Stack, watch: Watch) -> None:
    with archive.open(f"{stack.key}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, _header(stack.arrays[0].values.dtype, stack.shape))
        for values in stack.filled():
            file.write(values.tobytes())
            watch.add(1)


def _header(dtype: DTypeLike, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
