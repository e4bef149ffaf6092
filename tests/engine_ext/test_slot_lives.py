"""Random sequences of operations on slots, on every kind of memory; and the shortest ones that went wrong once."""

from __future__ import annotations

import pytest

from tests.engine_ext.slot_lives import SHARES, live
from tests.engine_ext.slot_place import KINDS, open_place


@pytest.mark.parametrize("kind", KINDS)
def test_that_slots_write_what_a_plain_model_writes_whatever_is_done_to_them(kind: str) -> None:
    with open_place(kind) as place:
        live(place, SHARES[kind], derandomize=True)
        tally = place.tally
    assert tally.n_sequences >= SHARES[kind]
    assert tally.n_tasks > 3 * tally.n_sequences
    assert tally.n_ties < tally.n_tasks / 10
    assert {"kept", "none"} < set(tally.reuse)


def test_that_there_are_500_sequences() -> None:
    assert sum(SHARES.values()) >= 500
