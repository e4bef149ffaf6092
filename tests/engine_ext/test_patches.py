"""Our patches of llama.cpp, each against libllama alone: right with the patch, and wrong or aborting without it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftscope.engine.library import engine_facts
from draftscope.engine.protocol import ContextSettings
from engine_ext.llama.build_wheel import patch_files
from tests.engine_ext.harness import open_bench
from tests.models.families import HybridShape, make_hybrid

ROOT = Path(__file__).parents[2]

REFUSED_RESTORES = (
    "restore_of_nothing_saved",
    "restore_with_bad_magic",
    "restore_of_other_size",
    "restore_with_bytes_too_many",
    "restore_of_another_kind",
    "restore_of_an_older_state",
)
KEPT_STATE = {"saved": 0, "taken": True, "is_right": True}


def ask(
    probe: str, model: Path, *, stock: bool = False, module: str = "patch_probes", **variables: str
) -> dict[str, object] | list[dict[str, object]]:
    """The answer of the patched library, or of the stock one; {"aborted": ...} when the process ended.

    ``variables``: of the environment, beside those of this process.
    """
    environment = os.environ | variables
    if stock:
        if not (site := environment.get("DRAFTSCOPE_STOCK_SITE")):
            pytest.fail("DRAFTSCOPE_STOCK_SITE is not set: run the tests through 'make test', which builds it.")
        environment["PYTHONPATH"] = site
    command = [sys.executable, "-m", f"tests.engine_ext.{module}", probe, str(model)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode < 0:
        return {"aborted": -done.returncode}
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] | list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def ask_graphs(probe: str, model: Path, *, stock: bool = False, **variables: str) -> dict[str, Any]:
    """The same of ``graph_probes``."""
    answer = ask(probe, model, stock=stock, module="graph_probes", **variables)
    assert isinstance(answer, dict)
    return answer


@pytest.fixture(scope="module")
def model_of_large_states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """qwen35 with 8 MiB of recurrent state a sequence, more than the heap has lying about."""
    return make_hybrid("qwen35", HybridShape(delta_heads=(1, 64, 128))).write(
        tmp_path_factory.mktemp("models") / "large-states.gguf"
    )


def test_that_the_library_names_its_patches() -> None:
    assert engine_facts().patches == tuple(patch.stem for patch in patch_files(True))


@pytest.mark.parametrize("probe", REFUSED_RESTORES)
def test_that_patch_2_refuses_a_device_state_and_leaves_the_sequence_as_it_was(probe: str, random_qwen35: Path) -> None:
    position = 8 if probe == "restore_of_nothing_saved" else 11
    refused = {"taken": False, "position": position, "is_unchanged": True}
    assert ask(probe, random_qwen35) == refused
    assert ask(probe, random_qwen35, stock=True) != refused


def test_that_patch_2_keeps_the_older_device_state_when_a_save_has_too_little_room(random_qwen35: Path) -> None:
    assert ask("save_into_too_little_room", random_qwen35) == KEPT_STATE
    assert ask("save_into_too_little_room", random_qwen35, stock=True) != KEPT_STATE


def test_that_patch_2_refuses_a_save_that_the_device_has_no_memory_for(model_of_large_states: Path) -> None:
    assert ask("save_without_memory_for_it", model_of_large_states) == KEPT_STATE
    assert "aborted" in ask("save_without_memory_for_it", model_of_large_states, stock=True)


def test_that_patch_2_refuses_to_save_several_ranges_of_cells(random_qwen35: Path) -> None:
    assert ask("device_state_of_several_ranges", random_qwen35) == {"saved": 0, "is_unchanged": True}
    assert "aborted" in ask("device_state_of_several_ranges", random_qwen35, stock=True)


@pytest.mark.parametrize("name", ["qwen35", "glm4moe", "qwen3next", "step35"])
def test_that_patch_3_returns_the_hidden_rows_of_the_outputs(name: str, made_model: Callable[[str], Path]) -> None:
    answer = ask("rows_of_masked_outputs", made_model(name))
    assert isinstance(answer, dict)
    assert answer["is_right"], answer
    stock = ask("rows_of_masked_outputs", made_model(name), stock=True)
    assert isinstance(stock, dict)
    assert stock["is_right"] == (name in {"qwen3next", "step35"})


@pytest.mark.parametrize("name", ["qwen35", "qwen3next"])
def test_that_with_patch_3_the_driver_asks_for_the_rows_of_outputs_alone(
    name: str, made_model: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "draftscope.llama"), open_bench(made_model(name), ContextSettings(n_threads=1)):
        asked = [line.split()[-1] for line in caplog.messages if "set_embeddings_nextn" in line]
    assert asked[-1] == "1"  # targets come before and keep all rows (0); unpatched, the draft of qwen35 ends with 0


def test_that_patch_4_grants_only_rollbacks_within_the_last_decode(random_qwen35: Path) -> None:
    answers = ask("rollbacks", random_qwen35)
    assert isinstance(answers, list)
    assert {(a["n"], a["k"]) for a in answers if a["granted"]} == {
        (n, k) for n in range(1, 6) for k in range(1, min(n, 4))
    }
    # To the last bit, granted or not; a refused one leaves the position as it was.
    assert {a["difference"] for a in answers} == {0.0}
    assert all(a["position"] == 8 + a["n"] - (a["k"] if a["granted"] else 0) for a in answers)  # type: ignore[operator]
    stock = ask("rollbacks", random_qwen35, stock=True)
    assert isinstance(stock, list)
    wrong = {(a["n"], a["k"]) for a in stock if a["granted"] and a["difference"] != 0.0}
    assert wrong == {(1, 1), (2, 2), (3, 3)}


@pytest.mark.parametrize("name", ["two-mtp-layers", "chained-mtp-without-tensors"])
def test_that_patch_5_refuses_an_mtp_context_that_cannot_be_built(name: str, made_model: Callable[[str], Path]) -> None:
    assert ask("mtp_context", made_model(name)) == {"loads": True, "is_made": False}
    assert "aborted" in ask("mtp_context", made_model(name), stock=True)


def test_that_patch_5_refuses_an_mtp_context_of_layers_that_were_not_loaded(random_qwen35: Path) -> None:
    assert ask("mtp_context_of_layers_not_loaded", random_qwen35) == {"is_made": False}
    assert "aborted" in ask("mtp_context_of_layers_not_loaded", random_qwen35, stock=True)


@pytest.mark.parametrize("name", ["qwen35", "qwen3next", "glm4moe", "step35"])
def test_that_patch_5_refuses_no_mtp_context_that_can_be_built(name: str, made_model: Callable[[str], Path]) -> None:
    assert ask("mtp_context", made_model(name)) == {"loads": True, "is_made": True}


@pytest.mark.parametrize("name", ["qwen35", "qwen3next"])
def test_that_patch_6_moves_the_snapshots_of_a_slot_with_its_state(
    name: str, made_model: Callable[[str], Path]
) -> None:
    answer = ask("rollbacks_after_states_have_moved", made_model(name))
    assert answer == {"granted": [True] * 3, "are_equal": [True] * 3}


def test_that_without_patch_6_a_slot_that_was_moved_goes_back_to_the_state_of_another(random_qwen35: Path) -> None:
    answer = ask("rollbacks_after_states_have_moved", random_qwen35, stock=True)
    assert answer == {"granted": [True] * 3, "are_equal": [False, True, True]}


def test_that_slots_that_decode_and_go_back_at_random_never_see_a_wrong_state(random_qwen35: Path) -> None:
    answer = ask("random_rollbacks", random_qwen35)
    assert isinstance(answer, dict)
    # Batches of other shapes round differently, up to 0.006 here; a wrong state is off by 0.2 or more.
    assert answer["difference"] < 0.02  # type: ignore[operator]
    assert answer["n_granted"] > 20  # type: ignore[operator]
    stock = ask("random_rollbacks", random_qwen35, stock=True)
    assert isinstance(stock, dict)
    assert stock["difference"] > 0.2  # type: ignore[operator]


def test_that_with_patch_7_a_decode_of_the_shape_before_sends_no_graph(demo_model: Path) -> None:
    # Over RPC a decode sends its inputs, 4 kB here, and without the patch all nodes of its graph, 188 kB.
    assert ask_graphs("bytes_of_a_decode", demo_model)["bytes"] < 8_000
    assert ask_graphs("bytes_of_a_decode", demo_model, stock=True)["bytes"] > 100_000


def test_that_patch_8_computes_what_follows_attention_for_the_outputs_alone(random_qwen35: Path) -> None:
    rows = {"mtp_attn_pregate": 5, "mtp_attn_out": 2, "mtp_post_ffn": 2, "result_output": 2}
    assert ask_graphs("rows_of_the_mtp_layer", random_qwen35) == rows
    assert ask_graphs("rows_of_the_mtp_layer", random_qwen35, stock=True) == rows | {
        "mtp_attn_out": 5,
        "mtp_post_ffn": 5,
    }


@pytest.mark.parametrize("family", ["demo_model", "random_qwen35"])
def test_that_patches_7_to_9_leave_every_draft_as_it_was_bit_for_bit(
    family: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(family)
    drafts = ask_graphs("drafts", model)
    assert drafts["n_drafted"] > 20
    assert drafts == ask_graphs("drafts", model, stock=True)


@pytest.mark.parametrize("family", ["demo_model", "random_qwen35"])
def test_that_patch_9_reuses_the_graphs_of_shapes_that_take_turns(family: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(family)
    # All but the first of each shape: of 20 rounds, the first builds.
    assert ask_graphs("reused_graphs", model) == {"target": 0.95, "draft": 0.95, "cow": 0.95}
    assert ask_graphs("reused_graphs", model, stock=True) == {"target": 0.0, "draft": 0.0, "cow": 0.0}


@pytest.mark.parametrize("name", ["qwen35", "qwen3next", "glm4moe", "step35"])
def test_that_a_kept_graph_computes_the_bits_of_one_that_is_built_anew(
    name: str, made_model: Callable[[str], Path]
) -> None:
    kept = ask_graphs("random_batches", made_model(name))
    anew = ask_graphs("random_batches", made_model(name), LLAMA_GRAPH_REUSE_DISABLE="1")
    assert kept["n_reused"] > 40
    assert anew["n_reused"] == 0
    assert kept["digest"] == anew["digest"]
    assert kept["is_quiet"]  # no word of buffers of other sizes when the context is freed


def test_that_a_graph_of_the_warm_up_is_not_kept_for_a_decode(random_glm4moe: Path) -> None:
    assert ask_graphs("decode_after_warmup", random_glm4moe) == {"is_right": True}


def test_that_samplers_on_a_backend_draw_the_same_tokens_with_patch_9(random_qwen35: Path) -> None:
    tokens = ask_graphs("tokens_of_a_backend_sampler", random_qwen35)
    assert tokens == ask_graphs("tokens_of_a_backend_sampler", random_qwen35, stock=True)


def test_that_with_patch_9_a_device_without_memory_for_a_small_graph_decodes_with_the_large_one(
    demo_model: Path,
) -> None:
    answer = ask_graphs("decode_without_memory_for_a_small_graph", demo_model)
    assert answer == {"are_equal": True, "was_refused": True}


def test_that_the_memory_of_kept_graphs_is_counted_and_bounded(demo_model: Path) -> None:
    answer = ask_graphs("compute_memory", demo_model)
    assert answer["loaded"] < answer["used"] < 2 * answer["loaded"]
    stock = ask_graphs("compute_memory", demo_model, stock=True)
    assert stock["used"] == stock["loaded"]


@pytest.mark.parametrize("name", ["qwen35", "qwen3next"])
def test_that_patch_10_sends_a_device_state_as_one_graph(name: str, made_model: Callable[[str], Path]) -> None:
    assert ask("messages_of_device_states", made_model(name)) == {"save": [1, 0], "restore": [1, 0], "is_right": True}
    stock = ask("messages_of_device_states", made_model(name), stock=True)
    assert isinstance(stock, dict)
    assert (stock["save"], stock["is_right"]) == (stock["restore"], True)
    assert stock["save"][0] == 0 and stock["save"][1] > 2  # type: ignore[index]  # a message a tensor


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="this system has no transparent huge pages"
)
def test_that_patch_11_asks_for_huge_pages_for_large_buffers(model_of_large_states: Path) -> None:
    answer = ask("bytes_in_huge_pages", model_of_large_states)
    assert isinstance(answer, dict)
    assert min(answer.values()) >= 8 << 20  # type: ignore[type-var]  # the state, live and saved
    assert ask("bytes_in_huge_pages", model_of_large_states, stock=True) == {"context": 0, "device_state": 0}


@pytest.mark.parametrize("name", ["qwen35", "glm4moe", "gemma4", "dense"])
def test_that_with_patch_12_the_state_of_a_sequence_fits_contexts_with_other_numbers_of_streams(
    name: str, made_model: Callable[[str], Path]
) -> None:
    taken = {"taken": True, "is_right": True, "position": 9}
    assert ask("sequence_among_other_streams", made_model(name)) == [taken] * 4
    refused = {"taken": False, "is_right": False, "position": -1}
    stock = ask("sequence_among_other_streams", made_model(name), stock=True)
    assert stock == [taken, refused, refused, refused]
