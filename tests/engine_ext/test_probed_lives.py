"""Random lives of slots and storms of cancels while restores are probed: the same texts, and nothing found."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from draftscope.engine.probes import ProbeLevel
from draftscope.trace.probe_store import ProbeStore
from draftscope.trace.restore_verdict import verdict_words
from tests.engine_ext.probe_bench import differing
from tests.engine_ext.slot_lives import SlotLives, fractions, live, slots
from tests.engine_ext.slot_place import Place, Room, open_place
from tests.engine_ext.test_cancel_storms import N_SLOTS, Storm

KINDS = (
    *(f"{model}-{mode}" for model in ("qwen35", "qwen3next") for mode in ("rollback", "cow", "device", "host")),
    *("demo-rollback", "glm4moe", "step35", "qwen35-plain"),
)
N_SEQUENCES = 10


def found(place: Place, store: ProbeStore) -> list[str]:
    """What probes found to differ since the last call."""
    n_before = len(store.results)
    store.append(place.bench.arrays.read())
    place.bench.ring.read()
    assert place.bench.arrays.n_dropped == 0
    new = store.results[n_before:]
    return [verdict_words(probe) for probe in new if differing(new)]


class ProbedLives(SlotLives):
    """The same lives; levels change between operations."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ProbeStore()
        self.has_wrong_rows = False

    def done(self, name: str) -> None:
        """See ``SlotLives``; a state that was given without its rows is rightly found to lack them."""
        super().done(name)
        self.has_wrong_rows |= name in ("set_state", "restore-without-rows") or not self.place.room.use_hooks
        n_before = len(self.store.results)
        words = found(self.place, self.store)
        self.place.tally.operations["restores probed"] += len(self.store.results) - n_before
        assert words == [] or self.has_wrong_rows, words

    @rule(slot=slots, level=st.sampled_from(ProbeLevel))
    def probe(self, slot: int, level: ProbeLevel) -> None:
        """Another level for a slot."""
        self.place.bench.backend.set_probe(level, (slot % self.n_slots,))
        self.done(f"probe-{level.value}")

    @rule(cut=fractions)
    def probe_all(self, cut: float) -> None:
        """One level for all."""
        self.place.bench.backend.set_probe(list(ProbeLevel)[1 + int(cut * 2)], ())
        self.done("probe-all")


@pytest.mark.parametrize("kind", KINDS)
def test_that_probed_slots_write_what_a_plain_model_writes_and_nothing_is_found(kind: str) -> None:
    with open_place(kind) as place:
        live(place, N_SEQUENCES, ProbedLives, derandomize=True)
        tally = place.tally
    assert tally.n_tasks > 3 * N_SEQUENCES
    assert tally.operations["restores probed"] > 10
    assert {f"probe-{level.value}" for level in ProbeLevel} <= set(tally.operations)


@pytest.mark.parametrize("level", [ProbeLevel.HIDDEN, ProbeLevel.STATE])
@pytest.mark.parametrize("kind", ["qwen35-rollback", "qwen3next-cow", "qwen35-host", "glm4moe"])
def test_that_a_storm_of_cancels_finds_nothing_and_leaves_no_slot_stuck(kind: str, level: ProbeLevel) -> None:
    with open_place(kind) as place:
        place.bench.backend.set_probe(level, ())
        place.configure(Room(N_SLOTS, spacing=16))
        storm, store = Storm(place, 5), ProbeStore()
        while storm.n_cancelled < 60:
            storm.fill()
            for _ in range(storm.die.randrange(6)):
                storm.step()
            storm.strike()
            assert found(place, store) == []
        storm.check_next()
        assert found(place, store) == []
        assert len(store.results) > 20
