"""One tiny model of every MTP family that llama.cpp drives, and a plain one without MTP.

| name | memory | MTP | way back |
| --- | --- | --- | --- |
| qwen35 | hybrid | one head | rollback by llama.cpp itself |
| qwen35moe | hybrid, experts | one head | rollback by llama.cpp itself |
| qwen3next | hybrid, experts | one head | checkpoints; rollback with our patch |
| glm4moe | attention, experts | one head | dropping keys and values |
| step35 | attention, windows, experts | three chained heads | dropping keys and values |
| mimo2 | attention, windows, experts | two chained heads | dropping keys and values |
| hy_v3 | attention, experts | two chained heads | dropping keys and values |
| gemma4, gemma4-assistant | attention, windows | a second file | dropping keys and values |
| dense (architecture llama) | attention | none | not needed |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.models.made_model import MadeModel
from tests.models.tiny_tokenizer import make_tokenizer

WIDTH = 64
HEADS = (2, 1, 32)
_INNER = 96
_GAIN = 0.5
_EXPERTS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}
# Tuned so that greedy acceptance is neither 0 nor 1.
_NOISE = {
    "qwen35": 0.45,
    "qwen35moe": 0.45,
    "qwen3next": 0.45,
    "glm4moe": 0.35,
    "step35": 0.5,
    "mimo2": 0.45,
    "hy_v3": 0.4,
    "gemma4": 0.5,
    "llama": 0.4,
}


@dataclass(frozen=True, slots=True)
class HybridShape:
    """Sizes of a hybrid model: of ``n_layer`` layers every ``interval``-th is attention, the others are delta nets.

    ``heads``: query heads, key-value heads, width of a head; ``delta_heads``: key heads, value heads, width of a head.
    ``sections``: how many of the rotated pairs belong to each position of M-RoPE. ``noise`` None: that of the family.
    """

    width: int = WIDTH
    n_layer: int = 4
    interval: int = 2
    heads: tuple[int, int, int] = HEADS
    delta_heads: tuple[int, int, int] = (1, 2, 32)
    inner: int = _INNER
    expert_inner: int = 32
    n_rot: int = 16
    # Pair i of the 8 rotated ones belongs to section i % 3, so these cover all.
    sections: tuple[int, int, int, int] = (3, 3, 2, 0)
    noise: float | None = None
    nextn_noise: float | None = None


def make_model(architecture: str, *, seed: int = 1, noise: float | None = None) -> MadeModel:
    """An empty model with the noise that suits its family."""
    family = architecture.removesuffix("-assistant")
    return MadeModel(architecture, make_tokenizer(), seed=seed, noise=_NOISE[family] if noise is None else noise)


def _sizes(
    width: int,
    n_layer: int,
    n_nextn: int,
    n_rot: int,
    *,
    heads: tuple[int, int, int] = HEADS,
    inner: int = _INNER,
) -> dict[str, Any]:
    n_head, n_kv, size = heads
    sizes: dict[str, Any] = {
        "context_length": 1024,
        "embedding_length": width,
        "block_count": n_layer + n_nextn,
        "feed_forward_length": inner,
        "attention.head_count": n_head,
        "attention.head_count_kv": n_kv,
        "attention.key_length": size,
        "attention.value_length": size,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": n_rot,
    }
    return sizes | ({"nextn_predict_layers": n_nextn} if n_nextn else {})


def make_hybrid(architecture: str, shape: HybridShape = HybridShape(), *, n_nextn: int = 1) -> MadeModel:
    """qwen35 (dense), qwen35moe or qwen3next (experts), and MTP blocks."""
    has_experts = architecture != "qwen35"
    n_layer, width = shape.n_layer, shape.width
    m = make_model(architecture, noise=shape.noise)
    m.kv = _hybrid_sizes(shape, n_nextn, has_experts=has_experts)
    if architecture != "qwen3next":
        m.kv["rope.dimension_sections"] = list(shape.sections)
    m.add_vocabulary(width)
    for layer in range(n_layer + n_nextn):
        p = f"blk.{layer}."
        if layer == n_layer and shape.nextn_noise is not None:
            m.noise = shape.nextn_noise
        m.add_norms(p, width, "attn_norm", "post_attention_norm")
        if layer < n_layer and (layer + 1) % shape.interval:
            m.add_delta_net(p, width, shape.delta_heads, gain=_GAIN, joint_gates=architecture == "qwen3next")
        else:
            m.add_attention(p, width, shape.heads, is_gated=True, gain=_GAIN)
        if has_experts:
            m.add_experts(p, width, gain=_GAIN, inner=shape.expert_inner, has_shared_gate=True)
        else:
            m.add_ffn(p, width, shape.inner, gain=_GAIN)
        if layer >= n_layer:
            m.add_nextn(p, width)
    return m


def _hybrid_sizes(shape: HybridShape, n_nextn: int, *, has_experts: bool) -> dict[str, Any]:
    n_key, n_value, size = shape.delta_heads
    sizes = _sizes(shape.width, shape.n_layer, n_nextn, shape.n_rot, heads=shape.heads, inner=shape.inner) | {
        "full_attention_interval": shape.interval,
        "ssm.conv_kernel": 4,
        "ssm.state_size": size,
        "ssm.group_count": n_key,
        "ssm.time_step_rank": n_value,
        "ssm.inner_size": n_value * size,
    }
    if not has_experts:
        return sizes
    experts = _EXPERTS | {"expert_feed_forward_length": shape.expert_inner}
    return sizes | experts | {"expert_shared_feed_forward_length": shape.expert_inner}


def make_glm4moe() -> MadeModel:
    """Attention and experts: 3 layers, the first dense, and one MTP block."""
    n_layer = 3
    m = make_model("glm4moe")
    m.kv = _sizes(WIDTH, n_layer, 1, 16) | _EXPERTS
    m.kv |= {
        "expert_shared_count": 1,
        "leading_dense_block_count": 1,
        "expert_weights_scale": 1.0,
        "expert_weights_norm": True,
        "expert_gating_func": 2,  # sigmoid
    }
    m.add_vocabulary(WIDTH)
    for layer in range(n_layer + 1):
        p = f"blk.{layer}."
        m.add_norms(p, WIDTH, "attn_norm", "post_attention_norm")
        m.add_attention(p, WIDTH, HEADS, gain=_GAIN)
        if layer == 0:
            m.add_ffn(p, WIDTH, _INNER, gain=_GAIN)
        else:
            m.add_experts(p, WIDTH, gain=_GAIN, has_bias=True)
    m.add_nextn(f"blk.{n_layer}.", WIDTH)
    return m


def make_step35() -> MadeModel:
    """Attention with sliding windows and experts: 4 layers and three MTP blocks, one for each draft step."""
    n_layer, n_nextn = 4, 3
    m = make_model("step35")
    m.kv = _sizes(WIDTH, n_layer, n_nextn, 32) | _EXPERTS  # full attention rotates half of the 32
    m.kv |= {
        "expert_shared_feed_forward_length": 32,
        "expert_weights_norm": True,
        "expert_gating_func": 2,
        "leading_dense_block_count": 1,
        "attention.sliding_window": 64,
        "rope.freq_base_swa": 10000.0,
        "attention.sliding_window_pattern": [layer % 2 == 1 for layer in range(n_layer)] + [True] * n_nextn,
    }
    m.add_vocabulary(WIDTH)
    for layer in range(n_layer + n_nextn):
        p = f"blk.{layer}."
        m.add_norms(p, WIDTH, "attn_norm", "ffn_norm")
        m.add_attention(p, WIDTH, HEADS, gain=_GAIN)
        m.tensors[p + "attn_gate.weight"] = m.random(HEADS[0], WIDTH)  # one gate a head
        if layer == 0 or layer >= n_layer:
            m.add_ffn(p, WIDTH, _INNER, gain=_GAIN)
        else:
            m.add_experts(p, WIDTH, gain=_GAIN, has_bias=True)
        if layer >= n_layer:
            m.add_nextn(p, WIDTH)
    return m


def make_mimo2() -> MadeModel:
    """Attention with sliding windows and experts: 3 layers and two MTP blocks, with keys and values in one matrix."""
    n_layer, n_nextn = 3, 2
    m = make_model("mimo2")
    m.kv = _sizes(WIDTH, n_layer, n_nextn, HEADS[2]) | _EXPERTS
    m.kv |= {
        "expert_weights_norm": True,
        "expert_gating_func": 2,
        "attention.sliding_window": 64,
        "rope.freq_base_swa": 10000.0,
        "attention.sliding_window_pattern": [layer % 2 == 1 for layer in range(n_layer)] + [True] * n_nextn,
    }
    m.add_vocabulary(WIDTH)
    for layer in range(n_layer + n_nextn):
        p = f"blk.{layer}."
        m.add_norms(p, WIDTH, "attn_norm", "ffn_norm")
        m.add_attention(p, WIDTH, HEADS, gain=_GAIN)
        m.tensors[p + "attn_qkv.weight"] = np.concatenate([m.tensors.pop(f"{p}attn_{x}.weight") for x in "qkv"])
        for name in ("attn_q_norm", "attn_k_norm"):
            del m.tensors[f"{p}{name}.weight"]
        if layer == 0 or layer >= n_layer:
            m.add_ffn(p, WIDTH, _INNER, gain=_GAIN)
        else:
            m.add_experts(p, WIDTH, gain=_GAIN, has_bias=True)
            m.tensors = {name: t for name, t in m.tensors.items() if "_shexp" not in name}
        if layer >= n_layer:
            m.add_nextn(p, WIDTH)
    return m


def make_hy_v3() -> MadeModel:
    """Attention and experts: 3 layers, the first dense, and two MTP blocks, one for each draft step."""
    n_layer, n_nextn = 3, 2
    m = make_model("hy_v3")
    m.kv = _sizes(WIDTH, n_layer, n_nextn, HEADS[2]) | _EXPERTS | {"expert_shared_feed_forward_length": 32}
    m.add_vocabulary(WIDTH)
    for layer in range(n_layer + n_nextn):
        p = f"blk.{layer}."
        m.add_norms(p, WIDTH, "attn_norm", "ffn_norm")
        m.add_attention(p, WIDTH, HEADS, gain=_GAIN)
        if layer == 0:
            m.add_ffn(p, WIDTH, _INNER, gain=_GAIN)
        else:
            m.add_experts(p, WIDTH, gain=_GAIN)
            m.tensors[p + "exp_probs_b"] = m.ones(4, 0.0)
        if layer >= n_layer:
            m.add_nextn(p, WIDTH)
    return m


_GEMMA = {
    "attention.sliding_window": 64,
    "attention.key_length_swa": HEADS[2],
    "attention.value_length_swa": HEADS[2],
    "rope.freq_base_swa": 10000.0,
    "rope.dimension_count_swa": HEADS[2],
    "attention.shared_kv_layers": 0,
}


def _add_gemma_block(m: MadeModel, layer: int, width: int, *, has_keys: bool, is_windowed: bool) -> None:
    p, size = f"blk.{layer}.", HEADS[2]
    m.add_attention(p, width, HEADS)
    if not has_keys:
        for name in ("attn_k", "attn_v", "attn_k_norm"):
            del m.tensors[f"{p}{name}.weight"]
    m.add_ffn(p, width, _INNER)
    m.add_norms(p, width, "attn_norm", "ffn_norm")
    # The stream is sqrt(width) times the embedding, and these norms set what each half adds to it.
    m.add_norms(p, width, "post_attention_norm", "post_ffw_norm", scale=2.0 * m.noise)
    m.add_norms(p, size, "attn_q_norm", scale=size**-0.5)  # attention itself scales by 1
    m.tensors[p + "layer_output_scale.weight"] = m.ones(1)
    if not is_windowed:
        m.tensors["rope_freqs.weight"] = m.ones(size // 2)


def make_gemma4(windows: tuple[bool, ...] = (True, True, True, False)) -> MadeModel:
    """The target: attention, in some layers with sliding windows, and no MTP layers of its own."""
    m = make_model("gemma4")
    m.kv = _sizes(WIDTH, len(windows), 0, HEADS[2]) | _GEMMA
    m.kv |= {"attention.sliding_window_pattern": list(windows), "embedding_length_per_layer_input": 0}
    m.add_vocabulary(WIDTH)
    for layer, is_windowed in enumerate(windows):
        _add_gemma_block(m, layer, WIDTH, has_keys=True, is_windowed=is_windowed)
    return m


def make_gemma4_assistant(target: MadeModel) -> MadeModel:
    """The MTP head of ``target`` as a file of its own; its layers read the keys and values of the target's last two."""
    width, windows = 96, [True, False]  # the width must differ from the target's
    m = make_model("gemma4-assistant", seed=2)
    m.kv = _sizes(width, 0, len(windows), HEADS[2]) | _GEMMA
    m.kv |= {"attention.sliding_window_pattern": windows, "embedding_length_out": WIDTH}
    into = np.linalg.qr(m.random(width, WIDTH).astype(np.float64))[0].astype(np.float32)  # keeps lengths
    pre = np.concatenate([into, m.random(width, WIDTH, gain=2 * m.noise)], 1)
    m.tensors["nextn.pre_projection.weight"] = pre
    m.tensors["nextn.post_projection.weight"] = m.random(WIDTH, width)
    m.tensors["token_embd.weight"] = target.head @ into.T  # the target's LM head in the assistant's space
    m.tensors["output_norm.weight"] = m.ones(width)
    for layer, is_windowed in enumerate(windows):
        _add_gemma_block(m, layer, width, has_keys=False, is_windowed=is_windowed)
    return m


