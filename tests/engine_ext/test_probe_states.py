"""What probes say of recurrent states, against states that were saved through ctypes alone and read apart here."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.library import core
from draftscope.engine.probes import ArrayKind, Fault, ProbeLevel, RestoreKind, StateStatus
from draftscope.engine.protocol import CheckpointMode
from tests.engine_ext.bare_llama import PARTIAL, Context, Row, load
from tests.engine_ext.probe_bench import ProbedBench, settings_for
from tests.engine_ext.slot_bytes import SlotBytes
from tests.engine_ext.state_blob import StateBlob, parse

SPACING = 32
TOKENS = tuple((step * 37) % 190 + 5 for step in range(120))
N_BACK = 70
"""Tokens that a rewind goes back to; the checkpoint before it is at 64."""


@pytest.fixture(params=["qwen35", "qwen3next"])
def path(request: pytest.FixtureRequest, made_model: Callable[[str], Path]) -> Path:
    return made_model(request.param)


def bare(path: Path) -> Context:
    """A context of libllama alone."""
    model = load(path)
    assert model is not None
    return Context(model)


def rewound(bench: ProbedBench, path: Path, fault: Fault, layer: int) -> tuple[np.ndarray, SlotBytes]:
    """Back to a checkpoint, with a fault; the layers that the probe compared, and the slot before it."""
    bench.load(path, settings_for(CheckpointMode.HOST, n_slots=1, prompt_checkpoint_spacing=SPACING))
    bench.backend.set_probe(ProbeLevel.STATE, ())
    bench.generate([TOKENS], 10)
    before = SlotBytes.parse(bench.backend.save_slot(0))
    bench.backend.inject_fault(fault, (), layer)
    bench.backend.rewind_slot(0, N_BACK)
    bench.collect()
    (probe,) = bench.of_kind(RestoreKind.REWIND)
    layers = bench.store.array(int(probe["t_start_ns"]), ArrayKind.LAYERS)
    assert layers is not None
    return layers, before


def state_in(context: Context, whole: bytes) -> StateBlob:
    """The recurrent part of a sequence's whole state, by way of libllama."""
    assert context.restore(0, whole, 0)
    return parse(context.save(0, PARTIAL))


def test_that_an_equal_state_is_the_one_that_ctypes_save_after_decoding_the_same_tokens(path: Path) -> None:
    bench = ProbedBench()
    layers, before = rewound(bench, path, Fault.NONE, -1)
    (probe,) = bench.of_kind(RestoreKind.REWIND)
    after = SlotBytes.parse(bench.backend.save_slot(0))
    bench.backend.unload()
    assert probe["state_status"] == StateStatus.EQUAL
    assert probe["position"] == 64
    assert not layers.any()

    context = bare(path)
    restored = state_in(context, after.target)
    saved = next(parse(one.state) for one in before.checkpoints if one.position == 64)
    context.clear()
    for first in (0, SPACING):
        part = TOKENS[first : first + SPACING]
        context.decode([Row(0, token, first + i, i + 1 == SPACING) for i, token in enumerate(part)])
    blob = context.save(0, PARTIAL)
    decoded = parse(blob)
    context.free()
    assert probe["state_bytes"] == len(blob)
    assert len(decoded.conv) == len(decoded.delta) == probe["n_layers"] == len(layers)
    for of in (restored, saved, decoded):
        assert of.positions == (63,)
        for ours, theirs in zip((*of.conv, *of.delta), (*saved.conv, *saved.delta), strict=True):
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("layer", [0, 1])
def test_that_a_state_with_a_skipped_layer_differs_by_what_ctypes_and_numpy_say(path: Path, layer: int) -> None:
    bench = ProbedBench()
    layers, before = rewound(bench, path, Fault.SKIP_LAYER, layer)
    (probe,) = bench.of_kind(RestoreKind.REWIND)
    after = SlotBytes.parse(bench.backend.save_slot(0))
    bench.backend.unload()
    context = bare(path)
    was, wrong = state_in(context, before.target), state_in(context, after.target)
    context.free()
    right = next(parse(one.state) for one in before.checkpoints if one.position == 64)
    expected = np.zeros_like(layers)
    for part, (theirs, ours) in enumerate(((right.conv, was.conv), (right.delta, was.delta))):
        difference = theirs[layer] - ours[layer]
        expected[layer, part] = np.abs(difference).max(), np.sqrt(np.mean(difference**2))
    assert layers == pytest.approx(expected, rel=1e-12)
    assert (layers[layer] > 0).all()
    assert (probe["state_status"], probe["worst_layer"]) == (StateStatus.DIFFERS, layer)
    assert probe["state_max_abs"] == layers[..., 0].max()
    assert probe["worst_part"] == layers[layer, :, 0].argmax()
    for number in range(len(layers)):
        source = was if number == layer else right
        assert np.array_equal(wrong.conv[number], source.conv[number])
        assert np.array_equal(wrong.delta[number], source.delta[number])


