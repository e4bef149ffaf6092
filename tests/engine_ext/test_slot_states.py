"""States that are saved and restored: the same continuation elsewhere, and nothing changed by one that is malformed."""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable, Iterator

import pytest

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Kind as RecordKind
from draftscope.engine.events import Operation, Reuse
from draftscope.engine.library import engine_facts
from draftscope.engine.protocol import Prompt, SlotTask
from tests.engine_ext.harness import GREEDY
from tests.engine_ext.slot_bytes import Rows, SlotBytes
from tests.engine_ext.slot_place import N_CTX, Place, Room, base_text, check_all, memory_of, open_place

KINDS = ("qwen35-rollback", "qwen35-host", "qwen3next-cow", "glm4moe", "step35", "gemma4-plain")
TEXT, OTHER = base_text(0), base_text(1)
IS_STOCK = not engine_facts().patches


def fill(place: Place) -> bytes:
    """Contexts with two slots that have each done a task; returns slot 0 as bytes."""
    place.configure(Room(2, spacing=16))
    for slot, prompt in enumerate((TEXT[:60], OTHER[:70])):
        place.bench.submit(SlotTask(slot, Prompt(), GREEDY, 16, ignore_eos=True), prompt)
        place.bench.finish()
    return bytes(place.engine.save_slot(0))


def check_refused(place: Place, change: Callable[[], None], n_slots: int = 2) -> None:
    """It is refused with a reason and counted, and nothing is another than before."""
    before = [(memory_of(place, one), place.engine.slot_facts(one)) for one in range(n_slots)]
    n_refused = place.engine.counts()["n_refused_states"]
    with pytest.raises(EngineError) as refused:
        change()
    assert refused.value.code is ErrorCode.BAD_STATE
    assert "refused" in refused.value.message
    assert place.engine.counts()["n_refused_states"] == n_refused + 1
    assert [(memory_of(place, one), place.engine.slot_facts(one)) for one in range(n_slots)] == before


def check_goes_on(place: Place) -> None:
    """Both slots write on as plain decoding does, from what they hold."""
    for slot in range(2):
        held = tuple(place.engine.slot_tokens(slot))
        place.bench.submit(SlotTask(slot, Prompt(is_continuation=True), GREEDY, 12, ignore_eos=True), TEXT[:3])
        (result,) = place.bench.finish()
        place.check_tokens(held + TEXT[:3], result.tokens)
        assert result.n_reused >= len(held) - 1
    check_all(place, 2)


# ---- malformed


