"""From which position's hidden row each draft round went on: the ``ROW`` records of probed slots, summed up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from draftscope.engine.events import Kind, Records
from draftscope.engine.probes import UNKNOWN_POSITION, ZERO_ROW
from draftscope.trace.store import TraceStore


class RowsInUse:
    """Counts over the ``ROW`` records of a store, brought up to date at the cost of the new ones.

    Attributes:
        n: rounds of slots that drafted and were probed.
        n_right: those that went on from the row of the right position.
        n_zero, n_unknown, n_other: those that went on from a row of zeros, from none of the slot's known rows, and from
            the row of another position.
    """

    def __init__(self) -> None:
        self._reset(0)

    def _reset(self, generation: int) -> None:
        self._generation = generation
        self.n = self.n_right = self.n_zero = self.n_unknown = self.n_other = 0

    def update(self, store: TraceStore) -> None:
        """Take what has come into the store since the last call; starts anew when the store was cleared."""
        if store.generation != self._generation:
            self._reset(store.generation)
        new = store.kind(Kind.ROW)[self.n :]
        found = new["n"]
        is_right, is_zero, is_unknown = is_right_row(new), found == ZERO_ROW, found == UNKNOWN_POSITION
        self.n += len(new)
        self.n_right += int(np.count_nonzero(is_right))
        self.n_zero += int(np.count_nonzero(is_zero))
        self.n_unknown += int(np.count_nonzero(is_unknown))
        self.n_other += int(np.count_nonzero(~is_right & ~is_zero & ~is_unknown))

    @property
    def words(self) -> str:
        """All of it in a sentence; '' while there are none."""
        if self.n == 0:
            return ""
        rounds = "1 probed draft" if self.n == 1 else f"{self.n:,} probed drafts"
        if self.n_right == self.n:
            return f"{rounds}, each from the row of its true position"
        wrong = (
            (self.n_other, "from the row of another position"),
            (self.n_zero, "from a row of zeros"),
            (self.n_unknown, "from an unknown row"),
        )
        parts = [f"{n:,} {words}" for n, words in wrong if n]
        return f"{rounds}: {self.n_right:,} from the row of their true position, {', '.join(parts)}"


def is_right_row(records: Records) -> NDArray[np.bool_]:
    """Whether the draft of each ``ROW`` record goes on from the row of its true position: bool (N,)."""
    return np.asarray(records["n"] == records["position"])
