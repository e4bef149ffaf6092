"""Files that must be refused, and odd ones that must not: each stands for a case from the field."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

from tests.models.families import (
    WIDTH,
    make_dense,
    make_gemma4,
    make_gemma4_assistant,
    make_glm4moe,
    make_hy_v3,
    make_hybrid,
    make_mimo2,
    make_step35,
)
from tests.models.made_model import MadeModel


def _without(model: MadeModel, *prefixes: str) -> MadeModel:
    model.tensors = {name: t for name, t in model.tensors.items() if not name.startswith(prefixes)}
    return model


def _vocabulary_only(path: Path) -> None:
    model = make_dense()
    model.tensors = {}
    model.write(path)


def _no_tokenizer(path: Path) -> None:
    model = make_dense()
    model.kv["vocab_size"] = len(model.tensors["token_embd.weight"])
    model.tokenizer = None
    model.write(path)


def _mtp_without_tensors(path: Path) -> None:
    _without(make_hybrid("qwen35"), "blk.4.").write(path)


def _chained_mtp_without_tensors(path: Path) -> None:
    _without(make_step35(), "blk.4.", "blk.5.", "blk.6.").write(path)


def _two_mtp_layers(path: Path) -> None:
    make_hybrid("qwen35", n_nextn=2).write(path)


def _mtp_of_dense(path: Path) -> None:
    model = make_dense()
    model.kv |= {"block_count": 4, "nextn_predict_layers": 1}
    for name in [name for name in model.tensors if name.startswith("blk.2.")]:
        model.tensors[name.replace("blk.2.", "blk.3.")] = model.tensors[name]
    model.add_nextn("blk.3.", WIDTH)
    model.write(path)


def _draft_only(path: Path) -> None:
    _without(make_hybrid("qwen35"), "token_embd", "blk.0.", "blk.1.", "blk.2.", "blk.3.").write(path)


def _mtp_layers_only(path: Path) -> None:
    _without(make_hybrid("qwen35"), "blk.0.", "blk.1.", "blk.2.", "blk.3.").write(path)


def _missing_tensor(path: Path) -> None:
    _without(make_dense(), "blk.1.ffn_up").write(path)


def _unknown_architecture(path: Path) -> None:
    model = make_dense()
    model.architecture = "frobnicate9"
    model.write(path)


def _too_many_layers(path: Path) -> None:
    model = make_dense()
    model.kv["block_count"] = 513
    model.write(path)


def _impossible_experts(path: Path) -> None:
    model = make_dense()
    model.kv |= {"expert_count": 2, "expert_used_count": 3}
    model.write(path)


def _impossible_norm(path: Path) -> None:
    model = make_dense()
    model.kv["attention.layer_norm_rms_epsilon"] = -1.0
    model.write(path)


def _odd_rotation(path: Path) -> None:
    model = make_glm4moe()
    model.kv["rope.dimension_count"] = 15
    model.write(path)


def _no_rotation(path: Path) -> None:
    model = make_hybrid("qwen35")
    model.kv["rope.dimension_count"] = 0  # llama.cpp never comes back from its first decode
    model.write(path)


def _unknown_gating(path: Path) -> None:
    model = make_glm4moe()
    model.kv["expert_gating_func"] = 9
    model.write(path)


def _shared_keys(path: Path) -> None:
    model = make_gemma4()
    model.kv["attention.shared_kv_layers"] = 3
    model.write(path)


def _assistant(**changes: object) -> MadeModel:
    model = make_gemma4_assistant(make_gemma4())
    model.kv |= {name.replace("__", "."): value for name, value in changes.items()}
    return model


def _assistant_of_other_width(path: Path) -> None:
    model = _assistant(embedding_length_out=48)
    t = model.tensors
    t["nextn.pre_projection.weight"] = t["nextn.pre_projection.weight"][:, :96]
    t["nextn.post_projection.weight"] = t["nextn.post_projection.weight"][:48]
    model.write(path)


def _assistant_of_more_keys(path: Path) -> None:
    _assistant(attention__head_count_kv=2).write(path)  # its files have no keys of their own that could tell


def _assistant_of_other_window(path: Path) -> None:
    _assistant(attention__sliding_window=32).write(path)


def _assistant_of_fewer_tokens(path: Path) -> None:
    model = _assistant()
    assert model.tokenizer is not None
    model.tokenizer = dataclasses.replace(model.tokenizer, tokens=model.tokenizer.tokens[:280])
    model.tensors["token_embd.weight"] = model.tensors["token_embd.weight"][:280]
    model.write(path)


def _assistant_of_other_tokens(path: Path) -> None:
    model = _assistant()
    assert model.tokenizer is not None
    tokens = list(model.tokenizer.tokens)
    tokens[70], tokens[71] = tokens[71], tokens[70]
    model.tokenizer = dataclasses.replace(model.tokenizer, tokens=tuple(tokens))
    model.write(path)


def _assistant_without_projection(path: Path) -> None:
    _without(_assistant(), "nextn.pre_projection").write(path)


def _assistant_with_a_trunk(path: Path) -> None:
    _assistant(nextn_predict_layers=1).write(path)


def _assistant_without_window(path: Path) -> None:
    _assistant(attention__sliding_window_pattern=[False, False]).write(path)


def _gemma_that_ends_in_a_window(path: Path) -> None:
    make_gemma4((True, True, False, True)).write(path)


def _mimo_with_separate_keys(path: Path) -> None:
    model = make_mimo2()
    sizes = [64, 32, 32]
    for layer in range(5):
        joint = model.tensors.pop(f"blk.{layer}.attn_qkv.weight")
        for name, part in zip("qkv", np.split(joint, np.cumsum(sizes)[:-1]), strict=True):
            model.tensors[f"blk.{layer}.attn_{name}.weight"] = part
    model.write(path)


def _hy_that_rotates_a_part(path: Path) -> None:
    model = make_hy_v3()
    model.kv["rope.dimension_count"] = 16
    model.write(path)


def _zero_interval(path: Path) -> None:
    model = make_hybrid("qwen35")
    model.kv["full_attention_interval"] = 0
    model.write(path)


def _repeated_token(path: Path) -> None:
    model = make_dense()
    assert model.tokenizer is not None
    tokens = list(model.tokenizer.tokens)
    tokens[70] = tokens[69]
    object.__setattr__(model.tokenizer, "tokens", tuple(tokens))
    model.write(path)


def _truncated(path: Path) -> None:
    make_dense().write(path)
    path.write_bytes(path.read_bytes()[:-1000])


def _cut_in_header(path: Path) -> None:
    make_dense().write(path)
    path.write_bytes(path.read_bytes()[:3000])


def _big_endian(path: Path) -> None:
    make_dense().write(path, endianess=gguf.GGUFEndian.BIG)


def _version_1(path: Path) -> None:
    make_dense().write(path)
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 4, 1)
    path.write_bytes(content)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _not_gguf(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + bytes(np.arange(256, dtype=np.uint8)))


def _split_without_second_part(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint16("split.no", 0)
    writer.add_uint16("split.count", 2)
    writer.add_int32("split.tensors.count", 2)
    writer.add_tensor("token_embd.weight", np.zeros((288, WIDTH), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


HOSTILE: dict[str, Callable[[Path], None]] = {
    "vocabulary-only": _vocabulary_only,
    "no-tokenizer": _no_tokenizer,
    "mtp-without-tensors": _mtp_without_tensors,
    "chained-mtp-without-tensors": _chained_mtp_without_tensors,
    "two-mtp-layers": _two_mtp_layers,
    "mtp-of-dense": _mtp_of_dense,
    "draft-only": _draft_only,
    "mtp-layers-only": _mtp_layers_only,
    "missing-tensor": _missing_tensor,
    "unknown-architecture": _unknown_architecture,
    "too-many-layers": _too_many_layers,
    "impossible-experts": _impossible_experts,
    "impossible-norm": _impossible_norm,
    "odd-rotation": _odd_rotation,
    "no-rotation": _no_rotation,
    "unknown-gating": _unknown_gating,
    "shared-keys": _shared_keys,
    "assistant-of-other-width": _assistant_of_other_width,
    "assistant-of-more-keys": _assistant_of_more_keys,
    "assistant-of-other-window": _assistant_of_other_window,
    "assistant-of-fewer-tokens": _assistant_of_fewer_tokens,
    "assistant-of-other-tokens": _assistant_of_other_tokens,
    "assistant-without-projection": _assistant_without_projection,
    "assistant-with-a-trunk": _assistant_with_a_trunk,
    "assistant-without-window": _assistant_without_window,
    "gemma-that-ends-in-a-window": _gemma_that_ends_in_a_window,
    "mimo-with-separate-keys": _mimo_with_separate_keys,
    "hy-that-rotates-a-part": _hy_that_rotates_a_part,
    "zero-interval": _zero_interval,
    "repeated-token": _repeated_token,
    "truncated": _truncated,
    "cut-in-header": _cut_in_header,
    "big-endian": _big_endian,
    "version-1": _version_1,
    "empty": _empty,
    "not-gguf": _not_gguf,
    "split-00001-of-00002": _split_without_second_part,
}
"""Name of the file (without suffix) -> what writes it."""
