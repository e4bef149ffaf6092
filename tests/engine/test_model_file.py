"""The facts of model files, the refusals before a load, and the predicted bytes against libllama's own log."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftscope.engine.errors import EngineError, ErrorCode
from draftscope.engine.events import Mechanism
from draftscope.engine.gguf import open_gguf
from draftscope.engine.model_file import check_loadable, inspect_model
from draftscope.engine.model_memory import cells_per_slot
from draftscope.engine.mtp_head import MtpFamily

MadeModel = Callable[[str], Path]


def test_the_demo_models_facts(demo_model: Path) -> None:
    model = check_loadable(demo_model)
    assert (model.architecture, model.n_layer, model.n_embd, model.n_vocab) == ("qwen35", 8, 256, 3072)
    assert model.n_params == 6_846_768
    assert model.has_tokenizer
    assert "<|im_start|>" in model.chat_template
    assert model.mtp.can_draft
    assert model.mtp.types[0][0] == "Q8_0"
    assert (model.mtp.family, model.mtp.n_claimed, model.mtp.n_found) == (MtpFamily.SINGLE_HEAD, 1, 1)


@pytest.mark.parametrize(
    ("name", "family", "n_heads", "rollback", "kv_removal"),
    [
        ("qwen35", MtpFamily.SINGLE_HEAD, 1, True, False),
        ("qwen3next", MtpFamily.SINGLE_HEAD, 1, True, False),
        ("glm4moe", MtpFamily.SINGLE_HEAD, 1, False, True),
        ("qwen35moe", MtpFamily.SINGLE_HEAD, 1, True, False),
        ("step35", MtpFamily.CHAINED_HEADS, 3, False, True),
        ("mimo2", MtpFamily.CHAINED_HEADS, 2, False, True),
        ("hy_v3", MtpFamily.CHAINED_HEADS, 2, False, True),
        ("gemma4", MtpFamily.ASSISTANT, 0, False, True),
        ("dense", MtpFamily.NONE, 0, False, True),
        ("no-tokenizer", MtpFamily.NONE, 0, False, True),
    ],
)
def test_every_family_is_recognised(
    name: str, family: MtpFamily, n_heads: int, rollback: bool, kv_removal: bool, made_model: MadeModel
) -> None:
    model = check_loadable(made_model(name))
    ways = {way.name: way for way in model.ways_back}
    assert (model.mtp.family, model.mtp.n_claimed, model.mtp.n_found) == (family, n_heads, n_heads)
    assert (ways["rollback"].is_possible, ways["kv removal"].is_possible) == (rollback, kv_removal)
    assert model.mtp.can_draft == (n_heads > 0)
    assert model.mtp.can_draft or model.mtp.reason
    assert model.has_tokenizer == (name != "no-tokenizer")


def test_qwen3next_says_that_its_rollback_needs_the_patched_build(random_qwen3next: Path) -> None:
    rollback = next(way for way in inspect_model(random_qwen3next).ways_back if way.name == "rollback")
    assert "Draftscope builds" in rollback.why


REFUSED = {
    "vocabulary-only": (ErrorCode.UNSUPPORTED_MODEL, "vocabulary only"),
    "draft-only": (ErrorCode.UNSUPPORTED_MODEL, "only the MTP layers"),
    "mtp-layers-only": (ErrorCode.UNSUPPORTED_MODEL, "only the MTP layers"),
    "gemma4-assistant": (ErrorCode.UNSUPPORTED_MODEL, "is a draft file: only the MTP head"),
    "mtp-without-tensors": (ErrorCode.UNSUPPORTED_MODEL, "blk.4.nextn.eh_proj.weight"),
    "chained-mtp-without-tensors": (ErrorCode.UNSUPPORTED_MODEL, "claims 3 MTP layers"),
    "two-mtp-layers": (ErrorCode.UNSUPPORTED_MODEL, "exactly one"),
    "mtp-of-dense": (ErrorCode.UNSUPPORTED_MODEL, "cannot draft with those of llama"),
    "unknown-architecture": (ErrorCode.UNSUPPORTED_MODEL, "frobnicate9"),
    "missing-tensor": (ErrorCode.UNSUPPORTED_MODEL, "lacks the tensor 'blk.1.ffn_up.weight'"),
    "impossible-norm": (ErrorCode.BAD_FILE, "impossible value -1.0"),
    "odd-rotation": (ErrorCode.BAD_FILE, "rotates 15 of 32"),
    "no-rotation": (ErrorCode.BAD_FILE, "rotates 0 of 32"),
    "unknown-gating": (ErrorCode.UNSUPPORTED_MODEL, "chooses its experts"),
    "shared-keys": (ErrorCode.BAD_FILE, "too many layers"),
    "too-many-layers": (ErrorCode.BAD_FILE, "513 layers"),
    "impossible-experts": (ErrorCode.BAD_FILE, "expert counts"),
    "mimo-with-separate-keys": (ErrorCode.UNSUPPORTED_MODEL, "blk.3.attn_qkv.weight"),
    "hy-that-rotates-a-part": (ErrorCode.BAD_FILE, "rotates 16 of 32"),
    "assistant-of-other-width": (ErrorCode.UNSUPPORTED_MODEL, "is a draft file"),
    "zero-interval": (ErrorCode.BAD_FILE, "0th layer"),
    "repeated-token": (ErrorCode.BAD_FILE, "1 tokens twice"),
    "truncated": (ErrorCode.BAD_FILE, "needs at least"),
    "cut-in-header": (ErrorCode.BAD_FILE, "cut short"),
    "big-endian": (ErrorCode.BAD_FILE, "big-endian"),
    "version-1": (ErrorCode.BAD_FILE, "version 1"),
    "empty": (ErrorCode.BAD_FILE, "is empty"),
    "not-gguf": (ErrorCode.BAD_FILE, "not a GGUF file"),
    "split-00001-of-00002": (ErrorCode.BAD_FILE, "split-00002-of-00002.gguf"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_run_is_refused_with_the_reason_and_what_to_do(name: str, made_model: MadeModel) -> None:
    code, reason = REFUSED[name]
    with pytest.raises(EngineError) as caught:
        check_loadable(made_model(name))
    assert (caught.value.code, reason in caught.value.message) == (code, True)
    assert caught.value.hint


def test_without_mtp_a_model_runs_whose_mtp_layers_alone_are_unusable(made_model: MadeModel) -> None:
    for name in ("two-mtp-layers", "chained-mtp-without-tensors"):
        model = check_loadable(made_model(name), use_mtp=False)
        assert not model.mtp.can_draft
        assert model.mtp.needs_no_mtp
    with pytest.raises(EngineError):
        check_loadable(made_model("mtp-without-tensors"), use_mtp=False)


def test_facts_of_a_file_that_cannot_run_can_still_be_read(vocab_only_model: Path, draft_only_model: Path) -> None:
    vocabulary = inspect_model(vocab_only_model)
    assert vocabulary.obstacle is not None
    assert vocabulary.n_vocab == 288
    assert vocabulary.memory is None
    head = inspect_model(draft_only_model)
    assert head.obstacle is not None
    assert head.mtp.n_found == 1


def test_a_low_bit_mtp_head_is_pointed_out(random_qwen35: Path, tmp_path: Path) -> None:
    path = tmp_path / "coarse.gguf"
    _copy_with_type(random_qwen35, path, "blk.4.nextn.eh_proj.weight", gguf.GGMLQuantizationType.TQ1_0)
    assert inspect_model(path).mtp.low_bit_types == ("TQ1_0",)
    assert inspect_model(random_qwen35).mtp.low_bit_types == ()


def _copy_with_type(source: Path, target: Path, name: str, kind: gguf.GGMLQuantizationType) -> None:
    """A file with the same metadata that is read here, and one tensor widened and stored in another type."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "qwen35")
    for key in ("block_count", "nextn_predict_layers", "embedding_length"):
        writer.add_uint32(f"qwen35.{key}", int(reader.get_field(f"qwen35.{key}").contents()))  # type: ignore[union-attr]
    for tensor in reader.tensors:
        if tensor.name == name:
            packed = gguf.quants.quantize(np.ones((64, 256), dtype=np.float32), kind)
            writer.add_tensor(name, packed, raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, np.array(tensor.data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_parts(source: Path, folder: Path) -> list[Path]:
    """``source`` in two files, as llama.cpp's own splitter names and marks them."""
    reader = gguf.GGUFReader(source)
    paths = [folder / f"model-{n:05d}-of-00002.gguf" for n in (1, 2)]
    for number, path in enumerate(paths):
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        if number == 0:
            for key in ("block_count", "embedding_length", "attention.head_count"):
                writer.add_uint32(f"llama.{key}", int(reader.get_field(f"llama.{key}").contents()))  # type: ignore[union-attr]
            writer.add_tokenizer_model("none")
        for tensor in reader.tensors[number::2]:
            writer.add_tensor(tensor.name, np.array(tensor.data))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return paths


def test_the_parts_of_a_split_model_are_read_as_one(dense_model: Path, tmp_path: Path) -> None:
    first, second = _write_parts(dense_model, tmp_path)
    whole, split = inspect_model(dense_model), check_loadable(first)
    assert (split.n_parts, split.n_tensors, split.n_params) == (2, whole.n_tensors, whole.n_params)
    with pytest.raises(EngineError, match="later part"):
        check_loadable(second)
    shutil.copy(first, second)
    with pytest.raises(EngineError, match="not part 2"):
        check_loadable(first)
    second.unlink()
    with pytest.raises(EngineError, match=r"part 2 \(model-00002-of-00002.gguf\) is missing"):
        check_loadable(first)
    renamed = first.rename(tmp_path / "renamed.gguf")
    with pytest.raises(EngineError, match=r"its name does not end in -00001-of-00002\.gguf"):
        check_loadable(renamed)


def test_a_slot_is_rounded_up_with_room_for_a_draft() -> None:
    assert cells_per_slot(256, 0) == 512  # the sampled token does not fit into 256
    assert cells_per_slot(252, 3) == 256
    assert cells_per_slot(253, 3) == 512


def test_rollback_multiplies_the_recurrent_state_only(random_qwen35: Path) -> None:
    memory = inspect_model(random_qwen35).memory
    assert memory is not None
    plain, rolling = memory.slot(1000, 3, 0), memory.slot(1000, 3, 3)
    assert rolling.recurrent_bytes == 4 * plain.recurrent_bytes
    assert (rolling.kv_bytes, rolling.draft_kv_bytes) == (plain.kv_bytes, plain.draft_kv_bytes)


def test_ways_back_keep_a_state_for_each_step_or_one_saved_state(random_qwen35: Path) -> None:
    memory = inspect_model(random_qwen35).memory
    assert memory is not None
    one = memory.recurrent_bytes
    sizes = {way: memory.slot_with(way, 1000, 3) for way in Mechanism}
    assert sizes[Mechanism.ROLLBACK] == memory.slot(1000, 3, 3)
    assert sizes[Mechanism.KV_REMOVAL] == sizes[Mechanism.NONE] == memory.slot(1000, 3, 0)
    for way in (Mechanism.COW, Mechanism.DEVICE, Mechanism.HOST):
        assert (sizes[way].recurrent_bytes, sizes[way].checkpoint_bytes) == (one, one)
        assert sizes[way].total_bytes == memory.slot(1000, 3, 0).total_bytes + one
        assert memory.slot_with(way, 1000, 0).checkpoint_bytes == 0


_ASK_LIBLLAMA = """
import json, sys
from llama_cpp import llama_cpp as L
lines, keep = [], []
@L.llama_log_callback
def log(level, text, data):
    lines.append(text.decode("utf-8", "replace"))
L.llama_log_set(log, None)
answers = {}
for path in sys.argv[1:]:
    params = L.llama_model_default_params()
    params.load_mtp = True
    model = L.llama_model_load_from_file(path.encode(), params)
    context = L.llama_context_default_params()
    context.n_ctx, context.n_seq_max, context.n_rs_seq = 2048, 2, 3
    context.n_batch = context.n_ubatch = 64
    context.swa_full = True
    context.n_threads = context.n_threads_batch = 1
    del lines[:]
    target = L.llama_init_from_model(model, context)
    answer = {"granted": L.llama_n_rs_seq(target), "target": "".join(lines), "draft": ""}
    if L.llama_model_n_layer_nextn(model):
        context.ctx_type, context.n_rs_seq, context.ctx_other = 1, 0, target
        del lines[:]
        keep.append(L.llama_init_from_model(model, context))
        answer["draft"] = "".join(lines)
    keep.append(target)
    answers[path] = answer
json.dump(answers, sys.stdout)
sys.stdout.flush()
import os
os._exit(0)
"""

_KV_SIZE = re.compile(r"llama_kv_cache: size =.*?K \(\w+\): +([\d.]+) MiB, V \(\w+\): +([\d.]+) MiB")
_RECURRENT_SIZE = re.compile(r"llama_memory_recurrent: size =.*?R \(\w+\): +([\d.]+) MiB, S \(\w+\): +([\d.]+) MiB")


def _mib(pattern: re.Pattern[str], log: str) -> float:
    return sum(float(size) for sizes in pattern.findall(log) for size in sizes)


def test_predicted_bytes_are_those_that_libllama_allocates(demo_model: Path, made_model: MadeModel) -> None:
    names = ("qwen35", "qwen35moe", "qwen3next", "glm4moe", "step35", "mimo2", "hy_v3", "gemma4", "dense")
    paths = [str(demo_model), *(str(made_model(name)) for name in names)]
    done = subprocess.run(
        [sys.executable, "-c", _ASK_LIBLLAMA, *paths], capture_output=True, text=True, timeout=60, check=True
    )
    for path, answer in json.loads(done.stdout).items():
        memory = inspect_model(path).memory
        assert memory is not None
        states = 2 * (1 + answer["granted"])
        expected = {
            "kv": memory.kv_bytes_per_token * 2048,
            "draft": memory.draft_kv_bytes_per_token * 2048,
            "recurrent": memory.recurrent_bytes * states,
        }
        measured = {
            "kv": _mib(_KV_SIZE, answer["target"]),
            "draft": _mib(_KV_SIZE, answer["draft"]),
            "recurrent": _mib(_RECURRENT_SIZE, answer["target"]),
        }
        # The log has two decimals for each of up to four terms.
        assert {k: v / 2**20 for k, v in expected.items()} == pytest.approx(measured, abs=0.021), path


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 2**32), value=st.integers(0, 2**64 - 1), width=st.sampled_from([1, 4, 8]))
def test_changed_metadata_gives_facts_or_a_refusal(
    place: int, value: int, width: int, made_model: MadeModel, tmp_path: Path
) -> None:
    source = made_model(("qwen35", "step35", "gemma4", "glm4moe")[place % 4])
    content = bytearray(source.read_bytes())
    with open_gguf(source) as file:
        header = file.data_offset
    at = place // 4 % header
    content[at : at + width] = (value % (1 << (8 * width))).to_bytes(width, "little")
    path = tmp_path / "changed.gguf"
    path.write_bytes(content)
    code = ErrorCode.BAD_FILE
    try:
        assert inspect_model(path).n_parts == 1
    except EngineError as error:
        code = error.code
    assert code is ErrorCode.BAD_FILE
