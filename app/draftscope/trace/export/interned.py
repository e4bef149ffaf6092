"""Texts of a Perfetto trace that are written once and then meant by their number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftscope.trace.export.arguments import Words
from draftscope.trace.export.protobuf import field

CATEGORIES, NAMES, ARGUMENT_NAMES, STRINGS = 1, 2, 3, 29
"""Fields of ``InternedData``: tables of texts that are numbered apart."""

_IID, _TEXT = 1, 2


class InternedTexts:
    """Numbers texts from 1, by table, and tells which have been added since they were last asked for."""

    def __init__(self) -> None:
        self._numbers: dict[int, dict[str, int]] = {table: {} for table in (CATEGORIES, NAMES, ARGUMENT_NAMES, STRINGS)}
        self._new: list[bytes] = []

    def number(self, table: int, text: str) -> int:
        """The number of a text."""
        numbers = self._numbers[table]
        if text not in numbers:
            numbers[text] = len(numbers) + 1
            entry = field(_IID, numbers[text]) + field(_TEXT, text)
            self._new.append(field(table, entry))
        return numbers[text]

    def numbers(self, table: int, values: NDArray[Any], words: Words) -> NDArray[np.int64]:
        """Numbers of what ``words`` makes of values (K,): int64 (K,)."""
        found, inverse = np.unique(values, return_inverse=True)
        numbers = [self.number(table, words(value)) for value in found.tolist()]
        return np.array(numbers, np.int64)[inverse]

    def take_new(self) -> bytes:
        """``InternedData`` with the texts added since the last call; empty when there are none."""
        new, self._new = b"".join(self._new), []
        return new