def make_dense() -> MadeModel:
    """A plain transformer without MTP: 3 layers of architecture llama."""
    n_layer = 3
    m = make_model("llama")
    m.kv = _sizes(WIDTH, n_layer, 0, HEADS[2])
    m.add_vocabulary(WIDTH)
    for layer in range(n_layer):
        p = f"blk.{layer}."
        m.add_norms(p, WIDTH, "attn_norm", "ffn_norm")
        m.add_attention(p, WIDTH, HEADS, gain=_GAIN)
        for name in ("attn_q_norm", "attn_k_norm"):
            del m.tensors[f"{p}{name}.weight"]
        m.add_ffn(p, WIDTH, _INNER, gain=_GAIN)
    return m


MAKERS: dict[str, Callable[[], MadeModel]] = {
    "qwen35": lambda: make_hybrid("qwen35"),
    "qwen35moe": lambda: make_hybrid("qwen35moe"),
    "qwen3next": lambda: make_hybrid("qwen3next"),
    "glm4moe": make_glm4moe,
    "step35": make_step35,
    "mimo2": make_mimo2,
    "hy_v3": make_hy_v3,
    "gemma4": make_gemma4,
    "gemma4-assistant": lambda: make_gemma4_assistant(make_gemma4()),
    "dense": make_dense,
}
"""Name of the file (without suffix) -> its maker."""
