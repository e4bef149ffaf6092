"""Writes a checkpoint of train.py as GGUF, architecture qwen35 with one MTP block.

python export.py --ckpt ckpt/final.pt --tokenizer tokenizer.json --out draftscope-demo --types q8_0
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from config import Config
from numpy.typing import NDArray

Array = NDArray[np.float32]

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)

_TYPES = {
    "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
_DESCRIPTION = (
    "Tiny hybrid (gated delta net + attention) language model with an MTP head, trained from scratch on a CPU as a "
    "demo of speculative decoding."
)
_ATTENTION = {
    "q.weight": "attn_q.weight",
    "k.weight": "attn_k.weight",
    "v.weight": "attn_v.weight",
    "out.weight": "attn_output.weight",
    "q_norm.weight": "attn_q_norm.weight",
    "k_norm.weight": "attn_k_norm.weight",
}
_DELTA_NET = {
    "qkv.weight": "attn_qkv.weight",
    "gate.weight": "attn_gate.weight",
    "conv": "ssm_conv1d.weight",
    "dt_bias": "ssm_dt.bias",
    "A_log": "ssm_a",
    "beta.weight": "ssm_beta.weight",
    "alpha.weight": "ssm_alpha.weight",
    "norm.weight": "ssm_norm.weight",
    "out.weight": "ssm_out.weight",
}
_BLOCK = {
    "attn_norm.weight": "attn_norm.weight",
    "post_norm.weight": "post_attention_norm.weight",  # the norm before the feed-forward layer, despite its name
    "ffn.gate.weight": "ffn_gate.weight",
    "ffn.up.weight": "ffn_up.weight",
    "ffn.down.weight": "ffn_down.weight",
}
_MTP = {
    "eh_proj.weight": "nextn.eh_proj.weight",
    "enorm.weight": "nextn.enorm.weight",
    "hnorm.weight": "nextn.hnorm.weight",
    "head_norm.weight": "nextn.shared_head_norm.weight",
}


def tensors_of(c: Config, state: dict[str, Array]) -> dict[str, Array]:
    """The state of ``model.TinyMTP`` under the file's names; numpy's order (out, in), which ggml lists reversed."""
    tensors = {"token_embd.weight": state["embd.weight"], "output_norm.weight": state["out_norm.weight"]}

    def take(names: dict[str, str], source: str, target: str) -> None:
        tensors.update({target + new: state[source + old] for old, new in names.items()})

    for layer in range(c.n_layer):
        take(_BLOCK, f"layers.{layer}.", f"blk.{layer}.")
        take(_DELTA_NET if c.is_recurrent(layer) else _ATTENTION, f"layers.{layer}.attn.", f"blk.{layer}.")
        if c.is_recurrent(layer):
            tensors[f"blk.{layer}.ssm_a"] = -np.exp(tensors[f"blk.{layer}.ssm_a"])
    last = f"blk.{c.n_layer}."  # the MTP block follows the trunk
    take(_BLOCK, "mtp.block.", last)
    take(_ATTENTION, "mtp.block.attn.", last)
    take(_MTP, "mtp.", last)
    return tensors


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: dict[str, Any]) -> None:
    """Add the vocabulary of a parsed tokenizer.json (byte-level BPE, pre-tokenizer qwen35) and the chat template."""
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **special}
    names = [name for name, _ in sorted(ids.items(), key=lambda item: item[1])]
    if sorted(ids.values()) != list(range(len(ids))):
        raise SystemExit("The tokenizer's ids have gaps.")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    kinds = [gguf.TokenType.CONTROL if name in special else gguf.TokenType.NORMAL for name in names]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35")
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(special["<|im_end|>"])
    writer.add_pad_token_id(special["<|endoftext|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def add_sizes(writer: gguf.GGUFWriter, c: Config) -> None:
    """Add the keys that llama.cpp needs for this architecture."""
    sizes = {
        "context_length": c.n_ctx,
        "embedding_length": c.n_embd,
        "block_count": c.n_layer + c.n_nextn,
        "nextn_predict_layers": c.n_nextn,
        "feed_forward_length": c.n_ff,
        "full_attention_interval": c.full_attention_interval,
        "attention.head_count": c.n_head,
        "attention.head_count_kv": c.n_head_kv,
        "attention.key_length": c.head_dim,
        "attention.value_length": c.head_dim,
        "rope.dimension_count": c.n_rot,
        "ssm.conv_kernel": c.d_conv,
        "ssm.state_size": c.d_state,
        "ssm.group_count": c.n_k_heads,
        "ssm.time_step_rank": c.n_v_heads,
        "ssm.inner_size": c.value_dim,
    }
    for key, value in sizes.items():
        writer.add_uint32(f"qwen35.{key}", value)
    writer.add_float32("qwen35.attention.layer_norm_rms_epsilon", c.eps)
    writer.add_float32("qwen35.rope.freq_base", c.rope_base)
    writer.add_array("qwen35.rope.dimension_sections", c.rope_sections())


def write_gguf(path: Path, c: Config, tensors: dict[str, Array], tokenizer: dict[str, Any], kind: str) -> None:
    """Write one file. Small and sensitive tensors stay F32; the convolution has to."""
    tensor_type, file_type = _TYPES[kind]
    writer = gguf.GGUFWriter(path, "qwen35")
    writer.add_type("model")
    writer.add_name("Tiny Qwen3.5-style MTP demo")
    writer.add_description(_DESCRIPTION)
    writer.add_license("PSF-2.0 AND public domain (training data)")
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_sizes(writer, c)
    add_tokenizer(writer, tokenizer)
    for name, tensor in tensors.items():
        x = np.ascontiguousarray(tensor, dtype=np.float32)
        is_small = x.ndim == 1 or any(part in name for part in ("conv1d", "ssm_alpha", "ssm_beta"))
        if is_small or kind == "f32" or (kind == "q8_0" and x.shape[-1] % 32):
            writer.add_tensor(name, x)
        else:
            writer.add_tensor(name, gguf.quants.quantize(x, tensor_type), raw_dtype=tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Write one file for each type asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=Path(__file__).with_name("tokenizer.json"))
    parser.add_argument("--out", required=True, help="path without .gguf; -Q8_0 and the like is added")
    parser.add_argument("--types", default="q8_0", help="of f32, f16, q8_0; separated by commas")
    parser.add_argument("--n-ctx", type=int, default=2048, help="context length to write; the loss is flat up to 2048")
    a = parser.parse_args()
    checkpoint = torch.load(a.ckpt, map_location="cpu", weights_only=True)
    c = Config(**checkpoint["config"])
    c.n_ctx = a.n_ctx
    tensors = tensors_of(c, {name: value.float().numpy() for name, value in checkpoint["model"].items()})
    tokenizer = json.loads(a.tokenizer.read_text(encoding="utf-8"))
    for kind in a.types.split(","):
        path = Path(f"{a.out}-{kind.upper()}.gguf")
        write_gguf(path, c, tensors, tokenizer, kind)
        n_params = sum(math.prod(tensor.shape) for tensor in tensors.values())
        print(f"{path}: {path.stat().st_size} bytes, {len(tensors)} tensors, {n_params} parameters")


if __name__ == "__main__":
    main()