def test_that_a_state_after_a_native_rollback_is_that_of_the_tokens_decoded_anew_by_ctypes(path: Path) -> None:
    """Within what probes call rounding: a thousandth of the largest value."""
    bench = ProbedBench()
    bench.load(path, settings_for(CheckpointMode.ROLLBACK, n_slots=1))
    bench.backend.set_probe(ProbeLevel.STATE, ())
    bench.generate([TOKENS[:20]], 60)
    probes = bench.of_kind(RestoreKind.REJECTION)
    saved = SlotBytes.parse(bench.backend.save_slot(0))
    bench.backend.unload()
    assert len(probes) > 5
    assert set(probes["state_status"].tolist()) <= {StateStatus.EQUAL, StateStatus.ROUNDING}
    context = bare(path)
    held = state_in(context, saved.target)
    context.clear()
    tokens = np.frombuffer(saved.tokens, "<i4")[: saved.n_decoded].tolist()
    context.decode([Row(0, token, i, i == len(tokens) - 1) for i, token in enumerate(tokens)])
    anew = parse(context.save(0, PARTIAL))
    context.free()
    for ours, theirs in zip((*held.conv, *held.delta), (*anew.conv, *anew.delta), strict=True):
        assert np.abs(ours - theirs).max() <= np.abs(theirs).max() / 1024


# ---- bytes that are not a state


@pytest.fixture(scope="module")
def blob(random_qwen35: Path) -> bytes:
    """A state of a sequence."""
    context = bare(random_qwen35)
    context.decode([Row(0, token, i) for i, token in enumerate(TOKENS[:20])])
    state = context.save(0, PARTIAL)
    context.free()
    return state


def test_that_a_changed_value_is_found_in_its_layer_and_part(blob: bytes) -> None:
    assert core.compare_states(blob, blob) == [(True, 0.0, 0.0)] * 4
    for part, offset in enumerate(parse(blob).offsets):
        changed = bytearray(blob)
        value = np.frombuffer(changed, "<f4", 1, offset)
        was = float(value[0])
        value[0] = was + 0.5
        layer, kind = part % 2, part // 2
        found = core.compare_states(blob, bytes(changed))
        assert [equal for equal, _, _ in found] == [number != 2 * layer + kind for number in range(4)]
        assert found[2 * layer + kind][1] == pytest.approx(0.5, abs=1e-6)


def test_that_bytes_of_no_known_layout_are_an_unknown_layout_and_no_crash(blob: bytes) -> None:
    for n in (0, 1, 7, 8, 11, 12, 20, 27, 28, 40, len(blob) - 1):
        assert core.compare_states(blob[:n], blob) is None
        assert core.compare_states(blob, blob[:n]) is None
    assert core.compare_states(blob + b"\0", blob) is None
    for place, value in ((8, 0xFFFFFFFF), (8, 0), (8, 2), (20, 1), (24, 0), (28, 0x7FFFFFFF), (28, 0xFFFFFFFF)):
        damaged = bytearray(blob)
        damaged[place : place + 4] = value.to_bytes(4, "little")
        assert core.compare_states(bytes(damaged), blob) is None, place
    for row_bytes in (0, 1, 1 << 62, (1 << 64) - 1):
        damaged = bytearray(blob)
        damaged[32:40] = row_bytes.to_bytes(8, "little")
        assert core.compare_states(bytes(damaged), blob) is None, row_bytes


def test_that_bytes_damaged_at_random_are_read_without_a_crash(blob: bytes) -> None:
    die = random.Random(3)
    heads = [8, 12, 20, 24, *(offset - 12 for offset in parse(blob).offsets)]
    n_unknown = 0
    for _ in range(2000):
        damaged = bytearray(blob[: die.choice((len(blob), die.randrange(len(blob))))])
        for _ in range(die.randrange(1, 4)):
            place = die.choice(heads) + die.randrange(12)
            if place < len(damaged):
                damaged[place] = die.randrange(256)
        n_unknown += core.compare_states(bytes(damaged), blob) is None
    assert 1500 < n_unknown < 2000