def malformed_rows(good: bytes) -> Iterator[tuple[str, bytes]]:
    """Every way in which hidden rows can be wrong, with a name."""
    rows, die = Rows.parse(good), random.Random(1)
    row = len(rows.payload) // rows.n_rows
    for n in (1, 3, 4, 8, 12, 16, 20, 23, 24, 25, len(good) - 1):
        yield f"cut to {n} bytes", good[:n]
    yield "longer", good + bytes(4)
    for field, values in (
        ("magic", (0, rows.magic ^ 1, 0xFFFFFFFF)),
        ("version", (0, 2, 0xFFFFFFFF)),
        ("width", (0, rows.width - 1, 2 * rows.width, 0xFFFFFFFF)),
        ("n_rows", (0, rows.n_rows - 1, rows.n_rows + 1, 1 << 31, 0xFFFFFFFF)),
        ("n_positions", (-1, rows.n_positions - 1, rows.n_positions + 1, 1 << 20, -(1 << 31), (1 << 31) - 1)),
        ("n_missing", (-1, rows.n_positions, rows.n_positions + 1, (1 << 31) - 1)),
    ):
        for value in values:
            yield f"{field} {value}", dataclasses.replace(rows, **{field: value}).build()
    fewer = dataclasses.replace(rows, n_rows=rows.n_rows - 1, payload=rows.payload[row:])
    more = dataclasses.replace(rows, n_rows=rows.n_rows + 3, payload=rows.payload + bytes(3 * row))
    yield from (("a row fewer", fewer.build()), ("three rows more", more.build()))
    for name, bits in (("NaN", 0x7FC00000), ("-NaN", 0xFFC00001), ("inf", 0x7F800000), ("-inf", 0xFF800000)):
        for _ in range(2):
            at = 4 * die.randrange(len(rows.payload) // 4)
            changed = rows.payload[:at] + struct.pack("<I", bits) + rows.payload[at + 4 :]
            yield f"{name} at {at}", dataclasses.replace(rows, payload=changed).build()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gemma4-plain"])
def test_that_malformed_hidden_rows_change_nothing(kind: str) -> None:
    with open_place(kind) as place:
        fill(place)
        good = bytes(place.engine.get_state(1))
        for _name, bad in malformed_rows(good):
            check_refused(place, lambda bad=bad: place.engine.set_state(1, bad))  # type: ignore[misc]
        assert place.engine.get_state(1) == good
        check_goes_on(place)


def malformed_slots(good: bytes) -> Iterator[tuple[str, bytes]]:
    """Ways in which a saved slot can be wrong; where a part was changed, the hash is right."""
    saved, die = SlotBytes.parse(good), random.Random(2)
    assert saved.build() == good
    for n in sorted(
        {0, 1, 39, *saved.borders, *(border - 1 for border in saved.borders), len(good) - 8, len(good) - 1}
    ):
        yield f"cut to {n} bytes", good[:n]
    for n in (die.randrange(len(good)) for _ in range(10)):
        yield f"cut to {n} bytes", good[:n]
    yield "longer", good + bytes(8)
    for at in (die.randrange(len(good)) for _ in range(40)):
        yield f"a bit of byte {at}", good[:at] + bytes([good[at] ^ 1 << die.randrange(8)]) + good[at + 1 :]
    for field, values in (
        ("magic", (0, saved.magic ^ 1)),
        ("version", (0, 2, 0xFFFFFFFF)),
        ("n_tokens", (0, -1, saved.n_tokens - 1, saved.n_tokens + 1, (1 << 31) - 1, -(1 << 31))),
        ("n_decoded", (0, -1, saved.n_tokens + 1, (1 << 31) - 1)),
    ):
        for value in values:
            yield f"{field} {value}", dataclasses.replace(saved, **{field: value}).build()
    sizes = (len(saved.target), len(saved.draft), len(saved.rows), len(saved.checkpoints))
    for i in range(4):
        for value in (sizes[i] + 1, 1 << 31, 1 << 63, (1 << 64) - 1, (1 << 64) - max(1, sizes[i])):
            yield f"size {i} is {value}", dataclasses.replace(saved, sizes=(*sizes[:i], value, *sizes[i + 1 :])).build()
    yield (
        "a token outside the vocabulary",
        dataclasses.replace(saved, tokens=struct.pack("<i", 1 << 20) + saved.tokens[4:]).build(),
    )
    longer = dataclasses.replace(saved, n_tokens=N_CTX + 1, tokens=(saved.tokens * 4)[: 4 * (N_CTX + 1)])
    yield "longer than the context", longer.build()
    yield from malformed_parts(saved)


def malformed_parts(saved: SlotBytes) -> Iterator[tuple[str, bytes]]:
    """Parts that do not belong together."""
    yield "no state of the target", dataclasses.replace(saved, target=b"").build()
    yield "one position fewer", dataclasses.replace(saved, n_decoded=saved.n_decoded - 1).build()
    if saved.rows:
        yield "rows without a state", dataclasses.replace(saved, draft=b"", checkpoints=()).build()
        yield "a state without rows", dataclasses.replace(saved, rows=b"", checkpoints=()).build()
        for name, rows in malformed_rows(saved.rows):
            yield f"rows: {name}", dataclasses.replace(saved, rows=rows).build()
    if saved.checkpoints:
        last = saved.checkpoints[-1]
        for position in (0, -1, saved.n_decoded + 1, 1 << 40):
            moved = dataclasses.replace(last, position=position)
            yield f"a checkpoint at {position}", dataclasses.replace(saved, checkpoints=(moved,)).build()
        yield "the same checkpoint twice", dataclasses.replace(saved, checkpoints=(last, last)).build()


@pytest.mark.parametrize("kind", KINDS)
def test_that_a_malformed_saved_slot_changes_nothing(kind: str) -> None:
    with open_place(kind) as place:
        good = fill(place)
        for _name, bad in malformed_slots(good):
            check_refused(place, lambda bad=bad: place.engine.restore_slot(1, bad))  # type: ignore[misc]
        check_goes_on(place)


# Two of the same shape are told apart by the fingerprint in a slot file.
OTHERS = {
    "qwen35-rollback": "qwen3next-rollback",
    "step35": "glm4moe",
    "gemma4-plain": "dense",
    "dense": "gemma4-plain",
    "demo-rollback": "qwen35-rollback",
}


@pytest.mark.parametrize(("kind", "other"), OTHERS.items())
def test_that_a_slot_of_another_model_changes_nothing(kind: str, other: str) -> None:
    with open_place(other) as place:
        foreign = fill(place)
    with open_place(kind) as place:
        fill(place)
        check_refused(place, lambda: place.engine.restore_slot(1, foreign))
        check_goes_on(place)


# ---- elsewhere


@dataclasses.dataclass(frozen=True)
class Continuation:
    """What a slot wrote next, and how; ``probabilities`` of all tokens, drafted ones included."""

    tokens: tuple[int, ...]
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    n_reused: int
    n_prompt_decodes: int
    probabilities: tuple[float, ...]


def go_on(place: Place, slot: int) -> Continuation:
    """Three tokens more as a prompt, and 24 from the model, which are those of plain decoding."""
    engine = place.engine
    place.bench.ring.read()
    held, n_before = tuple(engine.slot_tokens(slot)), engine.counts()["prompt"]
    place.bench.submit(SlotTask(slot, Prompt(is_continuation=True), GREEDY, 24, ignore_eos=True), OTHER[:3])
    (result,) = place.bench.finish()
    place.check_tokens(held + OTHER[:3], result.tokens)
    check_all(place, place.n_slots)
    records = place.bench.ring.read()
    values = records[records["kind"] == RecordKind.TOKEN]["value"].tolist()
    n_prompt_decodes = engine.counts()["prompt"] - n_before
    return Continuation(
        result.tokens, result.drafted_at, result.accepted_at, result.n_reused, n_prompt_decodes, tuple(values)
    )


@pytest.mark.parametrize(
    "kind",
    [
        "qwen35-rollback",
        "qwen35-device",
        "qwen3next-host",
        "qwen3next-cow",
        "glm4moe",
        "step35",
        "gemma4-plain",
        "dense",
        "demo-rollback",
    ],
)
def test_that_a_slot_goes_on_in_another_slot_of_a_new_engine_as_if_nothing_had_happened(kind: str) -> None:
    with open_place(kind) as place:
        saved = fill(place)
        n_decoded = place.engine.slot_facts(0)["n_decoded"]
        expected = go_on(place, 0)
    with open_place(kind) as place:
        place.configure(Room(3 if not IS_STOCK else 2, spacing=16))
        slot = place.n_slots - 1
        place.engine.restore_slot(slot, saved)
        found = go_on(place, slot)
    assert found == expected  # probabilities, too, to the last bit
    assert found.n_reused == n_decoded
    assert found.n_prompt_decodes <= 1 + (3 if kind == "step35" else 1)  # of the target and of each MTP head


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("qwen35-plain", "qwen35-rollback"),
        ("qwen35-plain", "qwen35-host"),
        ("qwen35-rollback", "qwen35-plain"),
        ("qwen35-host", "qwen35-rollback"),
        ("qwen35-rollback", "qwen35-device"),
        ("step35-plain", "step35"),
        ("step35", "step35-plain"),
    ],
)
def test_that_a_slot_goes_on_with_another_way_back_or_without_mtp(kind: str, other: str) -> None:
    with open_place(kind) as place:
        saved = fill(place)
        n_decoded = place.engine.slot_facts(0)["n_decoded"]
    with open_place(other) as place:
        place.configure(Room(2, spacing=16))
        place.bench.ring.read()
        place.engine.restore_slot(1, saved)
        records = place.bench.ring.read()
        restored = records[records["code"] == Operation.SLOT_RESTORE][-1]
        lacks_rows = "plain" in kind and "plain" not in other
        assert restored["m"] == (Reuse.REFUSED if lacks_rows else Reuse.KEPT)
        found = go_on(place, 1)
    assert found.n_reused == n_decoded
    assert sum(found.accepted) > 0 or "plain" in other


@pytest.mark.parametrize(
    ("kind", "other", "n_slots"),
    [
        ("qwen35-rollback", "qwen35-rollback", 4),
        ("glm4moe", "glm4moe", 1),
        ("qwen35-rollback", "qwen35-cow", 2),
        ("qwen35-cow", "qwen35-host", 2),
    ],
)
def test_that_a_slot_of_another_layout_goes_on_or_the_stock_library_refuses_it(
    kind: str, other: str, n_slots: int
) -> None:
    with open_place(kind) as place:
        saved = fill(place)
    with open_place(other) as place:
        place.configure(Room(n_slots, spacing=16))
        place.bench.submit(SlotTask(0, Prompt(), GREEDY, 16, ignore_eos=True), TEXT[:70])
        place.bench.finish()
        if IS_STOCK:  # it writes how many streams of keys there are, and takes a state for that number only
            check_refused(place, lambda: place.engine.restore_slot(0, saved), n_slots)
        else:
            place.engine.restore_slot(0, saved)
            assert len(place.engine.slot_tokens(0)) == 76
        go_on(place, 0)
