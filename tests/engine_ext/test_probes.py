"""Probes change nothing of a run, find nothing where nothing is wrong, and name each fault by what it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from draftscope.engine.events import Kind
from draftscope.engine.probes import ArrayKind, Fault, ProbeLevel, RestoreKind, StateStatus
from draftscope.engine.protocol import CheckpointMode, ContextSettings, Prompt, SlotTask
from draftscope.trace.restore_diagnosis import diagnose
from draftscope.trace.restore_verdict import Verdict
from tests.engine_ext.harness import GREEDY, PromptLike, token_prompts
from tests.engine_ext.probe_bench import ProbedBench, assert_equal, differing, run_probed, settings_for

MODES = (CheckpointMode.ROLLBACK, CheckpointMode.COW, CheckpointMode.DEVICE, CheckpointMode.HOST)
RECURRENT = ("demo", "qwen35", "qwen3next")
OTHERS = ("glm4moe", "step35", "hy_v3", "gemma4")
SETTINGS = [(name, mode) for name in RECURRENT for mode in MODES] + [(name, CheckpointMode.AUTO) for name in OTHERS]
DEMO_PROMPTS: list[PromptLike] = ["The committee of the city decided that the", "def parse(self, text):\n"]

by_setting = pytest.mark.parametrize(("name", "mode"), SETTINGS, ids=[f"{n}-{m.value}" for n, m in SETTINGS])


@pytest.fixture
def files(demo_model: Path, made_model: Callable[[str], Path]) -> Callable[[str], tuple[Path, dict[str, object]]]:
    """Path of a model of this file, and the other fields of its settings."""

    def of(name: str) -> tuple[Path, dict[str, object]]:
        if name == "demo":
            return demo_model, {}
        return made_model(name), {"draft_path": str(made_model("gemma4-assistant"))} if name == "gemma4" else {}

    return of


Files = Callable[[str], tuple[Path, dict[str, object]]]


def prompts_for(name: str, mode: CheckpointMode = CheckpointMode.AUTO) -> list[PromptLike]:
    """In mode cow slots share a cache, and near-ties of a model that knows texts depend on how batches are cut."""
    if name == "demo":
        return DEMO_PROMPTS[:1] if mode is CheckpointMode.COW else DEMO_PROMPTS
    return token_prompts(2)


# ---- nothing is changed, and nothing is found


@by_setting
def test_that_tokens_drafts_and_probabilities_are_the_same_at_every_level(
    name: str, mode: CheckpointMode, files: Files
) -> None:
    path, model = files(name)
    plain = run_probed(path, prompts_for(name, mode), settings_for(mode), ProbeLevel.OFF, **model)
    assert len(plain.store.probes) == len(plain.rows) == 0
    n_restores = len(plain.store.kind(Kind.RESTORE))
    for level in (ProbeLevel.HIDDEN, ProbeLevel.LOGITS, ProbeLevel.STATE):
        probed = run_probed(path, prompts_for(name, mode), settings_for(mode), level, **model)
        assert probed.granted == plain.granted
        assert probed.tokens == plain.tokens
        assert probed.drafts == plain.drafts
        assert len(probed.store.probes) == n_restores > 5
        assert_equal(probed.store.probes)
        assert np.array_equal(probed.rows["n"], probed.rows["position"])
        assert len(probed.rows) == len(probed.store.kind(Kind.ROUND))


@by_setting
def test_that_a_probe_of_each_level_measures_what_the_level_says(name: str, mode: CheckpointMode, files: Files) -> None:
    path, model = files(name)
    hidden, logits, state = (
        run_probed(path, prompts_for(name, mode), settings_for(mode), level, **model).store
        for level in (ProbeLevel.HIDDEN, ProbeLevel.LOGITS, ProbeLevel.STATE)
    )
    for store in (hidden, logits, state):
        assert (store.probes["restored_n_differing"] == 0).all()
        assert (store.probes["without_max_abs"] > 0).all()
        assert (store.probes["without_n_differing"] > 0).all()
        assert (store.probes["companion_n"] == store.probes["companion_expected"]).all()
    assert (hidden.probes["n_vocab"] == 0).all()
    assert (logits.probes["state_status"] == StateStatus.NOT_PROBED).all()
    for store in (logits, state):
        tried = store.probes[store.probes["n_vocab"] > 0]
        assert len(tried) > 5
        assert (tried["restored_n_changed"] == 0).all()
        assert (tried["without_n_changed"] > 0).all()
        assert (tried["restored_accepted"] == tried["saved_accepted"]).all()
        assert (tried["restored_kl"] == 0).all()
    statuses = set(state.probes["state_status"].tolist())
    if name in OTHERS:
        assert statuses == {StateStatus.NO_RECURRENT_LAYERS}
    elif mode is CheckpointMode.ROLLBACK:
        assert statuses <= {StateStatus.EQUAL, StateStatus.ROUNDING}
    else:
        assert statuses == {StateStatus.EQUAL}


def test_that_the_arrays_of_a_probe_are_the_rows_and_drafts_that_its_figures_are_about(files: Files) -> None:
    path, model = files("qwen35")
    store = run_probed(path, token_prompts(2), settings_for(), ProbeLevel.STATE, **model).store
    assert len(store.probes) > 5
    for probe in store.probes:
        t_ns = int(probe["t_start_ns"])
        rows = store.array(t_ns, ArrayKind.ROWS)
        assert rows is not None
        saved, restored, without = rows
        difference = np.abs(saved.astype(np.float64) - without)
        assert np.array_equal(saved, restored)
        assert len(saved) == probe["row_width"] == 64
        assert probe["without_max_abs"] == difference.max()
        assert probe["without_worst"] == difference.argmax()
        assert probe["without_rms"] == pytest.approx(np.sqrt(np.mean(difference**2)))
        assert probe["without_n_differing"] == np.count_nonzero(saved != without)
        cosine = np.dot(saved, without) / np.linalg.norm(saved) / np.linalg.norm(without)
        assert probe["without_cosine"] == pytest.approx(cosine, abs=1e-5)
        fingerprints = store.array(t_ns, ArrayKind.FINGERPRINTS)
        assert fingerprints is not None
        assert fingerprints[-1, 0] == probe["row_position"]
        drafts = store.array(t_ns, ArrayKind.DRAFT_TOKENS)
        if probe["n_vocab"]:
            assert drafts is not None
            assert drafts[:, 0].tolist() == [probe["saved_top"], probe["restored_top"], probe["without_top"]]
            n_same = np.argmin(np.append(drafts[0] == drafts[2], False))
            assert probe["without_n_same"] == n_same


# ---- faults

MEASURES = {
    Fault.OMIT_HOOK: {Verdict.ROW_OF_OTHER_POSITION, Verdict.ROW_UNKNOWN},
    Fault.ZERO_ROW: {Verdict.ROW_ZERO},
    Fault.STALE_ROW: {Verdict.ROW_OF_OTHER_POSITION, Verdict.ROW_UNKNOWN},
    Fault.SKIP_LAYER: {Verdict.STATE_DIFFERS},
    Fault.COMPANION_BEHIND: {Verdict.COMPANION_LENGTH, Verdict.COMPANION_WRONG},
}
"""What each fault is to be seen by."""

ROW_FAULTS = (Fault.OMIT_HOOK, Fault.ZERO_ROW, Fault.STALE_ROW)


def can_be_injected(name: str, fault: Fault) -> bool:
    """Where there are no recurrent layers none can be skipped; an assistant has no memory that could stay behind."""
    if fault is Fault.SKIP_LAYER:
        return name in RECURRENT
    return fault is not Fault.COMPANION_BEHIND or name != "gemma4"


@pytest.mark.parametrize("fault", MEASURES)
@by_setting
def test_that_a_fault_after_rejected_drafts_is_found_and_named(
    name: str, mode: CheckpointMode, fault: Fault, files: Files
) -> None:
    path, model = files(name)
    plain = run_probed(path, prompts_for(name, mode), settings_for(mode), ProbeLevel.OFF, **model)
    faulty = run_probed(path, prompts_for(name, mode), settings_for(mode), ProbeLevel.STATE, fault, **model)
    probes = faulty.store.probes
    if not can_be_injected(name, fault):
        assert not probes["fault"].any()
        assert_equal(probes)
        return
    assert (probes["fault"] == list(Fault).index(fault)).sum() > 5
    assert set(differing(probes)) <= MEASURES[fault]
    found = diagnose(probes)
    assert found is not None
    assert found.cause is fault
    assert found.n > 0.8 * len(probes)
    if fault is not Fault.SKIP_LAYER:
        assert faulty.tokens == plain.tokens
    if fault in ROW_FAULTS and plain.granted in ("rollback", "kv_removal"):  # elsewhere a replay makes the row anew
        assert (faulty.rows["n"] != faulty.rows["position"]).sum() > 5


@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, CheckpointMode.HOST])
def test_that_the_layer_which_was_skipped_is_named_and_no_other(mode: CheckpointMode, files: Files) -> None:
    path, _ = files("qwen35")
    for layer in (0, 1):
        bench = ProbedBench()
        bench.load(path, settings_for(mode))
        bench.backend.set_probe(ProbeLevel.STATE, ())
        bench.backend.inject_fault(Fault.SKIP_LAYER, (), layer)
        bench.generate(token_prompts(2), 40)
        probes = bench.store.probes
        assert len(probes) > 3
        assert set(probes["worst_layer"].tolist()) == {layer}
        assert set(probes["n_layers_differing"].tolist()) == {1}
        bench.backend.unload()


def edited(path: Path, settings: ContextSettings, fault: Fault, level: ProbeLevel = ProbeLevel.STATE) -> ProbedBench:
    """A prompt, then shorter and shorter edits of it, in one slot; nothing is drafted in between."""
    bench = ProbedBench()
    bench.load(path, settings)
    bench.backend.set_probe(level, ())
    whole = tuple((step * 37) % 190 + 5 for step in range(200))
    bench.generate([whole], 12)
    bench.backend.inject_fault(fault, (), -1)
    for n in (150, 110, 70, 40):
        bench.generate([(*whole[:n], 7, 8, 9)], 12)
    return bench


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, CheckpointMode.HOST])
def test_that_prompt_checkpoints_are_restored_bit_for_bit_at_every_position(
    name: str, mode: CheckpointMode, files: Files
) -> None:
    bench = edited(files(name)[0], settings_for(mode, n_slots=1, prompt_checkpoint_spacing=32), Fault.NONE)
    restores = bench.of_kind(RestoreKind.PROMPT)
    assert restores["position"].tolist() == [128, 96, 64, 32]
    assert_equal(bench.store.probes)
    assert np.array_equal(restores["restored_position"], restores["position"] - 1)
    assert (restores["without_max_abs"] > 0).all()
    assert (restores["without_n_changed"] > 0).all()
    assert (restores["state_status"] == StateStatus.EQUAL).all()
    bench.backend.unload()


@pytest.mark.parametrize("fault", MEASURES)
@pytest.mark.parametrize("name", RECURRENT)
def test_that_a_fault_after_prompt_checkpoints_is_found_and_named(name: str, fault: Fault, files: Files) -> None:
    bench = edited(files(name)[0], settings_for(CheckpointMode.HOST, n_slots=1, prompt_checkpoint_spacing=32), fault)
    restores = bench.of_kind(RestoreKind.PROMPT)
    assert len(restores) == 4
    assert (restores["fault"] == list(Fault).index(fault)).all()
    assert set(differing(restores)) <= MEASURES[fault]
    assert len(differing(restores)) == 4
    found = diagnose(restores)
    assert found is not None
    assert found.cause is fault
    bench.backend.unload()


# ---- the row in use by its position


@pytest.mark.parametrize(
    ("name", "mode"), [*((n, m) for n in ("demo", "qwen35") for m in MODES), ("glm4moe", MODES[0])]
)
def test_that_the_row_in_use_is_named_by_its_true_position_in_every_one_of_200_rounds(
    name: str, mode: CheckpointMode, files: Files
) -> None:
    """The first drafted token follows the one sampled last, whose row is not made yet: the row is of the one before."""
    path, model = files(name)
    settings = settings_for(mode, n_ctx=1024)
    done = run_probed(path, prompts_for(name)[:1], settings, ProbeLevel.HIDDEN, max_tokens=950, **model)
    tokens = done.store.kind(Kind.TOKEN)
    first = tokens[tokens["n"] == 1]
    rows = done.rows[np.isin(done.rows["round"], first["round"])]  # the last draft may be cut to nothing
    assert len(rows) >= max(200, len(done.rows) - 1)
    assert np.array_equal(rows["round"], first["round"])
    assert np.array_equal(rows["n"], first["position"] - 2)
    assert np.array_equal(done.rows["position"], done.rows["n"])


# ---- while running, and by slot


def test_that_levels_change_between_two_steps_and_for_single_slots(files: Files) -> None:
    path, _ = files("qwen35")
    plain = run_probed(path, token_prompts(2), settings_for(), ProbeLevel.OFF)
    bench = ProbedBench()
    bench.load(path, settings_for())
    for slot, prompt in enumerate(token_prompts(2)):
        bench.submit(SlotTask(slot, Prompt(), GREEDY, 60, ignore_eos=True), prompt)
    n_steps = 0
    while bench.backend.step():
        bench.collect()
        bench.backend.set_probe(list(ProbeLevel)[n_steps % 4], (n_steps // 4 % 2,))
        n_steps += 1
    bench.collect()
    results = sorted(bench.backend.take_results(), key=lambda result: result.slot)
    assert [result.tokens for result in results] == plain.tokens
    probes = bench.store.probes
    assert set(np.unique(probes["level"])) == {1, 2, 3}
    assert set(np.unique(probes["slot"])) == {0, 1}
    assert differing(probes) == []
    rows = bench.store.kind(Kind.ROW)
    assert len(rows) > 10
    assert np.array_equal(rows["n"], rows["position"])
    bench.backend.unload()


def test_that_only_the_slots_that_were_named_are_probed_and_spoilt(files: Files) -> None:
    path, _ = files("qwen35")
    bench = ProbedBench()
    bench.load(path, settings_for(CheckpointMode.HOST))
    bench.backend.set_probe(ProbeLevel.LOGITS, (1,))
    bench.backend.inject_fault(Fault.ZERO_ROW, (0,), -1)
    bench.generate(token_prompts(2), 40)
    assert set(bench.store.probes["slot"].tolist()) == {1}
    assert_equal(bench.store.probes)
    bench.backend.unload()


# ---- whole states


def _places(path: Path, mode: CheckpointMode) -> ProbedBench:
    """Two slots that hold different things, the first with prompt checkpoints; probed."""
    bench = ProbedBench()
    bench.load(path, settings_for(mode, prompt_checkpoint_spacing=32))
    bench.backend.set_probe(ProbeLevel.STATE, ())
    whole = tuple((step * 37) % 190 + 5 for step in range(120))
    bench.generate([whole, whole[::-1][:50]], 20)
    return bench


def _change(bench: ProbedBench, kind: RestoreKind) -> None:
    """A restore of that kind, of slot 0 or into slot 1."""
    if kind is RestoreKind.FORK:
        bench.backend.fork_slot(0, 1)
    elif kind is RestoreKind.SLOT:
        bench.backend.restore_slot(1, bench.backend.save_slot(0))
    elif kind is RestoreKind.REWIND:
        bench.backend.rewind_slot(0, 70)
    else:  # another prompt drives the old one into the cache, which then comes again
        held = bench.backend.slot_tokens(0)
        for prompt in (tuple(range(60, 5, -1)), (*held, 9, 10)):
            bench.submit(SlotTask(0, Prompt(), GREEDY, 8, ignore_eos=True), prompt)
            bench.finish()
    bench.collect()


WHOLE = (RestoreKind.FORK, RestoreKind.SLOT, RestoreKind.REWIND, RestoreKind.CACHE)


def _go_on(bench: ProbedBench) -> None:
    for slot in (0, 1):
        bench.submit(SlotTask(slot, Prompt(is_continuation=True), GREEDY, 20, ignore_eos=True), (11, 12))
    bench.finish()


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("name", ["qwen35", "qwen3next", "glm4moe"])
@pytest.mark.parametrize("mode", [CheckpointMode.ROLLBACK, CheckpointMode.HOST])
def test_that_forks_slot_files_rewinds_and_cached_prompts_put_back_what_was_saved(
    name: str, mode: CheckpointMode, kind: RestoreKind, files: Files
) -> None:
    bench = _places(files(name)[0], mode)
    _change(bench, kind)
    _go_on(bench)
    restores = bench.of_kind(kind)
    if name == "glm4moe" and kind is RestoreKind.REWIND:
        assert len(restores) == 0  # a tail is dropped, and no state put back
    else:
        assert len(restores) == 1
        assert (restores["restored_n_differing"] == 0).all()
        assert (restores["restored_n_changed"] <= 0).all()
    assert differing(bench.store.probes) == []
    rows = bench.store.kind(Kind.ROW)
    assert np.array_equal(rows["n"], rows["position"])
    bench.backend.unload()


@pytest.mark.parametrize("fault", [*ROW_FAULTS, Fault.COMPANION_BEHIND])
@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.name.lower())
def test_that_a_fault_is_found_after_forks_slot_files_rewinds_and_cached_prompts(
    kind: RestoreKind, fault: Fault, files: Files
) -> None:
    bench = _places(files("qwen35")[0], CheckpointMode.HOST)
    bench.backend.inject_fault(fault, (), -1)
    _change(bench, kind)
    restores = bench.of_kind(kind)
    assert len(restores) == 1
    assert restores["fault"].tolist() == [list(Fault).index(fault)]
    assert len(differing(restores)) == 1
    assert set(differing(restores)) <= MEASURES[fault]
    bench.backend.unload()
