"""An array that grows by appending, with views for readers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

_FIRST_CAPACITY = 256


class GrowableArray:
    """A one-dimensional array with amortised O(1) appending: the memory doubles when it is full.

    Views stay valid for good: growing moves to new memory and ``clear`` leaves the old memory to its readers, so a view
    taken earlier never changes under its reader, whichever thread that is in. One thread appends.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._memory: NDArray[Any] = np.empty(_FIRST_CAPACITY, dtype=dtype)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def view(self) -> NDArray[Any]:
        """Everything appended so far: (N,), read-only, C order; borrowed, valid for good."""
        view = self._memory[: self._n]
        view.flags.writeable = False
        return view

    def append(self, values: ArrayLike) -> None:
        """Append a (K,) array, converted to the array's dtype."""
        values = np.asarray(values, dtype=self._memory.dtype)
        n = self._n + len(values)
        if n > len(self._memory):
            grown = np.empty(max(n, 2 * len(self._memory)), dtype=self._memory.dtype)
            grown[: self._n] = self._memory[: self._n]
            self._memory = grown
        self._memory[self._n : n] = values
        self._n = n

    def replace_tail(self, start: int, values: ArrayLike) -> None:
        """Put a (K,) array in the place of everything from ``start`` on, in new memory; costs O(N)."""
        values = np.asarray(values, dtype=self._memory.dtype)
        grown = np.empty(max(_FIRST_CAPACITY, 2 * (start + len(values))), dtype=self._memory.dtype)
        grown[:start] = self._memory[:start]
        grown[start : start + len(values)] = values
        self._memory, self._n = grown, start + len(values)

    def frozen(self) -> GrowableArray:
        """What is here now, as an array of its own that shares the memory: copies nothing, and grows apart."""
        other = GrowableArray(self._memory.dtype)
        other._memory, other._n = self.view, self._n
        return other

    def clear(self) -> None:
        """Forget everything; views taken before stay as they are."""
        self._memory = np.empty(_FIRST_CAPACITY, dtype=self._memory.dtype)
        self._n = 0
